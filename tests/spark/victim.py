"""Jobs in a process of their own, which a test may kill: `python -m tests.spark.victim FOLDER JOB`.

Each job takes what is in FOLDER/JOB/in, writes to FOLDER/JOB/out with FOLDER/JOB/checkpoint, says
on stdout when it begins to write a batch, and ends when everything has settled. They run side by
side. Started again, they go on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from betimes import Hierarchy
from betimes import spark as bs
from betimes.spark.query.launcher import launcher
from betimes.spark.query.sinks import FileSink
from tests.spark import ledger
from tests.spark.conftest import session_settings
from tests.spark.material import OPTIONS, hierarchy, read
from tests.spark.windowing import Highs, windows


def deadly_windows(folder: Path, apart: int, here: int) -> Hierarchy:
    """The times at which an instance of a chain, and an engine, kill the worker that has them."""
    return windows(
        apart=Highs(folder=str(folder), deadly=apart), here=Highs(folder=str(folder), deadly=here)
    )


def changes_of(job: str, spark: SparkSession, folder: Path, asked: argparse.Namespace) -> DataFrame:
    if job == "ledger":
        return ledger.detected(spark, folder)
    detectors = deadly_windows(folder, *asked.deadly) if job == "windows" else hierarchy()
    how = OPTIONS | {"attenuation": "adaptive"} if asked.adaptive else OPTIONS
    return bs.detect(read(spark, folder / "in"), detectors, **how)


def start(job: str, changes: DataFrame, folder: Path) -> bs.Run:
    sink = FileSink(str(folder / "out"))

    def say(what: str, batch: int) -> None:
        sys.stdout.write(f"{what} {job} {batch}\n")
        sys.stdout.flush()

    def write(rows: DataFrame, batch: int) -> None:
        say("begin", batch)
        sink.write(rows, batch)
        say("end", batch)

    kept = str(folder / "checkpoint")
    return bs.write(changes, into=write, checkpoint=kept, available_now=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("jobs", nargs="+", choices=["touches", "windows", "ledger"])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--adaptive", action="store_true", help="wait as the load allows")
    parser.add_argument(
        "--deadly", type=int, nargs=2, default=(-1, -1), help=deadly_windows.__doc__
    )
    asked = parser.parse_args()
    folder: Path = asked.folder
    config = session_settings(folder) | {"spark.driver.host": "127.0.0.1"}
    spark = bs.session("victim", master=asked.master, config=config)
    spark.sparkContext.pythonExec = str(launcher())  # a cluster of the tests is on this machine
    spark.sparkContext.setLogLevel("OFF")
    runs = [
        start(job, changes_of(job, spark, folder / job, asked), folder / job) for job in asked.jobs
    ]
    for run in runs:
        with run:
            run.finish()
    print("finished", flush=True)


if __name__ == "__main__":
    main()
