"""Sessions on Spark, beside `applyInPandasWithState` written by hand.

Visits of 64 keys: events that follow each other in less than the gap. Both find how many events a
session has and its largest value, from events that are up to 150 ms late. By hand that is a buffer
per key, from which sessions leave that ended longer than the gap before the watermark, which is the
largest time of any event minus 150 ms. It reports final results only, so betimes does, too. All
contenders must find the same sessions, apart from those that end with the last micro-batch.
"""

from __future__ import annotations

import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import betimes as bt
from betimes import spark as bs

GAP, LATE, KEYS, BATCHES = 20_000, 150_000, 64, 5
SCHEMA = "ts long, type string, key long, v long, seq long"
FOUND = "key long, start long, end long, n long, largest long"


def stream(rows: int) -> pa.Table:
    """In order of arrival; the last event of each key is long after all others."""
    chance = np.random.default_rng(1)
    ts = np.sort(chance.integers(0, rows * 100, rows))
    keys = chance.integers(0, KEYS, rows)
    # Keys take turns in being busy, so that there are sessions to tell apart.
    keys = (keys // 8 * 8) + (ts // 1_000_000 + keys) % 8
    order = np.argsort(ts + chance.integers(0, LATE, rows), kind="stable")
    last = np.full(KEYS, ts[-1] + 100 * LATE)
    columns: dict[str, Any] = {
        "ts": np.concatenate([ts[order], last]),
        "type": ["e"] * (rows + KEYS),
        "key": np.concatenate([keys[order], np.arange(KEYS)]),
        "v": chance.integers(0, 1_000, rows + KEYS),
        "seq": np.arange(rows + KEYS),
    }
    return pa.table(columns)


def write(table: pa.Table, folder: Path) -> Path:
    """A file for each micro-batch."""
    size, began = -(-len(table) // BATCHES), time.time() - 3600
    folder.mkdir()
    for number in range(BATCHES):
        file = folder / f"part-{number:04}.parquet"
        pq.write_table(table.slice(number * size, size), file)
        os.utime(file, (began + number,) * 2)
    return folder


def by_hand(events: DataFrame) -> DataFrame:
    """What you would write without this library."""

    def handle(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        kept: list[Any] = pickle.loads(state.get[0]) if state.exists else []
        for frame in frames:
            kept.extend(zip(frame["ts"].tolist(), frame["v"].tolist(), strict=True))
        kept.sort()
        until = state.getCurrentWatermarkMs() * 1000
        found, begins = [], 0
        for row in range(1, len(kept) + 1):
            end = kept[row - 1][0]
            if row < len(kept) and kept[row][0] - end < GAP:
                continue
            if end + GAP > until:
                break
            part = kept[begins:row]
            found.append((part[0][0], end, len(part), max(v for _, v in part)))
            begins = row
        state.update((pickle.dumps(kept[begins:]),))
        if kept[begins:]:
            state.setTimeoutTimestamp((kept[-1][0] + GAP) // 1000 + 1)
        if found:
            names = ["start", "end", "n", "largest"]
            yield pd.DataFrame(found, columns=names).assign(key=int(key[0]))

    times = events.withColumn("at", F.timestamp_micros("ts"))
    late = times.withWatermark("at", f"{LATE // 1000} milliseconds")
    return late.groupBy("key").applyInPandasWithState(
        handle, FOUND, "kept binary", "append", GroupStateTimeout.EventTimeTimeout
    )


def ours(events: DataFrame, instances: int = 1) -> DataFrame:
    hierarchy = bt.Hierarchy(clock="e")
    operator = bt.windowed(
        bt.aggregate(n="count()", largest="max(v)"), bt.window(gap=GAP), instances=instances
    )
    hierarchy.add(operator, on="e", emits="session", by="key", name="sessions")
    return bs.detect(
        events, hierarchy, arrival="seq", by="key", slots=2, results="final", slack="150ms"
    )


def run(spark: SparkSession, files: Path, contender: str) -> tuple[float, float, set[Any]]:
    """Seconds of all micro-batches but the first, the median of them, and what was found."""
    place = Path(tempfile.mkdtemp(prefix="run-", dir=files.parent))
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(files))
    checkpoint, out = str(place / "checkpoint"), str(place / "out")
    if contender == "by hand":
        writer = by_hand(events).writeStream.format("parquet").option("path", out)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each.numInputRows]
        rows = spark.read.parquet(out).select("key", "start", "end", "n", "largest").collect()
        found = {tuple(row) for row in rows}
    else:
        changes = ours(events, 1 if contender == "betimes" else 2)
        with bs.write(changes, out, checkpoint=checkpoint, available_now=True) as running:
            running.wait()
            progress = [each for each in running.query.recentProgress if each.numInputRows]
        payload = F.from_json("payload", "key long, n long, largest long, `window.start` long")
        rows = spark.read.parquet(out).select(payload.alias("p"), "ts").collect()
        found = {(r.p.key, r.p["window.start"], r.ts, r.p.n, r.p.largest) for r in rows}
    took = [each.batchDuration / 1000 for each in progress[1:]]
    return sum(took), statistics.median(took), found


def rates(rows: int) -> dict[str, tuple[float, float]]:
    """Rows per second without the first micro-batch, and the seconds of a micro-batch."""
    spark = bs.session("sessions", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.shuffle.partitions", "2")  # as many as cores; ours sets its own
    done: dict[str, tuple[float, float]] = {}
    table, known = stream(rows), set[Any]()
    # By hand, the watermark of a micro-batch is that of the one before it.
    before = len(table) - -(-len(table) // BATCHES)
    until = int(table["ts"].to_numpy()[:before].max()) - LATE - GAP
    with tempfile.TemporaryDirectory(prefix="sessions-") as room:
        files = write(table, Path(room, "in"))
        for contender in ("by hand", "betimes", "betimes, two instances in a chain"):
            took, batch, found = run(spark, files, contender)
            found = {each for each in found if each[2] <= until}
            known = known or found
            assert known == found, (contender, len(known), len(found))
            done[contender] = rows * (BATCHES - 1) / BATCHES / took, batch
    spark.stop()
    return done
