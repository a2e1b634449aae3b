"""The disk of the checkpoint is full: the run says so, and after space was made nothing is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from betimes import spark as bs
from betimes.engine import CheckpointError
from betimes.spark.query.sinks import FileSink
from tests.spark.faults import fresh, rows, touches_in

FULL_AT = 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be made by root, where mounting is allowed")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


@pytest.mark.parametrize("when", ["state", "commit"])
def test_the_disk_is_full_at_checkpoint_time(
    spark: SparkSession,
    source: Path,
    undisturbed: list[Row],
    small_disk: Path,
    tmp_path: Path,
    when: str,
) -> None:
    """Before the state of a batch is stored, or after it, when the batch is noted as done."""
    folder = fresh(source, tmp_path)
    sink = FileSink(str(folder / "out"))
    filled: list[Path] = []

    def write(changes: DataFrame, batch: int) -> None:
        if batch == FULL_AT and not filled and when == "state":
            filled.append(fill(small_disk))
        sink.write(changes, batch)
        if batch == FULL_AT and not filled:
            filled.append(fill(small_disk))

    checkpoint = str(small_disk / "checkpoint")
    for _ in range(2):  # the second time it is still full
        changes = touches_in(spark, folder)
        run = bs.write(changes, into=write, checkpoint=checkpoint, available_now=True)
        with pytest.raises(bs.RunError, match=r"the disk .* full.*Free space and start again"):
            run.wait()
    filled[0].unlink()
    changes = touches_in(spark, folder)
    with bs.write(changes, into=write, checkpoint=checkpoint, available_now=True) as run:
        run.finish()
    assert rows(spark, folder) == undisturbed


def test_the_disk_is_full_from_the_beginning(
    spark: SparkSession, source: Path, small_disk: Path
) -> None:
    (small_disk / "checkpoint").mkdir()
    fill(small_disk)
    with pytest.raises(CheckpointError, match=r"No space left.*free space"):
        bs.write(
            touches_in(spark, source), format="noop", checkpoint=str(small_disk / "checkpoint")
        )
