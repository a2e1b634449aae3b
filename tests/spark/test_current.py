"""The table that `write(current=...)` keeps can be read at any time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from betimes import spark as bs
from betimes.spark.query.current import CurrentSink, NoTableError
from betimes.spark.query.origin import labelled
from betimes.spark.slots.rows import change_schema

NAMES = {"match_id": "id", "type": "kind", "change_type": "change", "payload": "what"}


def batch_of(spark: SparkSession, number: int) -> DataFrame:
    """One result is found; with the third batch, the first is taken back."""
    found = (0, "insert", "final", f"m{number}", number, "hit", number, 0, 0, '{"n": 7}', "d", "")
    rows = [found]
    if number == 3:
        rows.append((0, "delete", "final", "m0", 4, "hit", 0, 0, 0, "{}", "d", ""))
    return labelled(spark.createDataFrame(rows, change_schema()), NAMES)


def test_a_reader_meets_whole_tables_while_a_query_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = CurrentSink(str(tmp_path / "hits"), NAMES)
    sink.write(batch_of(spark, 0), 0)
    last = 8

    def write() -> None:
        for number in range(1, last + 1):
            sink.write(batch_of(spark, number), number)

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    while writer.is_alive():
        ids = {row.id for row in bs.current(spark, sink.path).collect()}
        newest = max(int(each[1:]) for each in ids)
        assert ids == {f"m{n}" for n in range(newest + 1) if n > 0 or newest < 3}
        seen.append(newest)
    writer.join()
    assert seen == sorted(seen)
    table = bs.current(spark, sink.path, "hit", schema="n long").collect()
    assert {(row.id, row.n) for row in table} == {(f"m{n}", 7) for n in range(1, last + 1)}
    assert bs.current(spark, sink.path, "miss").count() == 0


def test_a_version_that_is_not_complete_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    sink = CurrentSink(str(tmp_path / "hits"), NAMES)
    with pytest.raises(
        NoTableError, match=r"path='.*hits'.*no complete version.*first micro-batch"
    ):
        bs.current(spark, sink.path)
    sink.write(batch_of(spark, 0), 0)
    sink.write(batch_of(spark, 1), 1)
    (tmp_path / "hits" / "batch=1" / "_SUCCESS").unlink()
    assert [row.id for row in bs.current(spark, sink.path).collect()] == ["m0"]
