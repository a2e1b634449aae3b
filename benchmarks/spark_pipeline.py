"""What the pipeline costs: `python -m benchmarks.spark_pipeline [--quick] [--events N] [--json]`.

`A !(A|B) C` by key on the stream of the other benchmarks, from Parquet files, one a micro-batch, to
a sink that writes nothing. All contenders run in one session with the same settings:

* *detect*: this library, with a compiled pattern and speculation (attenuation 0.3);
* *ceiling*: `mapInArrow` that hands on what it gets. It has no state and no shuffle;
* *by hand*: what one writes without it, `applyInPandasWithState` and `transformWithStateInPandas`
  grouped by key: events go through a heap one by one, and come out when they are 150 ms behind the
  newest of their key, a bound that somebody has to know. They get all rows, as `detect` does: the
  clock events, seven of eight, tell how far a key has come. The targets are judged by these.
* *tuned*: the better of them by somebody who has thought about speed, too: sorts once a batch, and
  drops clock events with pandas before. *Filtered*: who leaves them in the source; a key then comes
  no further than its own A, B and C, so its last matches wait for its next event.

A rate is rows over the median time of a micro-batch, without the first two of each run, in which
workers start. Contenders take turns, and a ratio is the median of the ratios within a round. The
first laps are not timed: the JVM compiles for a while, and in the first one every contender must
find exactly the matches that sorting the whole stream gives, as far as the bound lets it come.

*Growth*: `detect` alone, with more keys, and micro-batches of 100 rows on engines that hold 1 MB
and more; beside it, what `applyInPandasWithState` takes only to carry as many bytes to Python and
back. *Settings*: what a micro-batch takes with one setting put back to Spark's default; and what it
takes, as does the ceiling, without a limit of bytes, which `write` lifts if rows are numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import statistics
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.racing import Race, Result, Target, progress_bar, report
from betimes import Engine, EventBatch, Hierarchy, pattern
from betimes import spark as bs
from betimes.spark.query.settings import query_settings
from betimes.testing import sensor_stream

NAMES = {"ball": "X", "near": "A", "not_near": "B", "hit": "C"}
SCHEMA = "ts long, type string, key long, seq long"
MATCHES = "key long, first long, last long"
BUFFER = "buffer binary, newest long, since long"
BOUND = 150_000
SLOTS = 1
"""Partitions and slots. On two cores everybody is faster with one, as long as keys are few."""
MANY_SLOTS = 2
WARM_UP = 2
LAPS = 2
"""Laps that are not timed."""
FOUND = "found"
STATES = (7_000, 133_000, 670_000)
"""Open keys, for engines of about 1, 20 and 100 MB."""
MOST_CARRIED = 32 * 2**20
"""With 100 MB of state, the other operator needs more than the gigabyte that the JVM has."""

Plan = Callable[[DataFrame, int], DataFrame]


# By hand: a buffer for each key, released up to a bound behind the newest event.


class Matcher:
    """`A !(A|B) C` of one key: what is open, and what was found."""

    def __init__(self, since: int | None) -> None:
        self.since = since
        self.found: list[tuple[int, int]] = []

    def take(self, ts: int, type: str) -> None:
        if type == "A":
            self.since = ts
        elif type == "B":
            self.since = None
        elif type == "C" and self.since is not None:
            self.found.append((self.since, ts))
            self.since = None


Buffer = list[tuple[int, str]]


def advance(buffer: Buffer, newest: int, match: Matcher, more: pd.DataFrame) -> tuple[Buffer, int]:
    """Take events of one key, one by one; give up the oldest that are beyond the bound."""
    for event in zip(more["ts"].tolist(), more["type"].tolist(), strict=True):
        heappush(buffer, event)
        newest = max(newest, event[0])
        while buffer[0][0] <= newest - BOUND:
            match.take(*heappop(buffer))
    return buffer, newest


def advance_tuned(
    buffer: Buffer, newest: int, match: Matcher, more: pd.DataFrame
) -> tuple[Buffer, int]:
    """The same, sorting once a batch, and without clock events in the buffer."""
    newest = max(newest, int(more["ts"].max()))
    more = more[more["type"] != "X"]
    buffer = sorted([*buffer, *zip(more["ts"].tolist(), more["type"].tolist(), strict=True)])
    done = bisect_right(buffer, (newest - BOUND, "~"))
    for event in buffer[:done]:
        match.take(*event)
    return buffer[done:], newest


def frame(key: int, matches: list[tuple[int, int]]) -> pd.DataFrame:
    return pd.DataFrame(
        {"key": key, "first": [m[0] for m in matches], "last": [m[1] for m in matches]}
    )


Advance = Callable[[Buffer, int, Matcher, pd.DataFrame], tuple[Buffer, int]]


def step(
    stored: tuple[bytes, int, int | None] | None, frames: Iterator[pd.DataFrame], advance: Advance
) -> tuple[tuple[bytes, int, int | None], list[tuple[int, int]]]:
    """The state of a key after a micro-batch, and the matches."""
    kept, newest, since = stored or (pickle.dumps([]), 0, None)
    buffer, match = pickle.loads(kept), Matcher(since)
    for more in frames:
        buffer, newest = advance(buffer, newest, match, more)
    return (pickle.dumps(buffer), newest, match.since), match.found


class WithState(StatefulProcessor):
    """With the newer operator."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("buffer", BUFFER)

    def handleInputRows(  # type: ignore[override] # frames go in, so frames come
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        del timerValues
        state, found = step(self._state.get(), rows, advance)
        self._state.update(state)
        if found:
            yield frame(int(key[0]), found)

    def close(self) -> None:
        pass


# Contenders.


def touches() -> Hierarchy:
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(pattern("A !(A|B) C", by="key", emits="match"))
    return hierarchy


def detect(events: DataFrame, slots: int) -> DataFrame:
    return bs.detect(
        events, touches(), arrival="seq", by="key", slots=slots, payload=(), attenuation=0.3
    )


def everything(events: DataFrame) -> DataFrame:
    return events.select("ts", "type", "key")


def only_pattern(events: DataFrame) -> DataFrame:
    return everything(events.filter(F.col("type").isin("A", "B", "C")))


def group_state(events: DataFrame, advance: Advance) -> DataFrame:
    def handle(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        after, found = step(state.get if state.exists else None, frames, advance)
        state.update(after)
        if found:
            yield frame(int(key[0]), found)

    return events.groupBy("key").applyInPandasWithState(
        handle, MATCHES, BUFFER, "append", GroupStateTimeout.NoTimeout
    )


def with_state(events: DataFrame) -> DataFrame:
    grouped = events.groupBy("key")
    return grouped.transformWithStateInPandas(WithState(), MATCHES, "Append", "None")


def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def carried(size: int) -> Plan:
    """Another stateful operator with so many bytes of state, which it leaves as they are."""

    def handle(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows = sum(map(len, frames))
        state.update(state.get if state.exists else (os.urandom(size),))
        yield frame(int(key[0]), [(rows, rows)])

    def plan(events: DataFrame, slots: int) -> DataFrame:
        del slots
        rows = events.select("ts", F.lit(0).alias("key"))
        return rows.groupBy("key").applyInPandasWithState(
            handle, MATCHES, "state binary", "append", GroupStateTimeout.NoTimeout
        )

    return plan


HANDMADE = ("applyInPandas", "transformWith")
CONTENDERS: dict[str, Plan] = {
    "ceiling": lambda events, _: events.mapInArrow(hand_on, SCHEMA),
    "detect": detect,
    HANDMADE[0]: lambda events, _: group_state(everything(events), advance),
    HANDMADE[1]: lambda events, _: with_state(everything(events)),
    "tuned": lambda events, _: group_state(everything(events), advance_tuned),
    "filtered": lambda events, _: group_state(only_pattern(events), advance_tuned),
}


# What they must find.

Match = tuple[int, int, int]


def expected(files: Path, name: str) -> set[Match]:
    """The matches of a stream that is sorted as a whole, up to the bound if there is one."""
    rows = pq.read_table(files).to_pandas()
    looked_at = rows[rows["type"] != "X"] if name == "filtered" else rows
    newest = looked_at.groupby("key")["ts"].max().to_dict()
    found = set()
    since: dict[int, int] = {}
    rows = rows[rows["type"] != "X"].sort_values(["ts", "seq"], kind="stable")
    for ts, type, key in zip(rows["ts"], rows["type"], rows["key"], strict=True):
        if type == "A":
            since[key] = ts
            continue
        first = since.pop(key, None)
        released = name == "detect" or ts <= newest[key] - BOUND
        if type == "C" and first is not None and released:
            found.add((int(key), int(first), int(ts)))
    return found


def found_by(name: str, rows: list[Any]) -> set[Match]:
    """The matches in what a contender gave, changes folded."""
    if name != "detect":
        return {(row.key, row.first, row.last) for row in rows}
    standing: dict[str, Match] = {}
    for row in sorted(rows, key=lambda row: (row.slot, row.seq)):
        if row.change_type == "delete":
            del standing[row.match_id]
        elif row.change_type == "insert" and row.type == "match":
            payload = json.loads(row.payload)
            standing[row.match_id] = (payload["C.key"], payload["A.ts"], payload["C.ts"])
    return set(standing.values())


def check(name: str, files: Path, rows: list[Any]) -> None:
    if name == "ceiling":
        return
    got, wanted = found_by(name, rows), expected(files, name)
    if name == "detect":
        # The stream goes on: of its last instants not everything has been released.
        end = max((last for _, _, last in wanted), default=0) - 2 * BOUND
        got, wanted = ({match for match in each if match[2] <= end} for each in (got, wanted))
    if got != wanted:
        raise RuntimeError(
            f"expected {name} to find {len(wanted)} matches in {files}, it lacks "
            f"{len(wanted - got)} and has {len(got - wanted)} that are none"
        )


# Running them.


@dataclass(frozen=True)
class Bench:
    """A session and a folder."""

    spark: SparkSession
    folder: Path
    slots: int = SLOTS
    settings: dict[str, str] = field(default_factory=dict)
    narrow: bool = False
    """Whether the limit of bytes for an Arrow batch is lifted."""

    def files(
        self, name: str, events: int, rows: int, keys: int, *, before: pa.Table | None = None
    ) -> Path:
        """The stream as files of so many rows each; `before` comes first, in one file."""
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
        parts = [table.slice(low, rows) for low in range(0, events, rows)]
        if before is not None:
            after = len(before)
            for column in ("ts", "seq"):
                place = table.column_names.index(column)
                moved = pc.add(table[column], after)
                table = table.set_column(place, column, moved)
            parts = [before, *(table.slice(low, rows) for low in range(0, events, rows))]
        for number, part in enumerate(parts):
            # Spark takes files by their age, and equally old ones in any order.
            path = folder / f"{number:06}.parquet"
            pq.write_table(part, path)
            os.utime(path, (1_000_000_000 + number,) * 2)
        return folder

    def run(self, name: str, files: Path, *, checked: bool = False, skip: int = WARM_UP) -> float:
        """The seconds that a micro-batch took, in the middle, without the first ones."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = CONTENDERS[name](reader.parquet(str(files)), self.slots)
        # Never the same place twice: the state store still tidies up after a query has ended.
        checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=self.folder)
        keep = checked and name != "ceiling"
        writer = rows.writeStream.format("memory" if keep else "noop").outputMode("append")
        with query_settings(self.spark, self.slots, narrow=self.narrow):
            for key, value in self.settings.items():
                self.spark.conf.set(key, value)
            query = (
                writer.queryName(FOUND)
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
        query.awaitTermination()
        if keep:
            check(name, files, self.spark.table(FOUND).collect())
        took: list[int] = [p["durationMs"]["triggerExecution"] for p in query.recentProgress]
        return statistics.median(took[skip:]) / 1000

    def race(
        self,
        title: str,
        contenders: Sequence[str],
        *,
        rounds: int,
        rows: int,
        files: Path,
        laps: int = LAPS,
    ) -> Race:
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        with progress_bar() as bar:
            task = bar.add_task(title, total=(rounds + laps) * len(contenders))
            for lap in range(rounds + laps):
                for name in contenders:
                    bar.update(task, description=f"{title}: {name}")
                    took = self.run(name, files, checked=lap == 0)
                    if lap >= laps:
                        seconds[name].append(took)
                    bar.advance(task)
        results = {name: Result(name, rows, tuple(times)) for name, times in seconds.items()}
        return Race(title, results, ("ceiling", *HANDMADE))


def better(race: Race) -> float:
    """Against the better of those written by hand."""
    return min(race.ratio("detect", name) for name in HANDMADE)


# Growth and settings.


def growth_with_keys(bench: Bench, rows: int, numbers: Sequence[int]) -> dict[str, str]:
    """Micro-batches of `detect` with more and more keys."""
    found = {}
    for keys in numbers:
        files = bench.files(f"keys-{keys}", 6 * rows, rows, keys)
        bench.run("detect", files)
        found[f"{keys:,} keys"] = f"{bench.run('detect', files) * 1000:,.0f} ms"
    return found


def growth_with_state(bench: Bench, numbers: Sequence[int]) -> dict[str, str]:
    """Small micro-batches on engines in which so many keys have an open `A`."""
    found = {}
    for keys in numbers:
        opened = pa.table(
            {
                "ts": pa.array(np.arange(keys, dtype=np.int64)),
                "type": pa.array(["A"] * keys),
                "key": pa.array(np.arange(keys, dtype=np.int64)),
                "seq": pa.array(np.arange(keys, dtype=np.int64)),
            }
        )
        engine = Engine(touches(), by="key", attenuation=0.3)
        engine.feed(EventBatch.from_arrow(opened, time="ts", type="type", arrival="seq"))
        size = len(engine.checkpoint())
        files = bench.files(f"state-{keys}", 1_000, 100, 64, before=opened)
        took = f"{bench.run('detect', files, skip=4) * 1000:,.0f} ms"
        if size <= MOST_CARRIED:
            CONTENDERS["carried"] = carried(size)
            beside = bench.run("carried", files, skip=4)
            took += f"; only to carry it with applyInPandas: {beside * 1000:,.0f} ms"
        found[f"{size / 2**20:,.0f} MB ({keys:,} open keys)"] = took
    CONTENDERS.pop("carried", None)
    return found


DEFAULTS = {
    "changelog checkpoints": {
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"
    },
    "no checksum files (Spark)": {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "true"},
    "no checksum files (local disk)": {
        "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs"
    },
    "50,000 rows an Arrow batch": {"spark.sql.execution.arrow.maxRecordsPerBatch": "10000"},
    "a partition for each slot": {"spark.sql.shuffle.partitions": "8"},
}
"""Settings of a query, and what they would be without us (of partitions, a few of the 200)."""

SESSION_DEFAULTS = {
    "unix sockets": {"spark.python.unix.domain.socket.enabled": "false"},
    "workers with everything imported": {"spark.python.daemon.module": "pyspark.daemon"},
}


def what_settings_win(
    bench: Bench, defaults: dict[str, dict[str, str]], files: dict[str, Path], rounds: int
) -> dict[str, str]:
    """How many times as long a micro-batch takes without each of them."""
    benches = {"": bench} | {name: replace(bench, settings=s) for name, s in defaults.items()}
    took: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for name, each in benches.items():
            for size, folder in files.items():
                took.setdefault((name, size), []).append(each.run("detect", folder))
    found = {}
    for name in defaults:
        parts = []
        for size in files:
            pairs = zip(took[name, size], took["", size], strict=True)
            parts.append(f"{statistics.median(a / b for a, b in pairs):.2f} ({size})")
        found[f"without: {name}"] = "x " + ", x ".join(parts)
    return found


def what_no_limit_wins(bench: Bench, files: Path, rounds: int) -> dict[str, str]:
    """How long a micro-batch takes if Spark need not know how large batches for Python are."""
    benches = (replace(bench, narrow=True), bench)
    found = {}
    for name in ("detect", "ceiling"):
        pairs = [[each.run(name, files) for each in benches] for _ in range(rounds)]
        ratio = statistics.median(without / within for without, within in pairs)
        found[f"{name}, rows without a limit of bytes"] = f"x {ratio:.2f}"
    return found


def what_session_wins(bench: Bench, files: dict[str, Path]) -> dict[str, str]:
    """The same for settings that a session is started with."""
    took: dict[tuple[str, str], float] = {}
    spark = bench.spark
    sessions: dict[str, dict[str, str]] = {"": {}} | SESSION_DEFAULTS
    for name, settings in sessions.items():
        spark.stop()
        spark = new_session(settings)
        for size, folder in files.items():
            for _ in range(2):
                took[name, size] = Bench(spark, bench.folder).run("detect", folder)
    spark.stop()
    return {
        f"without: {name}": "x "
        + ", x ".join(f"{took[name, size] / took['', size]:.2f} ({size})" for size in files)
        for name in SESSION_DEFAULTS
    }


def new_session(settings: dict[str, str]) -> SparkSession:
    config = {"spark.ui.enabled": "false"} | settings
    spark = bs.session("benchmark", master="local[2]", config=config)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_pipeline")
    parser.description = __doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=2_000_000, help="length of the stream")
    parser.add_argument("--quick", action="store_true", help="a small run that only shows the way")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="betimes-bench-"))
    try:
        bench = Bench(new_session({}), folder)
        run = run_quick if options.quick else partial(run_all, events=options.events)
        races, targets, readings = run(bench)
    finally:
        if running := SparkSession.getActiveSession():
            running.stop()
        shutil.rmtree(folder)
    report(races, targets, readings=readings, as_json=options.json)


Found = tuple[list[Race], list[Target], dict[str, dict[str, str]]]


def run_quick(bench: Bench) -> Found:
    """Shows the way; too short to judge by."""
    rows = 50_000
    files = bench.files("few", 4 * rows, rows, 64)
    names = ["ceiling", "detect", *HANDMADE]
    title = f"64 keys, micro-batches of {rows:,}"
    small = bench.files("small", 600, 100, 64)
    return [
        bench.race(title, names, rounds=1, rows=rows, files=files),
        bench.race("64 keys, micro-batches of 100", names, rounds=1, rows=100, files=small),
    ], [], {}  # fmt: skip


def run_all(bench: Bench, *, events: int) -> Found:
    rows = 200_000
    everybody = list(CONTENDERS)
    few = bench.files("few", events, rows, 64)
    many = bench.files("many", 4 * rows, rows, 10_000)
    small = bench.files("small", 1_200, 100, 64)
    title = f"64 keys, micro-batches of {rows:,}"
    races = [
        bench.race(title, everybody, rounds=3, rows=rows, files=few),
        replace(bench, slots=MANY_SLOTS).race(
            f"10,000 keys, micro-batches of {rows:,}", ["ceiling", "detect", *HANDMADE],
            rounds=1, rows=rows, files=many, laps=1,
        ),
        bench.race("64 keys, micro-batches of 100", everybody, rounds=4, rows=100, files=small),
    ]  # fmt: skip
    sizes = {"200,000 rows": bench.files("setting", 5 * rows, rows, 64), "100 rows": small}
    readings = {
        f"growth with keys, micro-batches of {rows:,}": growth_with_keys(
            bench, rows, (64, 10_000, 1_000_000)
        ),
        "growth with state, micro-batches of 100": growth_with_state(bench, STATES),
        "time of a micro-batch": what_settings_win(bench, DEFAULTS, sizes, rounds=2)
        | what_no_limit_wins(bench, few, rounds=3)
        | what_session_wins(bench, sizes),
        "a micro-batch of 100": {
            name: f"{statistics.median(result.seconds) * 1000:,.0f} ms"
            for name, result in races[2].results.items()
        },
    }
    return (
        races,
        [
            Target("64 keys, x better by hand", 2.5, better(races[0])),
            Target("64 keys, x ceiling", 0.6, races[0].ratio("detect", "ceiling")),
            Target("10,000 keys, x better by hand", 10, better(races[1])),
            Target("100 rows, x better by hand", 1 / 1.2, better(races[2])),
        ],
        readings,
    )


if __name__ == "__main__":
    main()
