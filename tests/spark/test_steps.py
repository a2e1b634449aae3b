"""Changes that are transformed between `detect` and `write`: the end goes the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from betimes import OptionError
from betimes import spark as bs
from betimes.spark.query.origin import names_of, origin_of, plan_of
from betimes.spark.query.steps import StepError
from tests.spark.material import (
    OPTIONS,
    hierarchy,
    in_order,
    read,
    run_locally,
    standing,
    stream,
    write_parts,
)

EVENTS = 2_000
LOCAL: dict[str, Any] = {"attenuation": 0.3, "retraction": "on-demand"}


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return stream(EVENTS, seed=5)


@pytest.fixture(scope="module")
def source(events: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(events, tmp_path_factory.mktemp("steps") / "in", EVENTS // 2)


@pytest.fixture
def changes(spark: SparkSession, source: Path) -> DataFrame:
    return bs.detect(read(spark, source), hierarchy(), **OPTIONS)


def finished(changes: DataFrame, folder: Path, **options: Any) -> DataFrame:
    """What is written, the end included."""
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")
    with bs.write(changes, out, checkpoint=checkpoint, available_now=True, **options) as run:
        run.finish()
    return changes.sparkSession.read.parquet(out)


def names_of_keys(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [(key, f"player {key}") for key in range(16)], "id int, who string"
    )


def test_filter_select_rename_compute_and_join_and_then_write(
    spark: SparkSession, changes: DataFrame, events: pa.Table, tmp_path: Path
) -> None:
    key = F.get_json_object(changes.payload, "$.key").cast("int")
    players = names_of_keys(spark)
    wanted = (
        changes.filter(changes.type == "pair")
        .withColumn("key", key)
        .join(players, F.col("key") == players.id)
        .withColumnRenamed("ts", "at")
        .select("match_id", "at", "slot", "seq", "status", "change_type", "who", "key", "type")
    )
    wanted.createOrReplaceTempView("pairs")
    wanted = spark.sql("select * from pairs where at >= 0")
    rows = finished(wanted, tmp_path, current=str(tmp_path / "current"))
    assert set(rows.columns) == {*wanted.columns, "batch"}
    assert rows.filter("batch = 2").count() > 0
    found = [SimpleNamespace(**row.asDict(), ts=row["at"]) for row in rows.collect()]
    assert {row.who for row in found} == {f"player {row.key}" for row in found}
    told = [change for change in run_locally(events, **LOCAL) if change.type == "pair"]
    expected = standing(told)
    assert standing(in_order(found)) == expected
    assert {row.status for row in found if row.batch == 2} == {"final"}
    now = bs.current(spark, str(tmp_path / "current"))
    assert {row.match_id: (row.type, row["at"], row.status) for row in now.collect()} == expected
    assert {row.match_id for row in bs.table(rows).collect()} == set(expected)


def test_renamed_columns_are_known_in_files_and_jobs_are_not(
    changes: DataFrame, events: pa.Table, tmp_path: Path
) -> None:
    renamed = changes.withColumnsRenamed({"match_id": "id", "type": "kind", "payload": "what"})
    rows = finished(renamed, tmp_path)
    assert names_of(rows)["type"] == "kind"
    assert origin_of(rows) is None
    expected = standing(run_locally(events, **LOCAL))
    pairs = bs.table(rows, "pair", schema="took long").collect()
    assert {row.id for row in pairs} == {
        match for match, row in expected.items() if row[0] == "pair"
    }
    assert all(row.took >= 0 for row in pairs)
    assert bs.late(rows).count() == bs.rejected(rows).count() == 0


@pytest.mark.parametrize(
    "step",
    [
        lambda df: df.filter("ts > 0"),
        lambda df: df.select(F.col("match_id").alias("id"), F.upper("type")),
        lambda df: df.selectExpr("explode(array(1, 2)) as n", "slot as place"),
        lambda df: df.withColumn("ts", F.lit(0)).drop("payload"),
        lambda df: df.dropDuplicates(["match_id"]).select("match_id"),
        lambda df: df.groupBy("type").count(),
        lambda df: df.alias("c").join(df.sparkSession.range(3), F.col("c.slot") == F.col("id")),
        lambda df: df.select("ts", "seq").union(df.select("ts", "seq")),
        lambda df: bs.late(df),
    ],
)
def test_the_job_is_found_as_long_as_a_column_is_kept(
    changes: DataFrame, step: Callable[[DataFrame], DataFrame]
) -> None:
    first, then = origin_of(changes), origin_of(step(changes))
    assert first is not None
    assert then is first


def test_a_rename_is_not_a_step_and_a_filter_is(changes: DataFrame) -> None:
    origin = origin_of(changes)
    assert origin is not None
    for same in (changes, changes.select("*")):
        assert plan_of(same) == origin.plan
    if not pyspark.__version__.startswith("4.0."):  # there, the end goes through the rename
        assert plan_of(changes.withColumnRenamed("ts", "at")) == origin.plan
    for other in (changes.filter("ts > 0"), changes.drop("ts"), changes.select("ts", "slot")):
        assert plan_of(other) != origin.plan


def test_columns_are_known_by_what_they_were(changes: DataFrame) -> None:
    copied = changes.select(F.col("ts").alias("at"), "ts", F.col("seq").alias("n"), "slot")
    assert names_of(copied) == {"ts": "ts", "seq": "n", "slot": "slot"}
    swapped = changes.select(F.col("type").alias("detector"), F.col("detector").alias("type"))
    assert names_of(swapped) == {"type": "detector", "detector": "type"}
    computed = changes.select(F.col("ts").alias("at"), (F.col("ts") + 1).alias("ts"))
    assert names_of(computed) == {"ts": "at"}
    plain = changes.sparkSession.createDataFrame([], "type string, other string")
    assert names_of(plain) == {"type": "type"}


def test_a_step_with_a_state_is_written_and_the_end_is_refused(
    changes: DataFrame, tmp_path: Path
) -> None:
    once = changes.dropDuplicates(["match_id"]).select("match_id")
    seen: list[str] = []
    with bs.write(
        once, into=lambda rows, _: seen.extend(row.match_id for row in rows.collect()),
        checkpoint=str(tmp_path / "checkpoint"), available_now=True,
    ) as run:  # fmt: skip
        with pytest.raises(StepError, match=r"the step Deduplicate .*may keep state.*into="):
            run.finish()
        run.wait()
    assert len(set(seen)) == len(seen) > 0


def test_two_branches_of_a_stream_are_written_and_the_end_is_refused(
    changes: DataFrame, tmp_path: Path
) -> None:
    pairs, others = changes.filter("type = 'pair'"), changes.filter("type != 'pair'")
    place = str(tmp_path / "checkpoint")
    with bs.write(pairs.union(others), format="noop", checkpoint=place, available_now=True) as run:
        with pytest.raises(StepError, match=r"the step Union .*combines streams"):
            run.finish()
        run.wait()


def test_an_operator_of_a_user_before_detect_does_not_hide_ours(
    spark: SparkSession, source: Path, events: pa.Table, tmp_path: Path
) -> None:
    once = read(spark, source).dropDuplicates(["seq"])
    changes = bs.detect(once, hierarchy(), **OPTIONS)
    rows = finished(changes.filter("type = 'pair'"), tmp_path)
    told = [change for change in run_locally(events, **LOCAL) if change.type == "pair"]
    assert standing(in_order(rows.collect())) == standing(told)


def test_what_a_sink_needs_is_named(changes: DataFrame, tmp_path: Path) -> None:
    few = changes.select("ts", "type")
    place = str(tmp_path / "checkpoint")
    with pytest.raises(OptionError, match=r"current= needs.*'match_id', 'change_type'\] are not"):
        bs.write(few, "out", checkpoint=place, current="current")
    with pytest.raises(OptionError, match=r"late= needs.*'type'"):
        bs.write(few.drop("type"), "out", checkpoint=place, late="late")
    with pytest.raises(OptionError, match="format='console' needs"):
        bs.write(few, format="console", checkpoint=place)
    assert not list(tmp_path.iterdir())
