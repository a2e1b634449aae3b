"""Occurrence times: checked, and converted to int64 microseconds.

Nothing is guessed. A time that is missing, not a number, negative or beyond int64 is reported with
its row and the reason, either as an error or as a `Rejected` row alongside the good ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from betimes.model.errors import EventError

LAST = 2**62 - 1
"""The largest time that an event may have: 146,000 years, so that sums still fit 64 bits."""

_EXPECTED = f"expected a time in whole microseconds, 0 to {LAST}"
_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


class Rejected(msgspec.Struct, frozen=True):
    """A row that is not a valid event: its number, the value found, and why it was rejected."""

    row: int
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"row {self.row}: {self.reason}, got {self.value!r}"


def fault(value: object) -> str | None:
    """What is wrong with a time; None if nothing is.

    >>> fault(5), fault(None), fault(-1)
    (None, 'the time is missing', 'the time is negative')
    """
    if value is None:
        return "the time is missing"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return "the time is not a number"
    if isinstance(value, float | np.floating):
        if value != value:
            return "the time is NaN"
        if not float(value).is_integer():
            return "the time is not a whole number of microseconds"
    whole = int(value)
    if whole < 0:
        return "the time is negative"
    if whole >= 2**63:
        return "the time is beyond int64"
    return "the time is too far in the future" if whole > LAST else None


def from_values(values: Sequence[object]) -> tuple[np.ndarray, list[Rejected]]:
    """Times from Python values: an int64 array (0 where rejected) and the rejected rows."""
    try:
        # The common case: all plain ints, so there is no need to look at each value.
        if set(map(type, values)) <= {int}:
            ts = np.array(values, dtype=np.int64)
            if _are_sound(ts):
                return ts, []
    except OverflowError:
        pass
    faults = [fault(value) for value in values]
    rejected = [
        Rejected(row, value, reason)
        for row, (value, reason) in enumerate(zip(values, faults, strict=True))
        if reason is not None
    ]
    good = [int(v) if f is None else 0 for v, f in zip(values, faults, strict=True)]  # type: ignore[call-overload]
    return np.array(good, dtype=np.int64), rejected


def from_arrow(column: pa.ChunkedArray[Any], name: str) -> tuple[np.ndarray, list[Rejected]]:
    """Times from an Arrow column: integers, whole floats, or timestamps of any unit."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _from_timestamps(column, kind.unit)
    if pa.types.is_int64(kind) and column.null_count == 0:
        ts = column.to_numpy()
        if _are_sound(ts):
            return ts, []
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise EventError(
            f"{_EXPECTED}, or a timestamp, in column {name!r}, got a column of type {kind}; "
            "pass the name of the time column with time=, or cast it first"
        )
    return from_values(column.to_pylist())


def _from_timestamps(column: pa.ChunkedArray[Any], unit: str) -> tuple[np.ndarray, list[Rejected]]:
    """Timestamps of any unit, truncated to microseconds."""
    raw = column.cast(pa.int64())
    if raw.null_count == 0:
        numbers = raw.to_numpy()
        if unit == "ns" and _are_sound(numbers):
            return numbers // 1000, []
        factor = _PER_UNIT.get(unit, 1)
        if unit != "ns" and (
            not len(numbers) or (numbers.min() >= 0 and numbers.max() <= LAST // factor)
        ):
            return numbers * factor, []
    scale = _PER_UNIT.get(unit)
    values = [
        None if v is None else v // 1000 if scale is None else v * scale for v in raw.to_pylist()
    ]
    return from_values(values)


def _are_sound(ts: np.ndarray) -> bool:
    return not len(ts) or bool(ts.min() >= 0 and ts.max() <= LAST)


def refuse(rejected: Sequence[Rejected]) -> None:
    """Raise an error that names the first rejected row, if there is one."""
    if rejected:
        more = f" ({len(rejected) - 1} more rows are bad)" if len(rejected) > 1 else ""
        first = rejected[0]
        expected = _EXPECTED if "time" in first.reason else "expected a complete event"
        raise EventError(f"{expected}; {first}{more}")
