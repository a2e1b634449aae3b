"""The same live stream on Spark: a file appears every half second, and a query reads them.

A micro-batch starts every two seconds, or when the last one has ended. It takes no more than the
query can handle in a little more than that time: a query that is behind reads no more at once than
its workers have memory for, and still finds out soon how it is doing. What waits, waits as files.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.live.course import Course, Moment
from benchmarks.live.memory import workers
from benchmarks.live.schedule import Phase, Schedule, hierarchy
from betimes import spark as bs

EVERY = 0.5
"""Seconds between two files."""
SPAN = 2.0
"""Seconds between two micro-batches that keep up."""
AT_ONCE = 1.6
"""What a micro-batch takes at most, in multiples of what the query can handle in that time."""
SLOTS = 4
TRIAL = 25_000.0
"""Events per second of the stream with which the capacity is measured."""
TRIAL_SECONDS = 20.0


@contextmanager
def session() -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as folder:
        found = bs.session(master="local[2]", log=Path(folder, "log"))
        try:
            yield found
        finally:
            found.stop()


@dataclass
class Query:
    """A query that reads the stream, and the limit of its micro-batches."""

    spark: SparkSession
    rows: float = 2 * SPAN * TRIAL
    """The most rows of a micro-batch, about: the limit is one of bytes."""

    def capacity(self) -> float:
        """Events per second of micro-batches that follow each other, with attenuation 1."""
        trial, best = Schedule([Phase(TRIAL_SECONDS, TRIAL)]), 0.0
        for _ in range(2):  # in the first, workers start
            course, _ = self.run("capacity", trial, 1.0, at_once=True)
            best = max(best, course.pace())
        self.rows = AT_ONCE * SPAN * best
        return best

    def run(
        self, name: str, schedule: Schedule, attenuation: float | str, *, at_once: bool = False
    ) -> tuple[Course, set[str]]:
        """Write files as the schedule says, until all are read; returns course and results.

        With `at_once`, files do not wait for their time, and micro-batches follow each other.
        """
        with tempfile.TemporaryDirectory() as folder:
            query, out = self._start(Path(folder), schedule, attenuation, paced=not at_once)
            course = Course(name)
            with (
                query,
                bs.statistics(query, keep=100_000) as statistics,
                _written(Path(folder, "in"), schedule, at_once=at_once) as began,
            ):
                while (course.moments[-1].fed if course.moments else 0) < schedule.events:
                    if query.wait(EVERY / 2):
                        raise AssertionError("the query has ended before its stream")
                    _follow(course, statistics, schedule, began)
                query.finish()
            found = bs.table(self.spark.read.parquet(out), "fiftieth").select("match_id").toArrow()
            return course, {str(name) for name in found["match_id"].to_pylist()}

    def _start(
        self, folder: Path, schedule: Schedule, attenuation: float | str, *, paced: bool
    ) -> tuple[bs.Run, str]:
        (folder / "in").mkdir()
        rows = self.spark.readStream.schema("ts long, type string, key long, seq long")
        rows = rows.option(
            "maxBytesPerTrigger", round(self.rows * _bytes_per_row(folder, schedule))
        )
        changes = bs.detect(
            rows.parquet(str(folder / "in")), hierarchy(), arrival="seq", by="key", slots=SLOTS,
            attenuation=attenuation,
        )  # fmt: skip
        out, every = str(folder / "out"), f"{round(1000 * SPAN)}ms" if paced else None
        return bs.write(changes, out, checkpoint=str(folder / "state"), every=every), out


def _bytes_per_row(folder: Path, schedule: Schedule) -> float:
    sample, rows = folder / "sample", min(schedule.events, 10_000)
    pq.write_table(schedule.table(0, rows), sample)
    return sample.stat().st_size / rows


@contextmanager
def _written(folder: Path, schedule: Schedule, *, at_once: bool) -> Iterator[float]:
    """While this lasts, a file appears for every half second; tells when the first one began."""
    began, ended = time.time(), threading.Event()
    due = 0.0 if at_once else began
    writer = threading.Thread(target=_write, args=(folder, schedule, due, ended))
    writer.start()
    try:
        yield began
    finally:
        ended.set()
        writer.join()


def _write(folder: Path, schedule: Schedule, began: float, ended: threading.Event) -> None:
    for number in range(1, ceil(schedule.seconds / EVERY) + 1):
        if ended.wait(max(0.0, began + EVERY * number - time.time())):
            return
        low, high = (schedule.arrived(EVERY * part) for part in (number - 1, number))
        part = folder / f".{number:06}"
        pq.write_table(schedule.table(low, high), part)
        part.rename(folder / f"{number:06}.parquet")


def _follow(course: Course, statistics: bs.Statistics, schedule: Schedule, began: float) -> None:
    """Note the micro-batches since the last look."""
    batches = statistics.batches
    seen = course.moments[-1].fed if course.moments else 0
    memory = workers()
    for batch in batches[len(course.moments) :]:
        seen += batch.rows
        at = datetime.fromisoformat(batch.at).timestamp() + batch.seconds - began
        lag = at - float(schedule.times(seen - 1, seen)[0]) if seen else 0.0
        latency = None if batch.latency is None else batch.latency / 1e6
        value = 1.0 if batch.attenuation is None else batch.attenuation
        course.moments.append(Moment(at, seen, lag, value, batch.busy_factor, latency, memory))
