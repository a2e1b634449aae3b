"""What the pipeline costs: `python -m benchmarks.spark_pipeline [--quick] [--events N] [--json]`.

`A !(A|B) C` by key on the stream of the other benchmarks, from Parquet files, one a micro-batch, to
a sink that writes nothing. All contenders run in one session with the same settings:

* *detect*: this library, with a compiled pattern and speculation (attenuation 0.3);
* *ceiling*: `mapInArrow` that hands on what it gets. It has no state and no shuffle, so nothing
  that has can be faster on the same machine;
* *by hand*: what one writes without it, `applyInPandasWithState` and `transformWithStateInPandas`
  grouped by key, with a sorted buffer and a bound of 150 ms that somebody has to know. They get
  only the events that the pattern looks at: whoever writes this filters first.

A rate is rows over the median time of a micro-batch, without the first two of each run, in which
workers start. Contenders take turns, and a ratio is the median of the ratios within a round. All
must find the same matches, up to those that the bound of 150 ms holds back at the end.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.racing import Race, Result, Target, progress_bar, report
from betimes import Hierarchy, pattern
from betimes import spark as bs
from betimes.spark.settings import query_settings
from betimes.testing import sensor_stream

NAMES = {"ball": "X", "near": "A", "not_near": "B", "hit": "C"}
SCHEMA = "ts long, type string, key long, seq long"
MATCHES = "key long, first long, last long"
BUFFER = "buffer binary, newest long, since long"
BOUND = 150_000
SLOTS = 2
WARM_UP = 2
FOUND = "found"

Plan = Callable[[DataFrame], DataFrame]


# By hand: a sorted buffer for each key, released up to a bound behind the newest event.


def advance(
    buffer: list[tuple[int, str]], newest: int, since: int | None, more: pd.DataFrame
) -> tuple[list[tuple[int, str]], int, int | None, list[tuple[int, int]]]:
    """Take events of one key; the buffer, the newest time, the open `A`, and matches."""
    events = zip(more["ts"].tolist(), more["type"].tolist(), strict=True)
    buffer = sorted([*buffer, *events])
    newest = max(newest, int(more["ts"].max()))
    matches = []
    done = 0
    for ts, type in buffer:
        if ts > newest - BOUND:
            break
        done += 1
        if type == "A":
            since = ts
        elif type == "B":
            since = None
        elif since is not None:
            matches.append((since, ts))
            since = None
    return buffer[done:], newest, since, matches


def frame(key: int, matches: list[tuple[int, int]]) -> pd.DataFrame:
    return pd.DataFrame(
        {"key": key, "first": [m[0] for m in matches], "last": [m[1] for m in matches]}
    )


def with_group_state(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    stored, newest, since = state.get if state.exists else (pickle.dumps([]), 0, None)
    buffer = pickle.loads(stored)
    found: list[tuple[int, int]] = []
    for more in frames:
        buffer, newest, since, matches = advance(buffer, newest, since, more)
        found += matches
    state.update((pickle.dumps(buffer), newest, since))
    if found:
        yield frame(int(key[0]), found)


class WithState(StatefulProcessor):
    """The same with the newer operator."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("buffer", BUFFER)

    def handleInputRows(  # type: ignore[override] # frames go in, so frames come
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        del timerValues
        stored, newest, since = self._state.get() or (pickle.dumps([]), 0, None)
        buffer = pickle.loads(stored)
        found: list[tuple[int, int]] = []
        for more in rows:
            buffer, newest, since, matches = advance(buffer, newest, since, more)
            found += matches
        self._state.update((pickle.dumps(buffer), newest, since))
        if found:
            yield frame(int(key[0]), found)

    def close(self) -> None:
        pass


# Contenders.


def touches() -> Hierarchy:
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(pattern("A !(A|B) C", by="key", emits="match"))
    return hierarchy


def detect(events: DataFrame) -> DataFrame:
    return bs.detect(
        events, touches(), arrival="seq", by="key", slots=SLOTS, payload=(), attenuation=0.3
    )


def only_pattern(events: DataFrame) -> DataFrame:
    return events.filter(F.col("type").isin("A", "B", "C")).select("ts", "type", "key")


def by_hand_group_state(events: DataFrame) -> DataFrame:
    grouped = only_pattern(events).groupBy("key")
    return grouped.applyInPandasWithState(
        with_group_state, MATCHES, BUFFER, "append", GroupStateTimeout.NoTimeout
    )


def by_hand_with_state(events: DataFrame) -> DataFrame:
    grouped = only_pattern(events).groupBy("key")
    return grouped.transformWithStateInPandas(WithState(), MATCHES, "Append", "None")


def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def ceiling(events: DataFrame) -> DataFrame:
    return events.mapInArrow(hand_on, SCHEMA)


CONTENDERS: dict[str, Plan] = {
    "ceiling": ceiling,
    "detect": detect,
    "applyInPandasWithState": by_hand_group_state,
    "transformWithStateInPandas": by_hand_with_state,
}
HANDMADE = ("applyInPandasWithState", "transformWithStateInPandas")


# Running them.


@dataclass(frozen=True)
class Bench:
    """A session and a folder."""

    spark: SparkSession
    folder: Path

    def files(self, name: str, events: int, rows: int, keys: int) -> Path:
        """The stream as files of so many rows each."""
        folder = self.folder / name
        if folder.exists():
            return folder
        folder.mkdir()
        stream = sensor_stream(events, seed=1)
        types = pa.array([NAMES[type] for type in stream.types]).take(stream.codes)
        of_keys = pa.array(np.random.default_rng(2).integers(0, keys, events))
        arrivals = pa.array(np.arange(events))
        columns: list[pa.Array[Any]] = [pa.array(stream.ts), types, of_keys, arrivals]
        table = pa.Table.from_arrays(columns, ["ts", "type", "key", "seq"])
        for number, low in enumerate(range(0, events, rows)):
            pq.write_table(table.slice(low, rows), folder / f"{number:06}.parquet")
        return folder

    def run(self, plan: Plan, files: Path) -> list[float]:
        """The seconds that each micro-batch took, without the first ones."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = plan(reader.parquet(str(files))).observe(FOUND, F.count(F.lit(1)).alias("rows"))
        checkpoint = self.folder / "checkpoint"
        writer = rows.writeStream.format("noop").outputMode("append")
        with query_settings(self.spark, SLOTS):
            query = (
                writer.option("checkpointLocation", str(checkpoint))
                .trigger(availableNow=True)
                .start()
            )
        query.awaitTermination()
        shutil.rmtree(checkpoint)
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress]
        return took[WARM_UP:]

    def race(
        self, title: str, contenders: Sequence[str], *, rounds: int, rows: int, files: Path
    ) -> Race:
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        with progress_bar() as bar:
            task = bar.add_task(title, total=(rounds + 1) * len(contenders))
            for lap in range(rounds + 1):
                for name in contenders:
                    bar.update(task, description=f"{title}: {name}")
                    took = statistics.median(self.run(CONTENDERS[name], files))
                    if lap:
                        seconds[name].append(took)
                    bar.advance(task)
        results = {name: Result(name, rows, tuple(times)) for name, times in seconds.items()}
        return Race(title, results, tuple(n for n in ("ceiling", *HANDMADE) if n in contenders))


def better(race: Race) -> float:
    """Against the better of those written by hand."""
    return min(race.ratio("detect", name) for name in HANDMADE if name in race.results)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_pipeline")
    parser.description = __doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=2_000_000, help="length of the stream")
    parser.add_argument("--quick", action="store_true", help="a small run that only shows the way")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="betimes-bench-"))
    spark = bs.session("benchmark", master="local[2]", config={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        races, targets = run_all(Bench(spark, folder), options.events, quick=options.quick)
    finally:
        spark.stop()
        shutil.rmtree(folder)
    report(races, [] if options.quick else targets, readings={}, as_json=options.json)


def run_all(bench: Bench, events: int, *, quick: bool) -> tuple[list[Race], list[Target]]:
    rounds = 1 if quick else 3
    rows = 50_000 if quick else 200_000
    events = min(events, 6 * rows) if quick else events
    few = 64
    many = 2_000 if quick else 10_000
    everybody = list(CONTENDERS)
    large = partial(bench.race, rounds=rounds, rows=rows)
    races = [
        large(
            f"{few} keys, micro-batches of {rows:,}", everybody,
            files=bench.files("few", events, rows, few),
        ),
        large(
            f"{many:,} keys, micro-batches of {rows:,}", everybody,
            files=bench.files("many", min(events, 6 * rows), rows, many),
        ),
        bench.race(
            "64 keys, micro-batches of 100", everybody, rounds=rounds, rows=100,
            files=bench.files("small", 1_200 if quick else 3_000, 100, few),
        ),
    ]  # fmt: skip
    return races, [
        Target("64 keys, x better by hand", 2.5, better(races[0])),
        Target("64 keys, x ceiling", 0.6, races[0].ratio("detect", "ceiling")),
        Target("10,000 keys, x better by hand", 10, better(races[1])),
        Target("100 rows, x better by hand", 1 / 1.2, better(races[2])),
    ]


if __name__ == "__main__":
    main()
