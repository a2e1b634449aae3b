"""What engines report about themselves, and how it gets from the workers to the driver.

The only way from a worker to the driver is its rows. So an engine adds one row to the changes of a
batch that is not a change: the counts of the batch and now and then the engine's readings, as JSON.
Spark collects these rows into the progress of the query, which costs nothing, and a filter removes
them from the changes; no sink ever sees one.

Readings depend on load, so they differ when a batch runs again. They are not part of the state, nor
of anything else that has to be reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from betimes.engine import DetectorStats, Engine
from betimes.host.joining import together
from betimes.host.rows import SLOT
from betimes.host.tally import Tally

READINGS = "readings"
"""The `change_type` of a row with readings."""

OUTPUT = "betimes.output"
"""The name of the metrics with readings in the progress of a query."""

LEAST_PAUSE = 1.0
"""Least seconds between two readings of an engine: people do not look more often."""

SHARE = 0.01
"""Largest share of time to spend on readings; with order="key", every key has readings."""


class SlotReading(msgspec.Struct, frozen=True):
    """What the engine of a slot reports with a batch."""

    slot: int
    rows: int
    """How many rows of the input were read."""
    tally: Tally
    busy_factor: float = 0.0
    """That of the query, as far as the slot knows it."""
    attenuation: float | None = None
    """The one that adaptive detectors had in this batch; None if none is adaptive."""
    detectors: list[DetectorStats] | None = None
    """Readings; only now and then."""


class Teller:
    """Adds the report of an engine to its changes."""

    def __init__(self, slot: int, clock: Callable[[], float]) -> None:
        self._slot = slot
        self._clock = clock
        self._due = clock()

    def told(
        self,
        changes: pa.Table,
        engine: Engine,
        *,
        rows: int,
        busy: float,
        attenuation: float | None,
    ) -> pa.Table:
        """The changes and the report; `busy` is the busy factor of the query."""
        readings = self._readings(engine, busy)
        tally = Tally.of(changes)
        reading = SlotReading(self._slot, rows, tally, busy, attenuation, readings)
        row = {SLOT: self._slot, "change_type": READINGS, "payload": _text(reading)}
        return pa.concat_tables([changes, pa.Table.from_pylist([row], schema=changes.schema)])

    def _readings(self, engine: Engine, busy: float) -> list[DetectorStats] | None:
        began = self._clock()
        if began < self._due:
            return None
        # An engine sees itself alone; here, the loop is the query.
        replace = msgspec.structs.replace
        readings = together(replace(each, busy_factor=busy) for each in engine.stats.values())
        ended = self._clock()
        self._due = ended + max(LEAST_PAUSE, (ended - began) / SHARE)
        return readings


def without_readings(changes: pa.Table) -> pa.Table:
    """The changes alone."""
    return changes.filter(pc.invert(pc.is_in(changes["change_type"], pa.array([READINGS]))))


def collected(changes: DataFrame) -> DataFrame:
    """The changes alone; reports go to the progress of the query."""
    said = F.col("change_type") == READINGS
    heard = F.collect_list(F.when(said, F.col("payload"))).alias("readings")
    return changes.observe(OUTPUT, heard).filter(~said)


def parsed(texts: Iterable[str]) -> list[SlotReading]:
    """The reports of slots, decoded."""
    return [msgspec.json.decode(text, type=SlotReading) for text in texts]


def _text(readings: SlotReading) -> str:
    return msgspec.json.encode(readings).decode()
