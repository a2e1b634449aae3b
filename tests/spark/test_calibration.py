"""Calibration as a Spark batch job: the same as in one process."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from betimes import EventBatch, OptionError, calibrate
from betimes import spark as bs
from betimes.model.change import LATE
from tests.spark.material import SCHEMA, hierarchy, stream

EVENTS = 3_000


@pytest.fixture(scope="module")
def recording(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(stream(EVENTS).to_pandas(), SCHEMA)


def test_one_slot_finds_what_one_process_finds(recording: DataFrame) -> None:
    runs = []
    found = bs.calibrate(
        recording, hierarchy(), arrival="seq", by="key", slots=1,
        on_run=lambda number, outcome: runs.append((number, outcome.late)),
    )  # fmt: skip
    local = calibrate(hierarchy(), EventBatch.from_arrow(stream(EVENTS), arrival="seq"), by="key")
    assert found == local
    assert runs == [(number, run.late) for number, run in enumerate(local.runs, start=1)]
    assert runs[0][1] > 0
    assert found.settled


def test_a_query_that_starts_from_it_has_no_late_events(recording: DataFrame) -> None:
    options: dict[str, Any] = {"arrival": "seq", "by": "key", "slots": 2}
    found = bs.calibrate(recording, hierarchy(), **options)

    def late(**more: Any) -> int:
        changes = bs.detect(
            recording, hierarchy(), late="side", attenuation=1.0, retention=0, **options, **more
        )
        return changes.filter(changes.type == LATE).count()

    assert late() > 0
    assert late(calibration=found) == 0


@pytest.mark.parametrize(("wrong", "right"), [("retntion", "retention"), ("max_run", "max_runs")])
def test_an_unknown_option_names_the_nearest(recording: DataFrame, wrong: str, right: str) -> None:
    options: dict[str, Any] = {wrong: 1}
    with pytest.raises(OptionError, match=f"unknown option '{wrong}'; did you mean '{right}'"):
        bs.calibrate(recording, hierarchy(), **options)


def test_a_stream_is_no_recording(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match=r"expected a batch DataFrame.*spark\.read"):
        bs.calibrate(spark.readStream.format("rate").load(), hierarchy())
