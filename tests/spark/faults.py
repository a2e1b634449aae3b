"""Runs that die, and what is compared with those that do not."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from betimes import spark as bs
from tests.spark.material import OPTIONS, hierarchy, in_order, read
from tests.spark.processes import kill, running
from tests.spark.windowing import windows

EVENTS, ROWS = 3_000, 750
BATCHES = EVENTS // ROWS
KILLS = 2


def touches_in(spark: SparkSession, folder: Path) -> DataFrame:
    return bs.detect(read(spark, folder / "in"), hierarchy(), **OPTIONS)


def windows_in(spark: SparkSession, folder: Path) -> DataFrame:
    return bs.detect(read(spark, folder / "in"), windows(), **OPTIONS)


def run(changes: DataFrame, folder: Path, *, ends: bool = True) -> None:
    """Write to FOLDER/out what is there now."""
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")
    with bs.write(changes, out, checkpoint=checkpoint, available_now=True) as running:
        if ends:
            running.finish()
        else:
            running.wait()


def rows(spark: SparkSession, folder: Path) -> list[Row]:
    return in_order(spark.read.parquet(str(folder / "out")).collect())


def cut(folder: Path) -> list[str]:
    """Up to where each batch went, as Spark has noted it."""
    offsets = folder / "checkpoint" / "query" / "offsets"
    numbers = sorted(int(file.name) for file in offsets.iterdir() if file.name.isdecimal())
    return [(offsets / str(number)).read_text().splitlines()[-1] for number in numbers]


def fresh(source: Path, folder: Path) -> Path:
    """A folder with the same input."""
    shutil.copytree(source / "in", folder / "in")
    return folder


def victim(folder: Path, *options: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Jobs, with their JVM, in a process of their own."""
    command = (sys.executable, "-m", "tests.spark.victim", str(folder), *options)
    return running(*command, stdout=subprocess.PIPE)


def run_through_kills(folder: Path, chance: random.Random, *options: str) -> None:
    """Run to the end, although the driver is killed a few times."""
    kills = 0
    while kills < KILLS and not _run_and_kill(folder, chance, *options):
        kills += 1
    if kills == KILLS:
        with victim(folder, *options) as process:
            assert process.wait(timeout=600) == 0


def _run_and_kill(folder: Path, chance: random.Random, *options: str) -> bool:
    """Run until some time after a batch has begun; whether it was finished before."""
    fatal = chance.randrange(1, 7)
    begun = 0
    with victim(folder, *options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("finished"):
                return True
            begun += line.startswith("begin")
            if begun == fatal:
                timer = threading.Timer(chance.uniform(0, 1.5), kill, [process])
                timer.start()
                begun += 1
    return False
