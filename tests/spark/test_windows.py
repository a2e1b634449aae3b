"""Windows on Spark find what they find in one process, also with instances in processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import betimes as bt
from betimes import spark as bs
from tests.spark.material import in_order, read, run_locally, standing, stream, write_parts


def spread(table: Any) -> dict[str, Any]:
    return {"n": table.num_rows, "types": sorted(set(table.column("type").to_pylist()))}


def windows(**options: Any) -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="ball")
    totals = bt.aggregate(n="count()", last="last(ts)")
    shape = bt.window(time="20ms", slide="10ms")
    hierarchy.add(
        bt.windowed(totals, shape), on=("near", "hit"), emits="busy", by="key", name="busy"
    )
    hierarchy.add(
        bt.windowed(spread, bt.window(count=5, slide=2), **options), on="hit", emits="five",
        by="key", name="five",
    )  # fmt: skip
    return hierarchy


@pytest.mark.parametrize("options", [{}, {"instances": 2}], ids=["inline", "processes"])
def test_windows_give_what_the_local_engine_gives(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    events = stream(3_000)
    local = run_locally(events, windows(), attenuation=0.3)
    source = read(spark, write_parts(events, tmp_path / "in", 1_000))
    changes = bs.detect(
        source, windows(**options), arrival="seq", by="key", slots=2, attenuation=0.3
    )
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    with bs.write(changes, out, checkpoint=checkpoint, available_now=True) as run:
        run.finish()
    found = in_order(spark.read.parquet(out).collect())
    assert standing(found) == standing(local)
    assert len(standing(local)) > 50
