"""The same result as the local engine, however the stream is cut and spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from betimes import Change
from betimes import spark as bs
from tests.spark.material import (
    SCHEMA,
    hierarchy,
    in_order,
    run_locally,
    standing,
    stream,
    write_parts,
)

EVENTS = 12_000


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return stream(EVENTS)


@pytest.fixture(scope="module")
def local(events: pa.Table) -> list[Change]:
    return run_locally(events, attenuation=0.3)


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(
    spark: SparkSession, events: pa.Table, folder: Path, rows: int, **options: Any
) -> list[Row]:
    """All changes that a stream gives, the end included."""
    source = read(spark, write_parts(events, folder / "in", rows))
    changes = bs.detect(source, hierarchy(), arrival="seq", by="key", **options)
    out = str(folder / "out")
    with bs.write(changes, out, checkpoint=str(folder / "checkpoint"), available_now=True) as run:
        run.finish()
    return in_order(spark.read.parquet(out).collect())


@pytest.mark.parametrize(("slots", "rows"), [(1, 3000), (2, 1100), (7, 4000)])
def test_a_stream_gives_what_the_local_engine_gives(
    spark: SparkSession,
    events: pa.Table,
    local: list[Change],
    tmp_path: Path,
    slots: int,
    rows: int,
) -> None:
    changes = run(spark, events, tmp_path, rows, slots=slots, attenuation=0.3)
    assert standing(changes) == standing(local)
    assert {change.status for change in changes} == {"provisional", "final"}
    for slot in range(slots):
        numbers = [change.seq for change in changes if change.slot == slot]
        assert numbers == list(range(1, len(numbers) + 1))
