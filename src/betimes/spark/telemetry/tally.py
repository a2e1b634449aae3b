"""Changes of a batch, counted."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from betimes.model.change import LATE, REJECTED

TALLIED = ("type", "change_type", "status", "detected_at", "ts")
"""The columns that a `Tally` is counted from."""


class Tally(msgspec.Struct):
    """How many changes of each kind a batch has."""

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
        waited = [changes[name].to_numpy()[first] for name in ("detected_at", "ts")]
        waits = np.maximum(waited[0] - waited[1], 0).sum()
        final = real & _equal(changes, "status", "final")
        counts = {
            "inserted": first.sum(),
            "confirmed": (real & _equal(changes, "change_type", "confirm")).sum(),
            "deleted": deleted.sum(),
            "final": (final & ~deleted).sum() - (final & deleted).sum(),
            "late": late.sum(),
            "rejected": rejected.sum(),
            "waited": waits,
        }
        return cls(**{name: int(count) for name, count in counts.items()})

    def __add__(self, other: Tally) -> Tally:
        names = self.__struct_fields__
        return Tally(*(getattr(self, name) + getattr(other, name) for name in names))


def _equal(changes: pa.Table, column: str, value: str) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = pc.equal(changes[column], pa.scalar(value)).to_numpy()
    return same
