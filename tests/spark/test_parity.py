"""The same result as the local engine, however the stream is cut and spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from betimes import Change, Hierarchy, detect, pattern
from betimes import spark as bs
from betimes.model.change import LATE
from tests.spark.material import (
    followed,
    hierarchy,
    in_order,
    lettered,
    read,
    run_locally,
    standing,
    stream,
    write_parts,
)

EVENTS = 3_000


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return stream(EVENTS)


@pytest.fixture(scope="module")
def local(events: pa.Table) -> list[Change]:
    return run_locally(events, attenuation=0.3)


def run(
    spark: SparkSession,
    detectors: Hierarchy,
    events: pa.Table,
    folder: Path,
    rows: int,
    **options: Any,
) -> list[Row]:
    """All changes that a stream gives, the end included."""
    source = read(spark, write_parts(events, folder / "in", rows))
    changes = bs.detect(source, detectors, arrival="seq", by="key", **options)
    out = str(folder / "out")
    with bs.write(changes, out, checkpoint=str(folder / "checkpoint"), available_now=True) as run:
        run.finish()
    return in_order(spark.read.parquet(out).collect())


@pytest.mark.parametrize(("slots", "rows"), [(1, 1000), (2, 550), (7, 1500)])
def test_a_stream_gives_what_the_local_engine_gives(
    spark: SparkSession,
    events: pa.Table,
    local: list[Change],
    tmp_path: Path,
    slots: int,
    rows: int,
) -> None:
    changes = run(spark, hierarchy(), events, tmp_path, rows, slots=slots, attenuation=0.3)
    assert standing(changes) == standing(local)
    assert {change.status for change in changes} == {"provisional", "final"}
    for slot in range(slots):
        numbers = [change.seq for change in changes if change.slot == slot]
        assert numbers == list(range(1, len(numbers) + 1))


def test_a_pattern_gives_what_the_local_engine_gives(
    spark: SparkSession, events: pa.Table, tmp_path: Path
) -> None:
    letters = lettered(events)
    options: dict[str, Any] = {"attenuation": 0.3}
    changes = run(spark, followed(), letters, tmp_path, 1000, slots=2, **options)
    local = standing(run_locally(letters, followed(), **options))
    assert standing(changes) == local
    assert len(local) > 50


@pytest.mark.parametrize("results", ["provisional", "final"])
def test_a_dataframe_that_is_no_stream(spark: SparkSession, events: pa.Table, results: str) -> None:
    options: dict[str, Any] = {"attenuation": 1.0, "late": "side"} if results == "final" else {}
    rows = spark.createDataFrame(events)
    names = {"ts": "at", "payload": "what"}
    slots = 1 if results == "final" else 3  # what is late depends on the clock of the slot
    changes = bs.detect(
        rows, hierarchy(), arrival="seq", by="key", slots=slots, results=results, columns=names
    ).cache()
    local = standing(c for c in run_locally(events, **options) if c.type != LATE)
    touches = bs.table(changes, "touch", schema="key long, `from` long").collect()
    expected = {match: row[1] for match, row in local.items() if row[0] == "touch"}
    assert {row.match_id: row["at"] for row in touches} == expected
    assert all(row["from"] < row["at"] for row in touches)
    assert {"key", "from"} < set(bs.table(changes, "touch", schema="infer").columns)
    assert bs.table(changes).count() == len(local)
    if results == "final":
        kinds = changes.select("change_type", "status").distinct().collect()
        assert kinds == [Row(change_type="insert", status="final")]
    changes.unpersist()


@pytest.mark.parametrize("time", ["number", "text"])
def test_nested_columns_give_rows_of_the_same_time_the_order_of_detect(
    spark: SparkSession, time: str
) -> None:
    """Numbers of different lengths, nulls, quotes, and lists of different lengths."""
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(pattern("A-B", within="1s", emits="next", select={"a": "A.n", "b": "B.n"}))
    values = [
        {"x": 10.0, "y": None}, {"x": 9.5, "y": ["b"]}, {"x": None, "y": ["a", "'"]}, None,
        {"x": 1e20, "y": []}, {"x": -0.5, "y": [None, '"']}, {"x": 10.0, "y": ["é"]},
    ]  # fmt: skip
    kind = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))])
    count = 60
    rng = np.random.default_rng(5)
    ts = np.sort(rng.integers(0, 12, count)) * 1000
    times = (
        pa.array(ts) if time == "number" else pa.array([f"1970-01-01 00:00:00.{t:06}" for t in ts])
    )
    table = pa.table({
        "ts": times,
        "type": pa.array(np.array(["A", "B"])[rng.integers(0, 2, count)]),
        "deep": pa.array([values[n] for n in rng.integers(0, len(values), count)], kind),
        "n": pa.array(np.arange(count)),
    })  # fmt: skip
    expected = {c.match_id for c in detect(table, hierarchy)}
    assert expected
    rows = spark.createDataFrame(table.take(rng.permutation(count)))
    found = standing(in_order(bs.detect(rows, hierarchy).collect()))
    assert set(found) == expected


def test_the_order_of_rows_of_a_dataframe_makes_no_difference(
    spark: SparkSession, events: pa.Table
) -> None:
    ts = events["ts"].to_numpy() // 1000 * 1000  # many have the same time
    whole = events.set_column(0, "ts", pa.array(ts)).drop_columns(["seq"])
    expected = {c.match_id: (c.type, c.ts) for c in detect(whole, hierarchy(), by="key")}
    assert len(expected) > 50
    orders = [np.arange(EVENTS), np.argsort(-ts), np.random.default_rng(3).permutation(EVENTS)]
    for parts, order in enumerate(orders, start=1):
        rows = spark.createDataFrame(whole.take(pa.array(order))).repartition(parts)
        found = standing(in_order(bs.detect(rows, hierarchy(), by="key", slots=2).collect()))
        assert {match: row[:2] for match, row in found.items()} == expected
