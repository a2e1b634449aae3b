"""How a query is doing: counts of each micro-batch, readings of each detector."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from betimes import spark as bs
from betimes.cli.jobs.running.totals import Meter, Totals
from betimes.engine import DetectorStats
from betimes.host.joining import together
from betimes.host.tally import Tally
from betimes.model.change import ChangeBatch, fold
from tests.spark.material import hierarchy, in_order, read, run_locally, stream, write_parts


def test_counts_and_readings(spark: SparkSession, tmp_path: Path) -> None:
    source = read(spark, write_parts(stream(2_000), tmp_path / "in", 1_000))
    changes = bs.detect(source, hierarchy(), arrival="seq", by="key", slots=2, attenuation=0.3)
    rows: list[Row] = []
    checkpoint, lines = str(tmp_path / "checkpoint"), tmp_path / "lines.json"
    with (
        bs.write(
            changes,
            into=lambda changes, _: rows.extend(changes.collect()),
            checkpoint=checkpoint,
            available_now=True,
        ) as run,
        bs.statistics(run, lines=lines) as statistics,
    ):
        run.wait()
        assert repr(run) == f"Run(stopped, last batch 1, 2 slots, checkpoint={checkpoint!r})"
    summary, last, *detectors = repr(statistics).splitlines()
    assert summary == "Statistics: 2 batches, 2,000 rows"
    assert re.search(r"number 1, 1,000 rows in [\d.]+ (m?s|min) .*, latency [\d.]+ \w+", last)
    assert [line.split(":")[0].strip() for line in detectors] == ["NotBetween", "Pairs"]
    first, second = statistics.batches
    assert (first.batch, second.batch) == (0, 1)
    assert first.rows == second.rows == 1_000
    assert first.seconds > 0
    assert first.rate == pytest.approx(first.rows / first.seconds)
    assert first.ignored == second.ignored == 0
    counts = {"inserted": "insert", "confirmed": "confirm", "deleted": "delete"}
    for name, kind in counts.items():
        told = sum(getattr(batch, name) for batch in statistics.batches)
        assert told == sum(row.change_type == kind for row in rows) > 0
    assert {row.change_type for row in in_order(rows)} == set(counts.values())
    assert statistics.rows()[1]["inserted"] == second.inserted
    written = [msgspec.json.decode(line) for line in lines.read_bytes().splitlines()]
    assert [line["batch"] for line in written] == [0, 1]
    assert {reading["detector"] for reading in written[-1]["detectors"]} == {"NotBetween", "Pairs"}
    assert list(statistics.slots) == [0, 1]
    parts = [row for row in statistics.detector_rows() if row["detector"] == "NotBetween"]
    assert statistics.detectors["NotBetween"].handled == sum(row["handled"] for row in parts) > 0
    assert statistics.detectors["NotBetween"].attenuation == 0.3
    assert [batch.attenuation for batch in statistics.batches] == [None, None], "not adaptive"


def test_a_run_that_finds_nothing_new(spark: SparkSession, tmp_path: Path) -> None:
    """The run knows the last batch of earlier runs; statistics begin with this one."""
    source = read(spark, write_parts(stream(2_000), tmp_path / "in", 1_000))
    changes = bs.detect(source, hierarchy(), arrival="seq", by="key", slots=2)
    checkpoint, rows = str(tmp_path / "checkpoint"), list[Row]()
    for told, attenuations in (
        ("Statistics: 2 batches, 2,000 rows", [1.0, 1.0]),
        ("Statistics(no batch in this run yet)", []),
    ):
        with (
            bs.write(
                changes, into=lambda changes, _: rows.extend(changes.collect()),
                checkpoint=checkpoint, available_now=True,
            ) as run,
            bs.statistics(run) as statistics,
        ):  # fmt: skip
            run.wait()
            assert repr(run) == f"Run(stopped, last batch 1, 2 slots, checkpoint={checkpoint!r})"
            assert repr(statistics).splitlines()[0] == told
            assert [batch.attenuation for batch in statistics.batches] == attenuations


def test_in_the_end_what_stands_is_final() -> None:
    """Also if something that was final has been repaired."""
    changes = run_locally(stream(3_000, seed=4), rows=200, attenuation=0.1)
    repaired = [c for c in changes if c.change_type == "delete" and c.status == "final"]
    assert repaired
    table = ChangeBatch(changes).to_arrow()
    told, meter = Tally.of(table), Meter(Totals())
    meter.count(3_000, table)
    assert meter.totals.tally == told
    assert told.final == told.inserted - told.deleted == meter.totals.standing
    assert told.final == sum(fold(changes).values())


def test_readings_of_several_slots_are_put_together() -> None:
    one = DetectorStats(
        detector="a", level=0, clock=70, slack=5, delays={"A": 5, "B": 2}, attenuation=0.5,
        buffered=1, waiting=1, remembered=2, history_bytes=200, late_by=0, released=3,
        handled=10, replays=1, replayed=4, snapshots=1, snapshot_bytes=9, retracted=1, late=0,
        errors=0, retraction="full: as configured", latency_provisional=4.0,
        latency_final=None, waits_for=None, busy=0.5, busy_share=0.1, busy_factor=0.1,
    )  # fmt: skip
    other = msgspec.structs.replace(
        one,
        clock=None,
        slack=9,
        delays={"B": 9},
        attenuation=1.0,
        handled=30,
        latency_provisional=8.0,
    )
    (both,) = together([one, other])
    assert (both.clock, both.slack, both.attenuation, both.handled) == (70, 9, 0.75, 40)
    assert both.delays == {"A": 5, "B": 9}
    assert both.latency_provisional == 7.0
    assert both.latency_final is None
