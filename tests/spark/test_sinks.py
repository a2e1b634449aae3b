"""Where changes go: every sink holds what the local engine tells."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console

from betimes import spark as bs
from betimes.model.change import LATE, REJECTED
from tests.spark.material import (
    hierarchy,
    in_order,
    read,
    run_locally,
    standing,
    stream,
    write_parts,
)

EVENTS = 3_000
OPTIONS: dict[str, Any] = {"attenuation": 0.3, "late": "side"}


@pytest.fixture(scope="module")
def good() -> pa.Table:
    return stream(EVENTS, seed=3)


@pytest.fixture(scope="module")
def local(good: pa.Table) -> dict[str, tuple[Any, ...]]:
    return standing(results(run_locally(good, **OPTIONS)))


@pytest.fixture(scope="module")
def folder(good: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stream in two files, with a row that comes too late and two that are no events."""
    bad = pa.table(
        {
            "ts": pa.array([1, None, 2], pa.int64()),
            "type": ["near", "hit", None],
            "key": [5, 5, 5],
            "force": [7, 8, 9],
            "seq": [EVENTS, EVENTS + 1, EVENTS + 2],
        }
    )
    place = tmp_path_factory.mktemp("sinks") / "a place (with spaces)"
    write_parts(pa.concat_tables([good, bad]), place / "in", EVENTS // 2 + 2)
    return place


def detected(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    options = OPTIONS | {"arrival": "seq", "by": "key", "slots": 1} | options
    return bs.detect(read(spark, folder / "in"), hierarchy(), **options)


def results(changes: Any) -> list[Any]:
    return [change for change in changes if change.type not in (LATE, REJECTED)]


def stated(rows: list[Row]) -> dict[str, tuple[Any, ...]]:
    """The rows of a table in the form of `standing`."""
    return {row.match_id: (row.type, row.ts, row.status) for row in rows}


def test_json_and_a_current_table_and_sides_in_a_folder_with_spaces(
    spark: SparkSession, folder: Path, local: dict[str, tuple[Any, ...]]
) -> None:
    out, current = folder / "out", folder / "current"
    url = f"file://{str(folder).replace(' ', '%20')}"
    with bs.write(
        detected(spark, folder), str(out), format="json", checkpoint=f"{url}/checkpoint",
        current=str(current), late=str(folder / "late"), rejected=str(folder / "rejected"),
        available_now=True,
    ) as run:  # fmt: skip
        run.finish()
    assert (folder / "checkpoint" / "query" / "commits").is_dir()
    lines = [line for file in out.glob("*/*.json") for line in file.read_text().splitlines()]
    rows = [SimpleNamespace(**json.loads(line)) for line in lines]
    assert standing(results(in_order(rows))) == local
    assert stated(bs.current(spark, str(current)).collect()) == local
    assert len(list(current.glob("batch=*"))) == 2
    late = spark.read.json(str(folder / "late")).collect()
    assert 1 in {row.ts for row in late}
    rejected = spark.read.json(str(folder / "rejected")).collect()
    assert sorted(json.loads(row.payload)["force"] for row in rejected) == [8, 9]
    changes = spark.read.json(str(out))
    assert [bs.late(changes).count(), bs.rejected(changes).count()] == [len(late), 2]
    assert stated(bs.table(changes).collect()) == local


def test_csv_that_others_can_read_with_names_of_ones_own(
    spark: SparkSession, folder: Path, local: dict[str, tuple[Any, ...]]
) -> None:
    out = folder / "csv"
    changes = detected(spark, folder, columns={"ts": "at", "payload": "what"})
    checkpoint = str(folder / "checkpoint-csv")
    with bs.write(
        changes, str(out), format="csv", checkpoint=checkpoint, available_now=True
    ) as run:
        run.finish(advance=False)
    texts = [file.read_text() for file in out.glob("*/*.csv")]
    rows = [row for text in texts for row in csv.DictReader(io.StringIO(text, newline=""))]
    rows.sort(key=lambda row: int(row["seq"]))
    made = [SimpleNamespace(**row, ts=int(row["at"] or 0)) for row in rows]
    assert standing(results(made)) == local
    assert all(json.loads(row["what"]) for row in rows)


def test_a_table_of_the_catalog_with_final_results_only(
    spark: SparkSession, folder: Path, good: pa.Table
) -> None:
    options: dict[str, Any] = {"attenuation": 1.0}
    changes = detected(spark, folder, results="final", **options)
    checkpoint = str(folder / "checkpoint-table")
    with bs.write(changes, table="touches", checkpoint=checkpoint, available_now=True) as run:
        run.finish()
    rows = spark.table("touches")
    local = run_locally(good, **OPTIONS | options)
    assert stated(bs.table(rows).collect()) == standing(results(local))
    assert {row.batch for row in rows.select("batch").distinct().collect()} == {0, 1, 2}
    kinds = rows.select("change_type", "status").distinct().collect()
    assert kinds == [Row(change_type="insert", status="final")]


def test_a_screen_and_a_function(
    spark: SparkSession, folder: Path, local: dict[str, tuple[Any, ...]]
) -> None:
    screen, rows = io.StringIO(), list[Row]()

    def into(changes: DataFrame, batch: int) -> None:
        rows.extend(changes.collect())
        seen.append(batch)

    seen: list[int] = []
    checkpoint = str(folder / "checkpoint-screen")
    with bs.write(
        detected(spark, folder), format="console", into=into, checkpoint=checkpoint,
        console=Console(file=screen, width=150),
    ) as run:  # fmt: skip
        with pytest.raises(bs.BusyError, match="another run is using the checkpoint"):
            bs.write(detected(spark, folder), format="noop", checkpoint=checkpoint)
        run.finish()
    assert seen == [0, 1, 2]
    assert standing(results(in_order(rows))) == local
    text = screen.getvalue()
    assert "batch 2" in text
    assert "so far" in text
    assert '{"key":' in text
