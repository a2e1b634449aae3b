"""How busy a query is, as the driver sees it, and how its workers hear of it.

A slot sees how long its own engine works, but not what Spark does around it, nor the other slots
that share its core. The driver sees the whole micro-batch. So it tells the workers its busy factor,
as a setting of the query's own session, which reaches the tasks of the next micro-batch.

The *busy factor* of a query is the time of its last micro-batch against the time from its start to
the start of the next one. Without a fixed interval, micro-batches follow each other as long as
anything arrives, and each is as large as the last one took long. There, what a micro-batch costs
even if it is empty counts as idle. So a trickle of rows is not a load, and the factor approaches 1
as the rows alone take all the time. If the source tells that more waits than the last micro-batch
had, the factor is 1: the size of micro-batches is limited, and the query is behind.

Nothing of this affects a micro-batch itself. A worker uses the factor to choose the attenuation of
the *next* one, which is stored with the state. So a micro-batch that runs again gives the same
rows. Told like this, an overload would be known only in the second micro-batch that has it, for the
third. So the driver also tells when the current one began: a slot that is done with it sees for how
long it has run, and if that is too long already, the next one is handled with attenuation 1. Clocks
of driver and workers must agree for that, to a small part of the interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from betimes.host.log import ALONE, Around

BUSY = "spark.betimes.busy"
"""The setting with the busy factor of the query."""

SHARING = "spark.betimes.sharing"
"""The setting with the number of slots that share a core."""

TRIGGER = "spark.betimes.trigger"
"""The setting with the current micro-batch: when it began, its interval, and its floor; seconds."""

MOST_FLOOR = 1.0
"""Seconds. No empty micro-batch takes longer, however busy the query was from its beginning."""

_BEFORE = ("latestOffset", "getOffset", "getBatch", "queryPlanning", "walCommit")
"""What Spark does in a micro-batch before its rows are handled."""


class TriggerLoad:
    """The busy factor of a query, as its micro-batches follow each other."""

    def __init__(self, *, every: float = 0.0, clock: Callable[[], float] = time.time) -> None:
        """`every` is the interval, in seconds; 0 if micro-batches follow each other."""
        self._every = every
        self._clock = clock
        self._floor = 0.0 if every else MOST_FLOOR
        self.query: StreamingQuery | None = None
        """The query, once it was started."""

    def tell(self, session: SparkSession) -> None:
        """Inside a micro-batch: tell the workers of the next one how busy the query is."""
        if self.query is None:
            return
        progress = self.query._jsq.lastProgress()  # PySpark's own would ask the JVM for every field
        if progress is not None:
            report = msgspec.json.decode(progress.json())
            factor = self.factor(report)
            if factor is not None:
                session.conf.set(BUSY, f"{factor:.3f}")
                began = self._clock() - _before(report)
                session.conf.set(TRIGGER, f"{began:.3f} {self._every:.3f} {self._floor:.3f}")

    def factor(self, progress: Mapping[str, Any]) -> float | None:
        """The busy factor, from the report on the last micro-batch; None if it tells nothing."""
        parts = progress["durationMs"]
        if "addBatch" not in parts:
            return None
        took = parts["triggerExecution"] / 1000
        began = datetime.fromisoformat(progress["timestamp"]).timestamp()
        interval = max(self._clock() - _before(progress) - began, took, 0.001)
        self._floor = min(self._floor, took)
        if backlog(progress) > progress["numInputRows"]:
            return 1.0
        return float((took - self._floor) / interval)


def _before(progress: Mapping[str, Any]) -> float:
    """How many seconds a micro-batch took before its rows were handled."""
    return float(sum(progress["durationMs"].get(part, 0) for part in _BEFORE)) / 1000


def backlog(progress: Mapping[str, Any]) -> float:
    """How many rows wait in the sources, as far as they tell."""
    waiting = 0.0
    for source in progress["sources"]:
        latest, end = _numbers(source.get("latestOffset")), _numbers(source.get("endOffset"))
        if latest.keys() == end.keys():
            waiting += sum(latest[place] - end[place] for place in latest)
    return waiting


def _numbers(offset: Any, place: str = "") -> dict[str, float]:
    """The numbers in an offset, which is JSON: for Kafka, one for each topic and partition."""
    if isinstance(offset, Mapping):
        parts = [_numbers(part, f"{place}/{name}") for name, part in offset.items()]
        return {place: number for part in parts for place, number in part.items()}
    return {place: offset} if isinstance(offset, int | float) else {}


def told(clock: Callable[[], float] = time.time) -> Around:
    """In a worker: what the driver has told about the load of the query."""
    task = TaskContext.get()
    if task is None:
        return ALONE
    busy, sharing = task.getLocalProperty(BUSY), task.getLocalProperty(SHARING)
    around = Around(float(busy or 0.0), float(sharing or 1.0))
    trigger = task.getLocalProperty(TRIGGER)
    if not trigger:
        return around
    began, interval, floor = map(float, trigger.split())
    return replace(around, elapsed=max(0.0, clock() - began), interval=interval, floor=floor)
