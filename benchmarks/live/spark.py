"""The same live stream on Spark: a file appears every half second, and a query reads them.

A micro-batch starts every two seconds, or when the last one has ended, and takes a few files at
most: what an idle machine needs for one leaves time to speculate in. So a query that is behind
reads no more at once than its workers have memory for, and what waits, waits as files.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.live.course import Course, Moment
from benchmarks.live.memory import workers
from benchmarks.live.schedule import Phase, Schedule, hierarchy
from betimes import spark as bs

EVERY = 0.5
"""Seconds between two files."""
AT_ONCE = 8
"""Files that a micro-batch takes, at most."""
SPAN = 2.0
"""Seconds between two micro-batches that keep up."""
SLOTS = 4
CAPACITY = 25_000
"""Events per file, when the capacity is measured."""


@contextmanager
def session() -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as folder:
        found = bs.session(master="local[2]", log=Path(folder, "log"))
        try:
            yield found
        finally:
            found.stop()


def capacity(spark: SparkSession) -> float:
    """Events per second of micro-batches that follow each other, with attenuation 1."""
    flood = Schedule([Phase(2 * AT_ONCE * EVERY, CAPACITY / EVERY)])
    best = 0.0
    for _ in range(2):  # in the first, workers start
        course, _ = run(spark, "capacity", flood, 1.0)
        best = max(best, course.pace())
    return best


def run(
    spark: SparkSession, name: str, schedule: Schedule, attenuation: float | str
) -> tuple[Course, set[str]]:
    """Write files as the schedule says, until all are read; returns the course and the results."""
    with tempfile.TemporaryDirectory() as folder:
        files, out = Path(folder, "in"), str(Path(folder, "out"))
        files.mkdir()
        rows = spark.readStream.schema("ts long, type string, key long, seq long")
        rows = rows.option("maxFilesPerTrigger", AT_ONCE)
        changes = bs.detect(
            rows.parquet(str(files)), hierarchy(), arrival="seq", by="key", slots=SLOTS,
            attenuation=attenuation,
        )  # fmt: skip
        checkpoint = str(Path(folder, "state"))
        query = bs.write(changes, out, checkpoint=checkpoint, every=f"{round(1000 * SPAN)}ms")
        course, ended = Course(name), threading.Event()
        with query, bs.statistics(query, keep=100_000) as statistics:
            began = time.time()
            writer = threading.Thread(target=_write, args=(files, schedule, began, ended))
            writer.start()
            try:
                while (course.moments[-1].fed if course.moments else 0) < schedule.events:
                    if query.wait(EVERY / 2):
                        raise AssertionError("the query has ended before its stream")
                    _follow(course, statistics, schedule, began)
            finally:
                ended.set()
                writer.join()
            query.finish()
        found = bs.table(spark.read.parquet(out), "fiftieth").select("match_id").toArrow()
        return course, {str(name) for name in found["match_id"].to_pylist()}


def _write(folder: Path, schedule: Schedule, began: float, ended: threading.Event) -> None:
    done = number = 0
    while done < schedule.events and not ended.is_set():
        number += 1
        ended.wait(max(0.0, began + EVERY * number - time.time()))
        high = schedule.arrived(time.time() - began)
        if high > done:
            part = folder / f".{number:06}"
            pq.write_table(schedule.table(done, high), part)
            part.rename(folder / f"{number:06}.parquet")
            done = high


def _follow(course: Course, statistics: bs.Statistics, schedule: Schedule, began: float) -> None:
    """Note the micro-batches since the last look."""
    batches = statistics.batches
    seen = course.moments[-1].fed if course.moments else 0
    readings = statistics.detectors.values()
    value = max((r.attenuation for r in readings), default=1.0)
    busy = max((r.busy_factor for r in readings), default=0.0)
    memory = workers()
    for batch in batches[len(course.moments) :]:
        seen += batch.rows
        at = datetime.fromisoformat(batch.at).timestamp() + batch.seconds - began
        lag = at - float(schedule.times(seen - 1, seen)[0]) if seen else 0.0
        latency = None if batch.latency is None else batch.latency / 1e6
        course.moments.append(Moment(at, seen, lag, value, busy, latency, memory))
