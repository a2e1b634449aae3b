"""What leaves the JVM: what is needed, in the cheapest form, and nothing bad unsaid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from betimes import Hierarchy
from betimes import spark as bs
from betimes.spark.job import MOST_NUMBERED
from betimes.spark.query.origin import origin_of
from tests.spark.material import (
    NotBetween,
    hierarchy,
    in_order,
    read,
    run_locally,
    standing,
    stream,
    write_parts,
)

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"


def with_bad_rows() -> pa.Table:
    """A stream with a row without a type, and rows of a type that nobody wants."""
    rows = stream(2_000).to_pylist()
    rows[8]["type"] = None
    for row in rows[10::20]:
        row["type"] = "noise"
    return pa.Table.from_pylist(rows)


def many_types() -> Hierarchy:
    """More types than are worth a number."""
    touches = Hierarchy(clock="ball")
    others = [f"other {n}" for n in range(MOST_NUMBERED)]
    touches.add(NotBetween, on=("near", "not_near", "hit", *others), emits="touch", by="key")
    return touches


@pytest.mark.parametrize("make", [hierarchy, many_types], ids=["numbers", "text"])
def test_types_arrive_as_names_whatever_they_travel_as(
    spark: SparkSession, tmp_path: Path, make: Any
) -> None:
    table = with_bad_rows()
    source = read(spark, write_parts(table, tmp_path / "in", 1_000))
    changes = bs.detect(source, make(), arrival="seq", by="key", slots=2, attenuation=0.3)
    origin = origin_of(changes)
    assert origin is not None
    assert (origin.job.numbered is None) == (make is many_types)
    rows: list[Row] = []
    with (
        bs.write(
            changes,
            into=lambda changes, _: rows.extend(changes.collect()),
            checkpoint=str(tmp_path / "checkpoint"),
            available_now=True,
        ) as run,
        bs.statistics(run) as statistics,
    ):
        run.finish()
    bad = [row for row in rows if row.type == "rejected"]
    assert [json.loads(row.payload)["seq"] for row in bad] == [8]
    assert "type" in bad[0].cause
    noise = sum(name == "noise" for name in table["type"].to_pylist())
    assert sum(batch.ignored for batch in statistics.batches) == noise == 100
    good = table.filter(pa.compute.is_valid(table["type"]))
    told = run_locally(good, make(), rows=1_000, attenuation=0.3)
    assert standing(row for row in in_order(rows) if row not in bad) == standing(told)


def test_only_rows_that_cannot_be_large_are_handed_over_without_a_limit(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = read(spark, write_parts(stream(100), tmp_path / "in", 100))
    before = spark.conf.get(LIMIT)
    for text, narrow in ((source, True), (source.selectExpr("*", "type as name"), False)):
        changes = bs.detect(text, hierarchy(), arrival="seq", by="key")
        origin = origin_of(changes)
        assert origin is not None
        assert origin.job.narrow == narrow
        place = str(tmp_path / str(narrow))
        with bs.write(changes, format="noop", checkpoint=place, available_now=True) as run:
            run.wait()
    assert spark.conf.get(LIMIT) == before


NOON = 1_777_636_800_000
"""Milliseconds: 2026-05-01 12:00 UTC."""


def as_text(ts: int) -> str:
    return str(np.datetime64(ts, "ms")) + ("Z" if ts % 2 else "+00:00")


@pytest.mark.parametrize(("kind", "options"), [("long", {"unit": "ms"}), ("string", {})])
def test_times_are_numbers_of_a_unit_or_text(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    events = stream(2_000)
    counted = (NOON + events["ts"].to_numpy()).tolist()
    options |= {"retention": "1h"}
    wanted = pa.array([ts * 1000 for ts in counted])
    expected = run_locally(events.set_column(0, "ts", wanted), retention="1h")
    times: Any = counted if kind == "long" else [as_text(ts) for ts in counted]
    folder = write_parts(events.set_column(0, "ts", pa.array(times)), tmp_path / "in", 1_000)
    schema = f"ts {kind}, type string, key long, force long, seq long"
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    changes = bs.detect(source, hierarchy(), arrival="seq", by="key", slots=1, **options)
    rows: list[Row] = []
    with bs.write(
        changes,
        into=lambda changes, _: rows.extend(changes.collect()),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
    ) as run:
        run.finish()
    assert standing(in_order(rows)) == standing(expected)
    assert len(standing(expected)) > 50
    whole = bs.detect(
        spark.read.schema(schema).parquet(str(folder)), hierarchy(), by="key", slots=2, **options
    )
    found = {match: row[:2] for match, row in standing(in_order(whole.collect())).items()}
    assert found == {match: row[:2] for match, row in standing(expected).items()}
