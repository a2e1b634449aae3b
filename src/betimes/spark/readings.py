"""What engines read off themselves, and how it gets from the workers to the driver.

A worker has no line to the driver but its rows. So an engine puts one more row under the changes of
a batch, which is no change at all: what it has told in this batch, counted, and now and then its
readings, as JSON. On the way out Spark collects these rows into the progress of the query, where
they cost nothing, and takes them off the changes; no sink ever sees one.

Readings tell about load, so they are not the same when a batch is run again. They are no part of
the state, and of nothing that has to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from betimes.engine import DetectorStats, Engine
from betimes.model.change import LATE, REJECTED
from betimes.spark.rows import SLOT

READINGS = "readings"
"""What stands in the place of `change_type` in a row with readings."""

OUTPUT = "betimes.output"
"""Name of what engines say, in the progress of a query."""

LEAST_PAUSE = 1.0
"""Seconds between two readings of an engine: people do not look more often."""

SHARE = 0.01
"""Part of the time that may be spent on readings; with order="key" every key has its own."""


TALLIED = ("type", "change_type", "status", "detected_at", "ts")
"""The columns that are looked at for a `Tally`."""


class Tally(msgspec.Struct):
    """What the changes of a batch are, counted."""

    inserted: int = 0
    confirmed: int = 0
    deleted: int = 0
    final: int = 0
    """Results that became final, less those that were repaired."""
    late: int = 0
    rejected: int = 0
    waited: int = 0
    """Sum of the times from a result's ts to when it was first told, in microseconds."""

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


class SlotReading(msgspec.Struct, frozen=True):
    """What the engine of a slot says with a batch."""

    slot: int
    rows: int
    """How many rows of the input were looked at."""
    tally: Tally
    detectors: list[DetectorStats] | None = None
    """Readings, now and then."""


class Teller:
    """Puts what is to be said under the changes of an engine."""

    def __init__(self, slot: int, clock: Callable[[], float]) -> None:
        self._slot = slot
        self._clock = clock
        self._due = clock()

    def told(self, changes: pa.Table, engine: Engine, rows: int) -> pa.Table:
        reading = SlotReading(self._slot, rows, Tally.of(changes), self._readings(engine))
        row = {SLOT: self._slot, "change_type": READINGS, "payload": _text(reading)}
        return pa.concat_tables([changes, pa.Table.from_pylist([row], schema=changes.schema)])

    def _readings(self, engine: Engine) -> list[DetectorStats] | None:
        began = self._clock()
        if began < self._due:
            return None
        readings = together(engine.stats.values())
        ended = self._clock()
        self._due = ended + max(LEAST_PAUSE, (ended - began) / SHARE)
        return readings


def without_readings(changes: pa.Table) -> pa.Table:
    """The changes alone."""
    return changes.filter(pc.invert(pc.is_in(changes["change_type"], pa.array([READINGS]))))


def collected(changes: DataFrame) -> DataFrame:
    """The changes alone, with what engines say in the progress of the query."""
    said = F.col("change_type") == READINGS
    heard = F.collect_list(F.when(said, F.col("payload"))).alias("readings")
    return changes.observe(OUTPUT, heard).filter(~said)


def parsed(texts: Iterable[str]) -> list[SlotReading]:
    """Readings as they came."""
    return [msgspec.json.decode(text, type=SlotReading) for text in texts]


def together(readings: Iterable[DetectorStats]) -> list[DetectorStats]:
    """One reading for each detector, out of those of several keys or slots.

    Counts are added up. The clock is that of the one furthest behind, the slack the largest, the
    attenuation the mean; a mean time counts for as much as the events that were handled.
    """
    groups: dict[str, list[DetectorStats]] = {}
    for reading in readings:
        groups.setdefault(reading.detector, []).append(reading)
    return [_joined(group) for group in groups.values()]


_SUMS = (
    "buffered", "remembered", "released", "handled", "replays", "replayed", "snapshots",
    "snapshot_bytes", "retracted", "late", "errors", "busy",
)  # fmt: skip


def _joined(group: list[DetectorStats]) -> DetectorStats:
    if len(group) == 1:
        return group[0]
    clocks = [reading.clock for reading in group if reading.clock is not None]
    several: Mapping[str, object] = {
        "clock": min(clocks, default=None),
        "slack": max(reading.slack for reading in group),
        "attenuation": sum(reading.attenuation for reading in group) / len(group),
        "busy_factor": max(reading.busy_factor for reading in group),
        "latency_provisional": _mean((r.latency_provisional, r.handled) for r in group),
        "latency_final": _mean((r.latency_final, r.handled) for r in group),
    }
    sums = {name: sum(getattr(reading, name) for reading in group) for name in _SUMS}
    return msgspec.structs.replace(group[0], **several, **sums)


def _mean(weighted: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _text(readings: SlotReading) -> str:
    return msgspec.json.encode(readings).decode()
