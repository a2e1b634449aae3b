"""What engines read off themselves, and how it gets from the workers to the driver.

A worker has no line to the driver but its rows. So an engine puts one more row under the changes of
a batch, which is no change at all: what it has told in this batch, counted, and now and then its
readings, as JSON. On the way out Spark collects these rows into the progress of the query, where
they cost nothing, and takes them off the changes; no sink ever sees one.

Readings tell about load, so they are not the same when a batch is run again. They are no part of
the state, and of nothing that has to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from betimes.engine import DetectorStats, Engine
from betimes.spark.job import SLOT
from betimes.spark.telemetry.joining import together
from betimes.spark.telemetry.tally import Tally

READINGS = "readings"
"""What stands in the place of `change_type` in a row with readings."""

OUTPUT = "betimes.output"
"""Name of what engines say, in the progress of a query."""

LEAST_PAUSE = 1.0
"""Seconds between two readings of an engine: people do not look more often."""

SHARE = 0.01
"""Part of the time that may be spent on readings; with order="key" every key has its own."""


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


def _text(readings: SlotReading) -> str:
    return msgspec.json.encode(readings).decode()
