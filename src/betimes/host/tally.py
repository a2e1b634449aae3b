"""Changes, counted from their columns."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.change import LATE, REJECTED

TALLIED = ("type", "change_type", "status", "detected_at", "ts")
"""The columns that a `Tally` is counted from."""


class Tally(msgspec.Struct):
    """How many changes there are of each kind."""

    inserted: int = 0
    confirmed: int = 0
    deleted: int = 0
    final: int = 0
    """Results that became final, minus those that were repaired."""
    late: int = 0
    rejected: int = 0
    waited: int = 0
    """Sum over new results of the time from `ts` until they were first reported, in us."""

    @classmethod
    def of(cls, changes: pa.Table) -> Tally:
        late, rejected = _equal(changes, "type", LATE), _equal(changes, "type", REJECTED)
        real = ~(late | rejected)
        first = real & _equal(changes, "change_type", "insert")
        deleted = real & _equal(changes, "change_type", "delete")
        waits = (_numbers(changes, "detected_at") - _numbers(changes, "ts"))[first]
        final = real & _equal(changes, "status", "final")
        counts = {
            "inserted": first.sum(),
            "confirmed": (real & _equal(changes, "change_type", "confirm")).sum(),
            "deleted": deleted.sum(),
            "final": (final & ~deleted).sum() - (final & deleted).sum(),
            "late": late.sum(),
            "rejected": rejected.sum(),
            "waited": np.maximum(waits, 0).sum(),
        }
        return cls(**{name: int(count) for name, count in counts.items()})

    def __add__(self, other: Tally) -> Tally:
        names = self.__struct_fields__
        return Tally(*(getattr(self, name) + getattr(other, name) for name in names))


def finals_of(changes: pa.Table) -> Counter[str]:
    """How many results of each detector became final."""
    aside = _equal(changes, "type", LATE) | _equal(changes, "type", REJECTED)
    deleted, final = _equal(changes, "change_type", "delete"), _equal(changes, "status", "final")
    counted: Any = changes["detector"].filter(pa.array(final & ~aside & ~deleted)).value_counts()
    return Counter({each["values"]: each["counts"] for each in counted.to_pylist()})


def _numbers(changes: pa.Table, column: str) -> npt.NDArray[np.int64]:
    whole: Any = changes[column].cast(pa.int64())
    numbers: npt.NDArray[np.int64] = whole.fill_null(0).to_numpy()
    return numbers


def _equal(changes: pa.Table, column: str, value: str) -> npt.NDArray[np.bool_]:
    import pyarrow.compute as pc  # slow to load

    same: npt.NDArray[np.bool_] = pc.equal(changes[column], pa.scalar(value)).to_numpy()
    return same
