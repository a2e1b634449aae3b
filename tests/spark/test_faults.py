"""Contract 3: what a sink holds after faults is what it holds without."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from betimes import spark as bs
from betimes.spark.query.sinks import FileSink
from tests.spark.material import (
    OPTIONS,
    hierarchy,
    in_order,
    read,
    standing,
    stream,
    write_parts,
)
from tests.spark.processes import kill, running

EVENTS, ROWS = 5_000, 1_000
BATCHES = EVENTS // ROWS
BROKEN = (1, 3)
KILLS = 2
SEEDS = int(os.environ.get("BETIMES_KILL_SEEDS", "1"))
"""Each seed takes about half a minute; `BETIMES_KILL_SEEDS=20` looks longer."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    write_parts(stream(EVENTS, seed=5), folder / "in", ROWS)
    return folder


def detected(spark: SparkSession, folder: Path) -> DataFrame:
    return bs.detect(read(spark, folder / "in"), hierarchy(), **OPTIONS)


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, source: Path) -> list[Row]:
    changes = detected(spark, source)
    out, checkpoint = str(source / "out"), str(source / "checkpoint")
    with bs.write(changes, out, checkpoint=checkpoint, available_now=True) as run:
        run.finish()
    return rows(spark, source)


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


def test_a_batch_is_run_again_after_its_sink_was_written(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path
) -> None:
    folder = fresh(source, tmp_path)
    sink = FileSink(str(folder / "out"))
    broken: list[int] = []

    def write(changes: DataFrame, batch: int) -> None:
        sink.write(changes, batch)
        if batch in BROKEN and batch not in broken:
            broken.append(batch)
            raise OSError("the connection was lost")

    for _ in BROKEN:
        checkpoint = str(folder / "checkpoint")
        run = bs.write(
            detected(spark, folder), into=write, checkpoint=checkpoint, available_now=True
        )
        with pytest.raises(bs.RunError, match="the connection was lost"):
            run.wait()
    run = bs.write(detected(spark, folder), into=write, checkpoint=checkpoint, available_now=True)
    run.wait()
    run.stop()
    # As if the process had died between the sink's last write and Spark's note of it.
    (folder / "checkpoint" / "query" / "commits" / str(BATCHES - 1)).unlink()
    (folder / "checkpoint" / "query" / "commits" / f".{BATCHES - 1}.crc").unlink(missing_ok=True)
    with bs.write(
        detected(spark, folder), into=write, checkpoint=checkpoint, available_now=True
    ) as run:
        run.finish()
    assert broken == list(BROKEN)
    assert rows(spark, folder) == undisturbed


def victim(folder: Path, *options: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """The run, with its JVM, in a process of its own."""
    command = (sys.executable, "-m", "tests.spark.victim", str(folder), *options)
    return running(*command, stdout=subprocess.PIPE)


def run_and_kill(folder: Path, chance: random.Random, *options: str) -> bool:
    """Run until some time after a batch has begun; whether it was finished before."""
    fatal = chance.randrange(1, 4)
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


def run_through_kills(folder: Path, chance: random.Random, *options: str) -> None:
    """Run to the end, although the driver is killed a few times."""
    kills = 0
    while kills < KILLS and not run_and_kill(folder, chance, *options):
        kills += 1
    if kills == KILLS:
        with victim(folder, *options) as process:
            assert process.wait(timeout=600) == 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_driver_is_killed_at_random_points(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path, seed: int
) -> None:
    """Every second time with adaptive attenuation.

    What is announced early then depends on the load, so only what stands in the end is the same.
    That is so too if a kill came after Spark had looked for files and before it had noted the
    batch: then that batch has never been, and another one is cut, with one file more.
    """
    chance = random.Random(seed)
    folder = fresh(source, tmp_path)
    adaptive = seed % 2 == 1
    run_through_kills(folder, chance, *(["--adaptive"] if adaptive else []))
    found = rows(spark, folder)
    assert standing(found) == standing(undisturbed)
    if not adaptive and cut(folder) == cut(source):
        assert found == undisturbed
