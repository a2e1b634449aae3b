"""The part of the demonstration that runs on Spark."""

from __future__ import annotations

import io
from contextlib import nullcontext

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from betimes.cli.demo import on_spark
from betimes.cli.demo.command import EVENTS_ON_SPARK, SLOWER_ON_SPARK
from betimes.cli.demo.game import play
from tests.spark.conftest import spark

__all__ = ["spark"]  # a fixture: one session for all tests that need one


def test_rows_appear_and_are_taken_back(
    spark: SparkSession,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_spark, "FILES", 8)  # twenty take longer, and show no more
    shown = io.StringIO()
    game = play(EVENTS_ON_SPARK, 1, slower=SLOWER_ON_SPARK)
    waiting, early = on_spark.watch_on_spark(game, Console(file=shown, width=100), nullcontext())
    assert waiting.mean > 2 * early.mean > 0
    assert waiting.result == early.result
    assert (waiting.count("delete"), early.count("delete")) == (0, 2)
    assert "taken back" in shown.getvalue()
    assert "- hit P" in shown.getvalue()
