"""The end of a stream: time moves past every open window, or stays at the last event."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from betimes import Engine, EventBatch, Hierarchy, pattern
from betimes import spark as bs
from tests.spark.material import in_order, read, standing, stream, write_parts


def lonely() -> Hierarchy:
    """What does not happen is known when the time is over."""
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(pattern("near !hit", by="key", within="50ms", emits="alone"))
    return hierarchy


@pytest.mark.parametrize("advance", [True, False])
def test_what_did_not_happen_until_the_end(
    spark: SparkSession, tmp_path: Path, advance: bool
) -> None:
    table = stream(1_500)
    source = read(spark, write_parts(table, tmp_path / "in", 1_500))
    changes = bs.detect(source, lonely(), arrival="seq", by="key", slots=1, attenuation=0.3)
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    with bs.write(changes, out, checkpoint=checkpoint, available_now=True) as run:
        end = run.finish(advance=advance)
    rows = in_order(spark.read.parquet(out).collect())
    last = [row.change_type for row in rows if row.batch == 1]
    kinds = {"insert": end.inserted, "confirm": end.confirmed, "delete": end.deleted}
    assert {kind: last.count(kind) for kind in kinds} == kinds
    assert end.final == len(last) - end.deleted > 0
    ends = {}
    for runs_out in (True, False):
        engine = Engine(lonely(), by="key", attenuation=0.3)
        told = engine.feed(EventBatch.from_arrow(table, arrival="seq"))
        ends[runs_out] = standing([*told, *engine.finish(advance=runs_out)])
    assert standing(rows) == ends[advance]
    assert len(ends[True]) > len(ends[False])
