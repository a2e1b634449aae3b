"""What is measured: each job returns how many events (or imports) it handles per second.

`python -m benchmarks.before_after.jobs NAME` runs one job on the library that `import betimes`
finds, and prints the rate. A job first runs untimed on part of its stream: numba compiles what is
not cached, and caches fill. Then it runs `REPEATS` times, and the median counts.

Seconds are CPU time, also for the engine's own decisions: other work on the machine then hardly
shows. Only Spark is measured by the wall clock, because its work is in other processes.

Imports only what users may import, because the jobs also run on older commits.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.ordering import feed_batches, feed_singly
from benchmarks.patterns import compiled, stream_of
from benchmarks.recorded.hierarchies import HIERARCHIES
from benchmarks.snippet import Snippet
from benchmarks.speculation.detectors import NotBetween, Numbered
from benchmarks.speculation.throughput import feed_engine
from benchmarks.streams import CLOCK, keyed_columns, keyed_stream
from betimes import Engine, EventBatch, Hierarchy
from betimes.apps.soccer.disorder import PRESETS
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED
from betimes.testing import sensor_stream

REPEATS = 3
WARM_UP = 10
"""The untimed run takes one part in this many of the stream."""
IMPORTS = 5
SECONDS_OF_SOCCER = 10.0
MICRO_BATCH = 200_000
MICRO_BATCHES = 10
Job = Callable[[], float]


def rate(run: Callable[[Any], object], stream: Any) -> float:
    """Events per CPU second of `run(stream)`."""
    run(stream[: max(1, len(stream) // WARM_UP)])
    seconds = []
    for _ in range(REPEATS):
        gc.collect()
        began = time.process_time()
        run(stream)
        seconds.append(time.process_time() - began)
    return len(stream) / statistics.median(seconds)


def feed_all(hierarchy: Hierarchy, batches: Iterable[EventBatch | pa.Table], **options: Any) -> int:
    """Feed an engine, take all changes as Arrow; how many there were."""
    engine = Engine(hierarchy, time=time.process_time, **options)
    rows = sum(engine.feed(batch).to_arrow().num_rows for batch in batches)
    return rows + engine.finish().to_arrow().num_rows


def in_batches(hierarchy: Hierarchy, batch: int, attenuation: float, stream: EventBatch) -> int:
    parts = (stream[low : low + batch] for low in range(0, len(stream), batch))
    return feed_all(hierarchy, parts, attenuation=attenuation)


def pattern_job(batch: int, attenuation: float) -> float:
    events = {100: 100_000, 10_000: 1_000_000}.get(batch, 2_000_000)
    return rate(partial(in_batches, compiled(), batch, attenuation), stream_of(events))


def detector_job(attenuation: float) -> float:
    def run(stream: EventBatch) -> int:
        return feed_engine(stream, 1_000, attenuation, time=time.process_time)

    return rate(run, keyed_stream(100_000))


def single_job() -> float:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(NotBetween, on=("ball", "near", "not_near", "hit"), emits="touch", by="key")
    hierarchy.add(Numbered("numbered", remembers=3), on="touch", emits="numbered")

    def run(events: list[Any]) -> None:
        engine = Engine(hierarchy, attenuation=0.3, time=time.process_time)
        for event in events:
            engine.feed(event)
        engine.finish()

    return rate(run, list(keyed_stream(10_000)))


def soccer_job() -> float:
    snippet = Snippet.of(SECONDS_OF_SOCCER, PRESETS["bursts"])
    tables = [table for _, table in snippet.batches()]

    def run(batches: list[pa.Table]) -> int:
        return feed_all(soccer(SIMULATED), batches, attenuation=1)

    return rate(run, tables) * snippet.arrivals.num_rows / len(tables)


def two_levels_job() -> float:
    hierarchy = HIERARCHIES["patterns on two levels"]()
    return rate(partial(in_batches, hierarchy, 10_000, 0.3), keyed_columns(200_000))


def import_job() -> float:
    """A new process each time, without the start of Python itself."""
    code = "import time; b = time.process_time(); import betimes; print(time.process_time() - b)"
    command = [sys.executable, "-c", code]
    runs = (subprocess.run(command, capture_output=True, check=True) for _ in range(IMPORTS))
    return 1 / statistics.median(float(run.stdout) for run in runs)


def spark_job() -> float:
    """The median micro-batch, without the first two, in which workers start."""
    from benchmarks.spark_pipeline.contenders import detect
    from benchmarks.spark_pipeline.files import SCHEMA, write_stream
    from betimes import spark as bs

    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        files = write_stream(
            Path(folder) / "stream", MICRO_BATCHES * MICRO_BATCH, MICRO_BATCH, keys=64
        )
        spark = bs.session("benchmark", master="local[2]", config={"spark.ui.enabled": "false"})
        spark.sparkContext.setLogLevel("OFF")
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        changes = detect(reader.parquet(str(files)), 1)
        run = bs.write(changes, format="noop", checkpoint=f"{folder}/kept", available_now=True)
        run.wait()
        took: list[int] = [p["durationMs"]["triggerExecution"] for p in run.query.recentProgress]
        spark.stop()
    return MICRO_BATCH / statistics.median(took[2:]) * 1000


SPARK = "Spark, 64 keys, micro-batches of 200,000"
JOBS: dict[str, Job] = {
    **{
        f"pattern, batches of {batch:,}, attenuation {attenuation:g}": partial(
            pattern_job, batch, attenuation
        )
        for batch in (200_000, 10_000, 100)
        for attenuation in (1.0, 0.3)
    },
    **{
        f"detector, batches of 1,000, attenuation {attenuation:g}": partial(
            detector_job, attenuation
        )
        for attenuation in (1.0, 0.3, 0.0)
    },
    "two detectors on two levels, one event per feed": single_job,
    "two patterns on two levels, batches of 10,000": two_levels_job,
    "soccer, pure buffering, batches of 0.1 s": soccer_job,
    "ordering unit, batches of 10,000": lambda: rate(
        partial(feed_batches, 10_000, {}), sensor_stream(2_000_000)
    ),
    "ordering unit, one event per feed": lambda: rate(
        partial(feed_singly, {}), list(sensor_stream(50_000))
    ),
    "import betimes (imports/s)": import_job,
    SPARK: spark_job,
}


if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]]()))
