"""What is measured: each job returns how many events (or imports, or runs) it handles per second.

`python -m benchmarks.before_after.jobs NAME` runs one job on the library that `import betimes`
finds, and prints the rate. A job first runs untimed on part of its stream: numba compiles what is
not cached, and caches fill. Then it runs `REPEATS` times, and the fastest counts: what else happens
on the machine can only make a run slower.

Seconds are CPU time, also for the engine's own decisions: other work on the machine then hardly
shows. Only Spark is measured by the wall clock, because its work is in other processes.

Imports only what users may import, because the jobs also run on older commits.
"""

from __future__ import annotations

import gc
import json
import os
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
from benchmarks.patterns import KEYS, compiled, sort_and_match, stream_of
from benchmarks.recorded.hierarchies import HIERARCHIES
from benchmarks.snippet import Snippet
from benchmarks.speculation.detectors import NotBetween, Numbered
from benchmarks.speculation.throughput import feed_engine, sort_and_call
from benchmarks.streams import CLOCK, keyed_columns, keyed_stream
from betimes import Engine, EventBatch, Hierarchy
from betimes.apps.soccer.disorder import PRESETS
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED
from betimes.testing import sensor_stream

REPEATS = 5
WARM_UP = 10
"""The untimed run takes one part in this many of the stream."""
IMPORTS = 5
SECONDS_OF_SOCCER = 10.0
MICRO_BATCH = 200_000
MICRO_BATCHES = 10
Job = Callable[[], float]


def rate(run: Callable[[Any], object], stream: Any) -> float:
    """Events per CPU second of the fastest `run(stream)`."""
    run(stream[: max(1, len(stream) // WARM_UP)])
    seconds = []
    for _ in range(REPEATS):
        gc.collect()
        began = time.process_time()
        run(stream)
        seconds.append(time.process_time() - began)
    return len(stream) / min(seconds)


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


IMPORT = "import betimes"
FIRST_USE = """
from betimes import Engine, Event, Hierarchy, pattern
hierarchy = Hierarchy(clock="X")
hierarchy.add(pattern("A !B C", by="key", emits="match"))
engine = Engine(hierarchy, attenuation=0.3)
engine.feed([Event(type, ts * 1000, {"key": 1}) for ts, type in enumerate("XAXCXXAXBXCX" * 20)])
engine.finish()
"""


def new_process_job(code: str, *, times: int, compiled: bool = True) -> float:
    """How often per second a new process can run some code, without the start of Python itself.

    As after an installation, Python's bytecode is there; the code that numba compiles is there
    only if `compiled`. Both are kept in a temporary folder, so that it does not matter what else
    ran before, or whether this environment lets Python write bytecode.
    """
    timed = f"import time; began = time.process_time()\n{code}\nprint(time.process_time() - began)"
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:

        def run(code: str, cache: str) -> float:
            variables = {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "NUMBA_CACHE_DIR": cache}
            kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, env=kept | variables, capture_output=True, check=True)
            return float(done.stdout.split()[-1])

        run(timed, f"{folder}/compiled")
        caches = [f"{folder}/compiled" if compiled else f"{folder}/{n}" for n in range(times)]
        return 1 / min(run(timed, cache) for cache in caches)


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


def whole_spark_job(part: str) -> float:
    """A run in a new session; its rate or, for one part of it, how often per second that can be."""
    from benchmarks.spark_pipeline.files import write_stream
    from benchmarks.spark_pipeline.whole import whole_run

    events = MICRO_BATCHES * MICRO_BATCH
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        files = write_stream(Path(folder) / "stream", events, MICRO_BATCH, keys=64)
        seconds = whole_run("detect", files)[part]
    return (events if part == "whole" else 1) / seconds


LOOP, AUTOMATON, REAL_TIME = "a plain loop", "a compiled loop", "real time"
YARDSTICKS: dict[str, Job] = {
    LOOP: lambda: rate(sort_and_call, keyed_stream(100_000)),
    AUTOMATON: lambda: rate(partial(sort_and_match, keys=KEYS), stream_of(2_000_000)),
    REAL_TIME: lambda: Snippet.of(1.0, PRESETS["bursts"]).arrivals.num_rows,
}
"""What jobs are compared with: the first two know the future, sort the whole stream, and run a
detector in Python or an automaton compiled for the pattern. Real time is events per second."""


def yardstick_of(job: str) -> str | None:
    """What a job is compared with."""
    if job.startswith("pattern") and "batches of 100," not in job:
        return AUTOMATON
    return LOOP if job.startswith("detector") else REAL_TIME if job.startswith("soccer") else None


SPARK = "Spark"
"""What the names of jobs on Spark begin with."""
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
    "import betimes (imports/s)": partial(new_process_job, IMPORT, times=IMPORTS),
    "first use in a process (uses/s)": partial(new_process_job, FIRST_USE, times=IMPORTS),
    "first use after installation (uses/s)": partial(
        new_process_job, FIRST_USE, times=1, compiled=False
    ),
    f"{SPARK}, 64 keys, micro-batches of 200,000": spark_job,
    f"{SPARK}, 2 million events, start and end included": partial(whole_spark_job, "whole"),
    f"{SPARK}, first micro-batch (batches/s)": partial(whole_spark_job, "first micro-batch"),
    f"{SPARK}, end of a run (ends/s)": partial(whole_spark_job, "end"),
}


if __name__ == "__main__":
    print(json.dumps((YARDSTICKS | JOBS)[sys.argv[1]]()))
