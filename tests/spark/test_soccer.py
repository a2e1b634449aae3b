"""The football match on Spark: the detectors travel, and find what they find in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Row, SparkSession

from betimes import Engine, EventBatch
from betimes import spark as bs
from betimes.apps.soccer import disordered, simulate
from betimes.apps.soccer.hierarchy import simulated
from tests.spark.material import in_order, standing


def test_a_match_on_spark_is_the_match_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    match = simulate(3.0, seed=1)
    table = pa.concat_tables(disordered(match.tables(), "lan", seed=1))
    folder = tmp_path / "match"
    folder.mkdir()
    for number, low in enumerate(range(0, len(table), 40_000)):
        pq.write_table(table.slice(low, 40_000), folder / f"part-{number:03}.parquet")
    rows = spark.readStream.schema(spark.read.parquet(str(folder)).schema)
    source = rows.option("maxFilesPerTrigger", 1).parquet(str(folder))
    found: list[Row] = []
    run = bs.write(
        bs.detect(source, simulated(), arrival="seq", attenuation=0.3),
        into=lambda changes, _: found.extend(changes.collect()),
        checkpoint=str(tmp_path / "checkpoint"), available_now=True,
    )  # fmt: skip
    run.finish()
    engine = Engine(simulated(), attenuation=0.3)
    expected = [
        *engine.feed(EventBatch.from_arrow(table.drop_columns(["arrived"]), arrival="seq")),
        *engine.finish(),
    ]
    assert standing(in_order(found)) == standing(expected)
    assert sum(row.type == "hit" for row in found) > 1
