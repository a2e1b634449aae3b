"""The same live stream on Spark: a file appears every half second, and a query reads them."""

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
from benchmarks.live.schedule import Phase, Schedule, hierarchy
from betimes import spark as bs

EVERY = 0.5
"""Seconds between two files."""
SLOTS = 4
CAPACITY = 200_000
"""Events with which the capacity is measured."""


@contextmanager
def session() -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as folder:
        found = bs.session(master="local[2]", log=Path(folder, "log"))
        try:
            yield found
        finally:
            found.stop()


def capacity(spark: SparkSession) -> float:
    """Events per second of a large micro-batch, with attenuation 1."""
    flood = Schedule([Phase(1, CAPACITY)])
    best = 0.0
    for _ in range(2):  # in the first, workers start
        course = run(spark, "capacity", flood, 1.0)
        best = max(best, CAPACITY / (course.moments[-1].at - 1.0 + EVERY))
    return best


def run(spark: SparkSession, name: str, schedule: Schedule, attenuation: float | str) -> Course:
    """Write files as the schedule says, and follow the query until it has read them all."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "in")
        files.mkdir()
        rows = spark.readStream.schema("ts long, type string, key long, seq long")
        changes = bs.detect(
            rows.parquet(str(files)), hierarchy(), arrival="seq", by="key", slots=SLOTS,
            attenuation=attenuation,
        )  # fmt: skip
        query = bs.write(changes, str(Path(folder, "out")), checkpoint=str(Path(folder, "state")))
        with query, bs.statistics(query, keep=100_000) as statistics:
            began = time.time()
            writer = threading.Thread(target=_write, args=(files, schedule, began))
            writer.start()
            course = Course(name)
            seen = 0
            while writer.is_alive() or seen < schedule.arrived(schedule.seconds):
                time.sleep(EVERY / 2)
                seen = _follow(course, statistics, schedule, began)
            return course


def _write(folder: Path, schedule: Schedule, began: float) -> None:
    done = 0
    number = 0
    while done < schedule.arrived(schedule.seconds):
        number += 1
        time.sleep(max(0.0, began + EVERY * number - time.time()))
        high = schedule.arrived(time.time() - began)
        if high > done:
            part = folder / f".{number:06}"
            pq.write_table(schedule.table(done, high), part)
            part.rename(folder / f"{number:06}.parquet")
            done = high


def _follow(course: Course, statistics: bs.Statistics, schedule: Schedule, began: float) -> int:
    """Note the micro-batches since the last look; returns how many rows were read so far."""
    batches = statistics.batches
    seen = course.moments[-1].fed if course.moments else 0
    readings = statistics.detectors.values()
    value = max((r.attenuation for r in readings), default=1.0)
    busy = max((r.busy_factor for r in readings), default=0.0)
    for batch in batches[len(course.moments) :]:
        seen += batch.rows
        at = datetime.fromisoformat(batch.at).timestamp() + batch.seconds - began
        lag = at - float(schedule.times(seen - 1, seen)[0]) if seen else 0.0
        latency = None if batch.latency is None else batch.latency / 1e6
        course.moments.append(Moment(at, seen, lag, value, busy, latency))
    return seen
