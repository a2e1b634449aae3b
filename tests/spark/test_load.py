"""How busy a query is: what its driver makes of Spark's reports, and what its workers hear."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from betimes import spark as bs
from betimes.spark.telemetry.load import BUSY, SHARING, TRIGGER, TriggerLoad, backlog
from tests.spark.material import hierarchy, read, stream, write_parts

START = 1_700_000_000.0


def report(took: float, *, rows: int = 100, sources: Any = ()) -> dict[str, Any]:
    """A micro-batch that began at `START`, with a tenth of its time before its rows."""
    parts = {"triggerExecution": 1000 * took, "addBatch": 800 * took, "walCommit": 100 * took}
    return {
        "timestamp": "2023-11-14T22:13:20.000Z", "durationMs": parts, "numInputRows": rows,
        "sources": list(sources),
    }  # fmt: skip


def test_with_an_interval_it_is_the_time_of_a_batch_against_it() -> None:
    load = TriggerLoad(every=2.0, clock=lambda: START + 2.0 + 0.05)
    assert load.factor(report(0.5)) == pytest.approx(0.25)


def test_batches_that_follow_each_other_at_an_interval_are_fully_busy() -> None:
    load = TriggerLoad(every=1.0, clock=lambda: START + 1.5 + 0.15)
    assert load.factor(report(1.5)) == pytest.approx(1.0)


def test_without_an_interval_a_trickle_is_no_load() -> None:
    load = TriggerLoad(clock=lambda: START + 0.22)
    assert load.factor(report(0.2)) == pytest.approx(0.0)
    assert load.factor(report(0.21)) == pytest.approx(0.05, abs=0.01)


def test_without_an_interval_it_approaches_1_as_the_rows_take_all_the_time() -> None:
    now = START + 0.22
    load = TriggerLoad(clock=lambda: now)
    load.factor(report(0.2))
    now = START + 1.1
    assert load.factor(report(1.0)) == pytest.approx(0.8)
    now = START + 11
    assert load.factor(report(10.0)) == pytest.approx(0.98)


def test_a_query_that_was_overloaded_from_the_start_reads_so() -> None:
    load = TriggerLoad(clock=lambda: START + 22)
    assert load.factor(report(20.0)) == pytest.approx(0.95)


def test_a_report_without_a_batch_says_nothing() -> None:
    idle = report(0.5)
    del idle["durationMs"]["addBatch"]
    assert TriggerLoad(every=1.0, clock=lambda: START).factor(idle) is None


KAFKA = {"latestOffset": {"t": {"0": 900, "1": 800}}, "endOffset": {"t": {"0": 500, "1": 600}}}


@pytest.mark.parametrize(
    ("source", "waiting"),
    [
        (KAFKA, 600),
        ({"latestOffset": 70, "endOffset": 50}, 20),
        ({"latestOffset": None, "endOffset": {"logOffset": 3}}, 0),
        ({"latestOffset": {"t": {"0": 9}}, "endOffset": {"t": {"0": 5, "1": 6}}}, 0),
        ({"endOffset": "text"}, 0),
    ],
)
def test_the_backlog_is_what_the_source_tells(source: dict[str, Any], waiting: int) -> None:
    assert backlog({"sources": [source]}) == waiting


def test_more_than_a_batch_behind_is_fully_busy() -> None:
    load = TriggerLoad(clock=lambda: START + 1)
    assert load.factor(report(0.3, rows=500, sources=[KAFKA])) == 1.0
    assert load.factor(report(0.3, rows=601, sources=[KAFKA])) != 1.0


def test_workers_hear_how_busy_the_query_is(spark: SparkSession, tmp_path: Path) -> None:
    source = read(spark, write_parts(stream(3_000), tmp_path / "in", 1_000))
    changes = bs.detect(source, hierarchy(), arrival="seq", by="key", slots=8)
    heard: list[tuple[str | None, str | None, str | None]] = []
    names = (BUSY, SHARING, TRIGGER)
    properties = F.udf(
        lambda: [TaskContext.get().getLocalProperty(name) for name in names],  # type: ignore[union-attr]
        "array<string>",
    )

    def ask(rows: DataFrame, batch: int) -> None:
        del batch
        found = rows.sparkSession.range(1).select(properties()).first()
        assert found is not None
        heard.append(tuple(found[0]))
        rows.collect()

    run = bs.write(changes, into=ask, checkpoint=str(tmp_path / "checkpoint"), available_now=True)
    with run:
        run.wait()
    assert len(heard) == 3
    sharing = max(1.0, 8 / spark.sparkContext.defaultParallelism)
    assert {float(shared or 0) for _, shared, _ in heard} == {sharing}
    assert all(busy is not None and 0 <= float(busy) <= 1 for busy, _, _ in heard[1:])
    for _, _, trigger in heard[1:]:
        began, interval, floor = map(float, (trigger or "").split())
        assert 0 <= time.time() - began < 600
        assert (interval, 0 < floor <= 1) == (0.0, True)
    assert spark.conf.get(SHARING, None) is None
    assert spark.conf.get(BUSY, None) is None, "the session of the user stays as it was"
