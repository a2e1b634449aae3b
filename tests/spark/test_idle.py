"""A source that falls silent, a key that stops: results settle as configured."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from betimes import Engine, EventBatch, OptionError
from betimes import spark as bs
from tests.spark.material import SCHEMA, hierarchy, in_order, read, standing, write_parts

WAIT = 60.0


def rows(*events: tuple[int, str, int]) -> pa.Table:
    """(ts, type, key), in order of arrival."""
    ts, types, keys = zip(*events, strict=True)
    numbers = list(range(len(ts)))
    columns = {"ts": ts, "type": types, "key": keys, "force": numbers, "seq": numbers}
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT
    while not what():
        assert time.monotonic() < until, f"not within {WAIT} s"
        time.sleep(0.1)


def finals(found: list[Row]) -> set[tuple[str, int]]:
    return {(row.type, row.ts) for row in found if row.status == "final"}


OPENED = (
    (1_000, "near", 1), (1_000, "near", 2), (5_000, "ball", 1), (3_000, "hit", 2),
    (9_000, "ball", 2), (8_500, "hit", 1),
)  # fmt: skip
"""The slack is 6,000 then, and nothing after 3,000 can settle."""


@pytest.mark.parametrize("order", ["shared", "key"])
def test_silence_settles_results(spark: SparkSession, tmp_path: Path, order: str) -> None:
    table = rows(*OPENED)
    source = read(spark, write_parts(table, tmp_path / "in", len(table)))
    batches: dict[int, list[Row]] = {}

    def into(changes: DataFrame, batch: int) -> None:
        # A batch that was stopped before Spark noted its end runs again, under the same number.
        batches[batch] = changes.collect()

    def found() -> list[Row]:
        return [row for _, rows in sorted(batches.items()) for row in rows]

    changes = bs.detect(
        source, hierarchy(), arrival="seq", by="key", slots=2, idle="300ms", order=order,
        attenuation=1.0,
    )  # fmt: skip
    checkpoint = str(tmp_path / "checkpoint")
    with bs.write(changes, into=into, checkpoint=checkpoint):
        wait_for(lambda: {("touch", 8_500), ("touch", 3_000)} <= finals(found()))
        told = len(found())
    # After a restart, what was told is not told again, and the end tells nothing new.
    changes = bs.detect(
        source, hierarchy(), arrival="seq", by="key", slots=2, idle="300ms", order=order,
        attenuation=1.0,
    )  # fmt: skip
    bs.write(changes, into=into, checkpoint=checkpoint).finish()
    assert len(found()) == told
    engine = Engine(hierarchy(), by="key", order=order, attenuation=1.0)
    expected = [*engine.feed(EventBatch.from_arrow(table, arrival="seq")), *engine.finish()]
    assert standing(in_order(found())) == standing(expected)


def test_a_key_that_stops_settles_while_others_go_on(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_parts(rows(*OPENED), tmp_path / "in", len(OPENED))
    found: list[Row] = []
    changes = bs.detect(
        read(spark, folder), hierarchy(), arrival="seq", by="key", slots=1, idle="1s", order="key",
        attenuation=1.0,
    )  # fmt: skip
    with bs.write(
        changes, into=lambda changes, _: found.extend(changes.collect()),
        checkpoint=str(tmp_path / "checkpoint"), every="200ms",
    ):  # fmt: skip
        for number in range(1, 200):
            late = 10_000 + number
            more = rows((late, "ball", 2), (late, "near", 2))
            write_parts(more, tmp_path / f"more-{number}", 2)
            (tmp_path / f"more-{number}" / "part-00000.parquet").rename(
                folder / f"more-{number}.parquet"
            )
            if ("touch", 8_500) in finals(found):
                break
            time.sleep(0.2)
    assert ("touch", 8_500) in finals(found)


def test_idle_must_be_a_duration(spark: SparkSession) -> None:
    source = spark.createDataFrame([], SCHEMA)
    with pytest.raises(OptionError, match="idle"):
        bs.detect(source, hierarchy(), idle="soon")
