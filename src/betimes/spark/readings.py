"""What engines read off themselves, and how it gets from the workers to the driver.

A worker has no line to the driver but its rows. So now and then an engine puts one more row under
the changes of a batch, which is no change at all, with its readings as JSON. On the way
out Spark collects these rows into the progress of the query, where they cost nothing, and takes
them off the changes; no sink ever sees one. The same pass counts the changes.

Readings tell about load, so they are not the same when a batch is run again. They are no part of
the state, and of nothing that has to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
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
"""Name of the counts of changes, in the progress of a query."""

LEAST_PAUSE = 1.0
"""Seconds between two readings of an engine: people do not look more often."""

SHARE = 0.01
"""Part of the time that may be spent on readings; with order="key" every key has its own."""


class SlotReading(msgspec.Struct, frozen=True):
    """The readings of one engine."""

    slot: int
    detectors: list[DetectorStats]


class Teller:
    """Adds readings to the changes of an engine when it is time to."""

    def __init__(self, slot: int, clock: Callable[[], float]) -> None:
        self._slot = slot
        self._clock = clock
        self._due = clock()

    def told(self, changes: pa.Table, engine: Engine) -> pa.Table:
        began = self._clock()
        if began < self._due:
            return changes
        readings = SlotReading(self._slot, together(engine.stats.values()))
        row = {SLOT: self._slot, "change_type": READINGS, "payload": _text(readings)}
        ended = self._clock()
        self._due = ended + max(LEAST_PAUSE, (ended - began) / SHARE)
        return pa.concat_tables([changes, pa.Table.from_pylist([row], schema=changes.schema)])


def without_readings(changes: pa.Table) -> pa.Table:
    """The changes alone."""
    return changes.filter(pc.invert(pc.is_in(changes["change_type"], pa.array([READINGS]))))


def counted(changes: DataFrame) -> DataFrame:
    """The changes alone, with counts and readings in the progress of the query."""
    type, change = F.col("type"), F.col("change_type")
    real = ~type.isin(LATE, REJECTED) & (change != READINGS)
    first = real & (change == "insert")
    waited = F.greatest(F.col("detected_at") - F.col("ts"), F.lit(0))
    seen = changes.observe(
        OUTPUT,
        F.count_if(first).alias("inserted"),
        F.count_if(real & (change == "confirm")).alias("confirmed"),
        F.count_if(real & (change == "delete")).alias("deleted"),
        F.count_if(real & (F.col("status") == "final") & (change != "delete")).alias("final"),
        F.count_if(type == LATE).alias("late"),
        F.count_if(type == REJECTED).alias("rejected"),
        F.avg(F.when(first, waited)).alias("latency"),
        F.collect_list(F.when(change == READINGS, F.col("payload"))).alias("readings"),
    )
    return seen.filter(change != READINGS)


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
