"""Windows on Spark find what they find in one process, whatever happens to the processes."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import betimes as bt
from betimes import spark as bs
from tests.spark.faults import EVENTS, ROWS, fresh, rows, run, windows_in
from tests.spark.material import (
    OPTIONS,
    in_order,
    read,
    run_locally,
    standing,
    stream,
    write_parts,
)
from tests.spark.windowing import windows

LOCAL = {name: OPTIONS[name] for name in ("attenuation", "retraction")}


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return stream(EVENTS, keys=4, seed=5)


def check(found: list[Row], local: list[bt.Change]) -> None:
    expected = standing(local)
    assert standing(found) == expected
    kinds = Counter(type for type, _, _ in expected.values())
    emitted = {type for node in windows() for type in node.emits}
    assert kinds.keys() == emitted
    assert {change.change_type for change in found} == {"insert", "confirm", "delete"}


def test_windows_of_each_key_give_what_the_local_engine_gives(
    events: pa.Table, windows_undisturbed: list[Row]
) -> None:
    check(windows_undisturbed, run_locally(events, windows(), **LOCAL))


def test_windows_of_the_whole_stream_give_what_the_local_engine_gives(
    spark: SparkSession, events: pa.Table, windows_source: Path, tmp_path: Path
) -> None:
    changes = bs.detect(read(spark, windows_source / "in"), windows(None), arrival="seq", **LOCAL)
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
    spark: SparkSession, windows_source: Path, windows_undisturbed: list[Row], tmp_path: Path
) -> None:
    folder = fresh(windows_source, tmp_path / "restarted")
    later = sorted((folder / "in").iterdir())[2:]
    for file in later:
        shutil.move(file, tmp_path / file.name)
    run(windows_in(spark, folder), folder, ends=False)
    # The engines of another run take the place of these, which have to be built again.
    another = tmp_path / "another"
    write_parts(stream(ROWS), another / "in", ROWS)
    run(windows_in(spark, another), another, ends=False)
    for number, file in enumerate(later):
        shutil.move(tmp_path / file.name, file)
        os.utime(file, (time.time() + number,) * 2)
    run(windows_in(spark, folder), folder)
    assert rows(spark, folder) == windows_undisturbed
