"""Occurrence times: whatever a user has, checked and turned into int64 microseconds.

Nothing is guessed: a time that is missing, not a number, negative or beyond int64 is named with
its row and the reason, either as an error or as a `Rejected` row beside the good ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from betimes.model.errors import EventError

LAST = 2**63 - 1
_EXPECTED = "expected a time in whole microseconds, 0 to 9223372036854775807"


class Rejected(msgspec.Struct, frozen=True):
    """A row that is no event: where it stood, what stood there, and why it was refused."""

    row: int
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"row {self.row}: {self.reason}, got {self.value!r}"


def fault(value: object) -> str | None:
    """Say what is wrong with one time, or None.

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
    if value < 0:
        return "the time is negative"
    if value > LAST:
        return "the time is beyond int64"
    return None


def from_values(values: Sequence[object]) -> tuple[np.ndarray, list[Rejected]]:
    """Times from Python values: an int64 array (0 where refused) and the refused rows."""
    try:
        # The common case, all plain ints, without a look at each value.
        if set(map(type, values)) <= {int}:
            ts = np.array(values, dtype=np.int64)
            if not len(ts) or ts.min() >= 0:
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
        column = pc.cast(column, pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64())
        kind = pa.int64()
    if pa.types.is_int64(kind) and column.null_count == 0:
        ts = column.to_numpy()
        if not len(ts) or ts.min() >= 0:
            return ts, []
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise EventError(
            f"{_EXPECTED}, or a timestamp, in column {name!r}, got a column of type {kind}; "
            "name the column that holds the time with time=, or cast it first"
        )
    return from_values(column.to_pylist())


def refuse(rejected: Sequence[Rejected]) -> None:
    """Raise an error that names the first refused row, if there is any."""
    if rejected:
        more = f" ({len(rejected) - 1} more rows are bad)" if len(rejected) > 1 else ""
        raise EventError(f"{_EXPECTED}; {rejected[0]}{more}")
