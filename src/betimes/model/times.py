"""Occurrence times: checked, and converted to int64 microseconds.

A time is a number, which counts a *unit* since 1970 (microseconds, unless you say otherwise), a
timestamp, which knows its unit, or ISO 8601 text. Where no zone is given, it is UTC.

Nothing is guessed. A time that is missing, not a number, negative or beyond int64 is reported with
its row and the reason, either as an error or as a `Rejected` row alongside the good ones. Numbers
that look like another unit are taken as they are; `doubt` puts the suspicion into words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.errors import EventError, OptionError
from betimes.model.hints import did_you_mean

Ints = npt.NDArray[np.int64]

LAST = 2**62 - 1
"""The largest time that an event may have: 146,000 years, so that sums still fit 64 bits."""

_PER = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""A unit in microseconds, as a fraction."""
_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "whole microseconds", "ns": "nanoseconds"}
UNITS = tuple(_PER)
USUAL = "us"

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*", re.ASCII)
_NOT_TEXT = "the time is not ISO 8601 text, such as 2026-05-01T12:00:00Z"
_FRACTION = "the time is not a whole number of microseconds"
_SAY_UNIT = '; if numbers count seconds, set unit="s"'
_PLAUSIBLE = (10**15, 4 * 10**15)
"""Microseconds: what happens today, generously, from 2001 to 2096."""


class Rejected(msgspec.Struct, frozen=True):
    """A row that is not a valid event: its number, the value found, and why it was rejected."""

    row: int
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"row {self.row}: {self.reason}, got {self.value!r}"


def check_unit(unit: object) -> None:
    """Refuse a unit that is not one of UNITS; None stands for the usual one."""
    if unit is not None and unit not in UNITS:
        raise OptionError(
            f"expected unit to be one of {', '.join(UNITS)}, got unit={unit!r}"
            + did_you_mean(unit, UNITS)
        )


def last(unit: str | None) -> int:
    """The largest time that an event may have, in this unit."""
    count, per = _PER[unit or USUAL]
    return min(LAST * per // count, 2**63 - 1)


def in_microseconds(numbers: Ints, unit: str | None) -> Ints:
    """Times in this unit as microseconds; none of them may be negative or beyond `last`."""
    count, per = _PER[unit or USUAL]
    if count == per == 1:
        return numbers
    return numbers * count if per == 1 else numbers // per


def fault(value: object, unit: str | None = None) -> str | None:
    """What is wrong with a number as a time; None if nothing is.

    >>> fault(5), fault(None), fault(-1), fault(1.5), fault(1.5, "ms")
    (None, 'the time is missing', 'the time is negative', 'the time is not a whole number of \
microseconds', None)
    """
    if value is None:
        return "the time is missing"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return "the time is not a number"
    if isinstance(value, float | np.floating):
        if value != value:
            return "the time is NaN"
        if unit in (None, USUAL) and not float(value).is_integer():
            return _FRACTION
        if math.isinf(value):
            return "the time is infinite"
    whole = _whole(value, unit)
    if whole < 0:
        return "the time is negative"
    if whole >= 2**63:
        return "the time is beyond int64"
    return "the time is too far in the future" if whole > LAST else None


def _whole(value: Any, unit: str | None) -> int:
    """A number as microseconds; fractions are rounded to the nearest, nanoseconds cut off."""
    count, per = _PER[unit or USUAL]
    if isinstance(value, float | np.floating) and not float(value).is_integer():
        return round(float(value) * count / per)
    return int(value) * count // per


def of(value: object, unit: str | None = None) -> int | None:
    """The time that a value stands for, in microseconds; None if it is not a time.

    >>> of(3, "s"), of("1970-01-01T01:00:00.000005+01:00"), of("noon")
    (3000000, 5, None)
    """
    if isinstance(value, str):
        value, unit = _read(value, unit)[0], USUAL
    return _whole(value, unit) if fault(value, unit) is None else None


def from_values(
    values: Sequence[object], unit: str | None = None
) -> tuple[np.ndarray, list[Rejected]]:
    """Times from Python numbers: an int64 array (0 where rejected) and the rejected rows."""
    try:
        # The common case: all plain ints, so there is no need to look at each value.
        if set(map(type, values)) <= {int}:
            ts = np.array(values, dtype=np.int64)
            if _are_sound(ts, unit):
                return in_microseconds(ts, unit), []
    except OverflowError:
        pass
    return _sifted(values, [fault(value, unit) for value in values], values, unit)


def _sifted(
    shown: Sequence[object], faults: Sequence[str | None], numbers: Sequence[Any], unit: str | None
) -> tuple[np.ndarray, list[Rejected]]:
    """The good times, and the rows with a fault, with the value that is shown for them."""
    rejected = [
        Rejected(row, value, reason)
        for row, (value, reason) in enumerate(zip(shown, faults, strict=True))
        if reason is not None
    ]
    good = [0 if f is not None else _whole(n, unit) for n, f in zip(numbers, faults, strict=True)]
    return np.array(good, dtype=np.int64), rejected


def from_arrow(
    column: pa.ChunkedArray[Any], name: str, unit: str | None = None
) -> tuple[np.ndarray, list[Rejected]]:
    """Times from an Arrow column: numbers in this unit, timestamps of any unit, or ISO text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_timestamp(kind):
        return _from_numbers(column.cast(pa.int64()), kind.unit)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _from_text(column, unit)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise EventError(
            f"{_expected(unit)}, a timestamp, or ISO 8601 text, in column {name!r}, got a column "
            f"of type {kind}; cast it first, or choose another column for the time"
        )
    return _from_numbers(column, unit)


def _from_numbers(
    column: pa.ChunkedArray[Any], unit: str | None
) -> tuple[np.ndarray, list[Rejected]]:
    if pa.types.is_int64(column.type) and column.null_count == 0:
        # Of a single chunk, without a copy.
        numbers = (column.chunk(0) if column.num_chunks == 1 else column).to_numpy()
        if _are_sound(numbers, unit):
            return in_microseconds(numbers, unit), []
    return from_values(column.to_pylist(), unit)


def _from_text(column: pa.ChunkedArray[Any], unit: str | None) -> tuple[np.ndarray, list[Rejected]]:
    """Times from ISO 8601 text: all at once if all have a zone, or none has; else one by one.

    One by one, numbers are numbers: a column of a CSV file becomes text if one of them is bad.
    """
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return _from_instants(column, column.cast(kind).cast(pa.int64()))
        except pa.ArrowInvalid:
            continue
    texts = column.to_pylist()
    found = [(None, fault(None)) if text is None else _read(text, unit) for text in texts]
    return _sifted(texts, [wrong for _, wrong in found], [ts for ts, _ in found], USUAL)


def _read(text: str, unit: str | None) -> tuple[int | None, str | None]:
    """The microseconds that text stands for, and what is wrong with it if it stands for none."""
    if _NUMBER.fullmatch(text):
        number = float(text) if "." in text else int(text)
        wrong = fault(number, unit)
        return (None, wrong) if wrong else (_whole(number, unit), None)
    instant = _instant(text)
    return instant, _NOT_TEXT if instant is None else fault(instant)


def _from_instants(
    column: pa.ChunkedArray[Any], instants: pa.ChunkedArray[Any]
) -> tuple[np.ndarray, list[Rejected]]:
    if instants.null_count == 0:
        ts = instants.to_numpy()
        if _are_sound(ts, USUAL):
            return ts, []
    return _judged(column.to_pylist(), instants.to_pylist())


def _judged(
    texts: Sequence[str | None], instants: Sequence[int | None]
) -> tuple[np.ndarray, list[Rejected]]:
    faults = [
        _NOT_TEXT if text is not None and instant is None else fault(instant)
        for text, instant in zip(texts, instants, strict=True)
    ]
    return _sifted(texts, faults, instants, USUAL)


def _instant(text: str) -> int | None:
    """The microseconds that ISO 8601 text stands for; None if it is something else."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _START) // _MICROSECOND


def _are_sound(ts: np.ndarray, unit: str | None) -> bool:
    return not len(ts) or bool(ts.min() >= 0 and ts.max() <= last(unit))


def doubt(first: int, final: int) -> str | None:
    """What is odd about times that nobody gave a unit for; None if nothing is.

    Times that lie within days of 1970, or tens of thousands of years ahead, but would be of this
    century in another unit, are most likely in that unit.

    >>> print(doubt(1_700_000_000, 1_700_000_060))
    the times are from 1970-01-01 00:28:20, if they are microseconds; as seconds, they would be \
from 2023-11-14 22:13:20: set unit="s", or unit="us" if they are right
    >>> doubt(0, 60_000_000), doubt(1_700_000_000_000_000, 1_700_000_000_000_000)
    (None, None)
    """
    least, most = _PLAUSIBLE
    for unit in UNITS:
        count, per = _PER[unit]
        if unit != USUAL and least <= first * count // per and final * count // per <= most:
            return (
                f"the times are from {_date(first)}, if they are microseconds; as "
                f"{_WORDS[unit]}, they would be from {_date(first * count // per)}: set "
                f'unit="{unit}", or unit="us" if they are right'
            )
    return None


def _date(ts: int) -> str:
    try:
        return f"{_START + timedelta(microseconds=ts):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"the year {1970 + ts // 31_556_952_000_000:,}"


def _expected(unit: str | None) -> str:
    return f"expected a time in {_WORDS[unit or USUAL]}, 0 to {last(unit)}"


def refuse(rejected: Sequence[Rejected], unit: str | None = None) -> None:
    """Raise an error that names the first rejected row, if there is one."""
    if rejected:
        first, others = rejected[0], len(rejected) - 1
        more = f" ({others} more {'row is' if others == 1 else 'rows are'} bad)" if others else ""
        expected = "expected a complete event"
        if "time" in first.reason:
            text = isinstance(first.value, str) and "ISO" in first.reason
            expected = "expected a time" if text else _expected(unit)
        fraction = first.reason == _FRACTION and first.value not in (math.inf, -math.inf)
        hint = _SAY_UNIT if fraction else ""
        raise EventError(f"{expected}; {first}{hint}{more}")
