"""Windows on Spark find what they find in one process, whatever happens to the processes."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import betimes as bt
from betimes import spark as bs
from tests.spark.material import (
    OPTIONS,
    in_order,
    read,
    run_locally,
    standing,
    stream,
    write_parts,
)
from tests.spark.test_faults import SEEDS, cut, fresh, rows, run_through_kills, victim
from tests.spark.windowing import windows

EVENTS, ROWS = 5_000, 1_000
LOCAL = {name: OPTIONS[name] for name in ("attenuation", "retraction")}


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return stream(EVENTS, keys=4, seed=5)


@pytest.fixture(scope="module")
def source(events: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windows")
    write_parts(events, folder / "in", ROWS)
    return folder


def run(changes: DataFrame, folder: Path, *, ends: bool = True) -> None:
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")
    with bs.write(changes, out, checkpoint=checkpoint, available_now=True) as running:
        if ends:
            running.finish()
        else:
            running.wait()


def detected(spark: SparkSession, folder: Path) -> DataFrame:
    return bs.detect(read(spark, folder / "in"), windows(), **OPTIONS)


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, source: Path) -> list[Row]:
    run(detected(spark, source), source)
    return rows(spark, source)


def check(found: list[Row], local: list[bt.Change]) -> None:
    expected = standing(local)
    assert standing(found) == expected
    kinds = Counter(type for type, _, _ in expected.values())
    emitted = {type for node in windows() for type in node.emits}
    assert kinds.keys() == emitted
    assert {change.change_type for change in found} == {"insert", "confirm", "delete"}


def test_windows_of_each_key_give_what_the_local_engine_gives(
    events: pa.Table, undisturbed: list[Row]
) -> None:
    check(undisturbed, run_locally(events, windows(), **LOCAL))


def test_windows_of_the_whole_stream_give_what_the_local_engine_gives(
    spark: SparkSession, events: pa.Table, source: Path, tmp_path: Path
) -> None:
    changes = bs.detect(read(spark, source / "in"), windows(None), arrival="seq", **LOCAL)
    run(changes, tmp_path)
    check(rows(spark, tmp_path), run_locally(events, windows(None), by=None, **LOCAL))


def test_a_dataframe_that_is_no_stream(spark: SparkSession, events: pa.Table) -> None:
    whole = events.drop_columns(["seq"])
    found = in_order(
        bs.detect(spark.createDataFrame(whole), windows(), by="key", slots=2).collect()
    )
    expected = standing(bt.detect(whole, windows(), by="key"))
    assert {match: row[:2] for match, row in standing(found).items()} == {
        match: row[:2] for match, row in expected.items()
    }


def test_engines_are_rebuilt_after_a_restart(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path
) -> None:
    folder = fresh(source, tmp_path / "restarted")
    later = sorted((folder / "in").iterdir())[2:]
    for file in later:
        shutil.move(file, tmp_path / file.name)
    run(detected(spark, folder), folder, ends=False)
    # The engines of another run take the place of these, which have to be built again.
    another = tmp_path / "another"
    write_parts(stream(ROWS), another / "in", ROWS)
    run(detected(spark, another), another, ends=False)
    for number, file in enumerate(later):
        shutil.move(tmp_path / file.name, file)
        os.utime(file, (time.time() + number,) * 2)
    run(detected(spark, folder), folder)
    assert rows(spark, folder) == undisturbed


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_driver_is_killed_at_random_points(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path, seed: int
) -> None:
    """If the kill came before Spark noted a batch, it is cut anew, and changes may differ."""
    folder = fresh(source, tmp_path)
    run_through_kills(folder, random.Random(seed), "--windows")
    found = rows(spark, folder)
    assert standing(found) == standing(undisturbed)
    if cut(folder) == cut(source):
        assert found == undisturbed


def test_processes_are_killed_in_the_middle_of_a_window(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path
) -> None:
    """One of an instance, which the engine replaces, and a Python worker, which Spark replaces."""
    folder = fresh(source, tmp_path)
    times = sorted({row.ts for row in undisturbed if row.type == "high"})
    deadly = [str(times[len(times) * share // 10]) for share in (4, 7)]
    with victim(folder, "--windows", "--master", "local[2,4]", "--deadly", *deadly) as process:
        assert process.wait(timeout=600) == 0
    assert all((folder / each).exists() for each in deadly), "nobody was killed"
    assert rows(spark, folder) == undisturbed
