"""*Growth* with keys and with state; *settings*: what each of them gains."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.spark_pipeline.bench import Bench, new_session
from benchmarks.spark_pipeline.contenders import CONTENDERS, carried, touches
from betimes import Engine, EventBatch

MOST_CARRIED = 32 * 2**20
"""With 100 MB of state, the other operator needs more than the 1 GB of the JVM."""


def growth_with_keys(bench: Bench, rows: int, numbers: Sequence[int]) -> dict[str, str]:
    """Micro-batches of `detect` with more and more keys."""
    found = {}
    for keys in numbers:
        files = bench.files(f"keys-{keys}", 6 * rows, rows, keys)
        bench.run("detect", files)
        found[f"{keys:,} keys"] = f"{bench.run('detect', files) * 1000:,.0f} ms"
    return found


def growth_with_state(bench: Bench, numbers: Sequence[int]) -> dict[str, str]:
    """Small micro-batches on engines in which many keys have an open `A`."""
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
            took += f"; carrying it with applyInPandas alone: {beside * 1000:,.0f} ms"
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
    "50,000 rows per Arrow batch": {"spark.sql.execution.arrow.maxRecordsPerBatch": "10000"},
    "a partition for each slot": {"spark.sql.shuffle.partitions": "8"},
}
"""Settings of a query, and their values without us (partitions: 8 instead of Spark's 200)."""

SESSION_DEFAULTS = {
    "unix sockets": {"spark.python.unix.domain.socket.enabled": "false"},
    "workers with everything imported": {"spark.python.daemon.module": "pyspark.daemon"},
}


def what_settings_win(
    bench: Bench, defaults: dict[str, dict[str, str]], files: dict[str, Path], rounds: int
) -> dict[str, str]:
    """The time of a micro-batch without each setting, as a multiple of the time with it."""
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
    """The time of a micro-batch if Spark does not have to track the size of Arrow batches."""
    benches = (replace(bench, narrow=True), bench)
    found = {}
    for name in ("detect", "ceiling"):
        pairs = [[each.run(name, files) for each in benches] for _ in range(rounds)]
        ratio = statistics.median(without / within for without, within in pairs)
        found[f"{name}, rows without a byte limit"] = f"x {ratio:.2f}"
    return found


def what_session_wins(bench: Bench, files: dict[str, Path]) -> dict[str, str]:
    """The same for settings that take effect when a session starts."""
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
