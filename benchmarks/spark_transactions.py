"""Heavy transactions on Spark, on several cores: `python -m benchmarks.spark_transactions`.

Tasks of 5 ms without conflicts, one slot. On this machine, Spark gives each of its tasks as many
cores as there are (`spark.task.cpus`), so the operator with `workers="auto"` starts that many
processes. With `--cluster`, it starts two workers of a standalone cluster with a core each; there,
transactions run ahead where the rows are read: in two tasks, because a micro-batch has two files.
Compared with the same operator with `workers=1` by the median time of a micro-batch, without the
first ones, in which processes start and costs are learned. Rounds alternate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.spark.cluster import cluster

import betimes as bt
from benchmarks.transactions import Busy, touching
from betimes import spark as bs
from betimes.transactions.executor import Workers

SCHEMA = "ts long, type string, account long"
SKIP = 3
"""Micro-batches in which processes start, and learn how long a transaction takes."""


def write(folder: Path, batches: int, rows: int) -> Path:
    """Some files with so many rows each."""
    events, began = touching(batches * rows, 0.0), time.time() - 3600
    folder.mkdir()
    for number in range(batches):
        part = events[number * rows : (number + 1) * rows]
        table = pa.table(
            {
                "ts": [event.ts for event in part],
                "type": [event.type for event in part],
                "account": [event["account"] for event in part],
            }
        )
        file = folder / f"part-{number:04}.parquet"
        pq.write_table(table, file)
        os.utime(file, (began + number,) * 2)
    return folder


def run(
    spark: SparkSession, files: Path, size: int, workers: Workers, per_batch: int
) -> tuple[float, str]:
    """The median seconds of a micro-batch, and where its transactions ran."""
    hierarchy = bt.Hierarchy(clock="e")
    operator = bt.transactional(Busy(size / 1e6), workers=workers)
    hierarchy.add(operator, on="e", emits="made", name="busy")
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch)
    changes = bs.detect(stream.parquet(str(files)), hierarchy, attenuation=0)
    place = tempfile.mkdtemp(prefix="checkpoint-", dir=files.parent)
    with (
        bs.write(changes, format="noop", checkpoint=place, available_now=True) as query,
        bs.statistics(query) as readings,
    ):
        query.wait()
    took = [batch.seconds for batch in readings.batches][SKIP:]
    return statistics.median(took), readings.detectors["busy"].how


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--size", type=int, default=5_000, help="microseconds per transaction")
    parser.add_argument("--rows", type=int, default=400, help="transactions per micro-batch")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--cluster", action="store_true", help="two executors with a core each")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder, ExitStack() as stack:
        master = f"local[{options.cores}]"
        if options.cluster:
            master = stack.enter_context(cluster(Path(folder))).address
        compare(options, Path(folder), master)


def compare(options: argparse.Namespace, folder: Path, master: str) -> None:
    """Run the operator with one worker and with as many as it takes, in turn."""
    choices: tuple[Workers, ...] = (1, "auto")
    table = Table("round", "workers=1, s", "workers='auto', s", "speed-up")
    cpus, parts = (1, 2) if options.cluster else (options.cores, 1)
    config = {
        "spark.task.cpus": str(cpus), "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1", "spark.executor.memory": "1g",
    }  # fmt: skip
    spark = bs.session("bench", master=master, config=config)
    spark.sparkContext.setLogLevel("OFF")
    files = write(folder / "in", options.batches * parts, options.rows // parts)
    for number in range(options.rounds):
        ran = [run(spark, files, options.size, workers, parts) for workers in choices]
        (one, _), (many, how) = ran
        table.add_row(str(number + 1), f"{one:.2f}", f"{many:.2f}", f"{one / many:.2f}")
    spark.stop()
    console = Console(width=110)
    console.print(table)
    console.print(f"'auto' ran {how}")


if __name__ == "__main__":
    main()
