"""Transactions on Spark find what they find in one process, whatever dies, and add up each time."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import betimes as bt
from betimes import spark as bs
from betimes.parallel import ShippingError
from tests.spark import faults
from tests.spark.ledger import (
    ROWS,
    TABLE,
    CheckedSink,
    Fatal,
    Slow,
    Told,
    detected,
    read,
    run_locally,
    table_of,
    told,
    written,
)
from tests.spark.material import defined_in_the_script, in_order, write_parts
from tests.spark.short_logs import short_ledger
from tests.spark.test_volumes import volumes
from tests.transactions.consistency import ledger, transfers


@pytest.fixture(scope="module")
def alone() -> Told:
    """What the local engine tells."""
    return told(run_locally(TABLE, ROWS))


def operator(execute: Any, **options: Any) -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="transfer")
    transactional = bt.transactional(execute, **options)
    hierarchy.add(transactional, on="transfer", emits="balance", name="ledger")
    return hierarchy


def run(spark: SparkSession, folder: Path, hierarchy: bt.Hierarchy, *, ends: bool = True) -> None:
    """Take what is in FOLDER/in."""
    faults.run(detected(spark, folder, hierarchy), folder, ends=ends)


@pytest.mark.parametrize(
    "options", [{}, {"workers": 2, "predictor": "always"}], ids=["auto", "processes"]
)
def test_they_give_what_the_local_engine_gives(
    spark: SparkSession, tmp_path: Path, alone: Told, options: dict[str, Any]
) -> None:
    write_parts(TABLE, tmp_path / "in", ROWS)
    run(spark, tmp_path, ledger(**options))
    assert told(written(spark, tmp_path)) == alone


@pytest.mark.parametrize("accounts", [10, 100_000])
def test_balances_sum_to_zero_after_every_micro_batch(
    spark: SparkSession, tmp_path: Path, accounts: int
) -> None:
    """With attenuation 0, and micro-batches of different sizes."""
    table = table_of(transfers(1_500, accounts, seed=3))
    folder = tmp_path / "in"
    for number, size in enumerate((1, 500, 20, 979)):
        parts = write_parts(table.slice(0, size), tmp_path / str(number), size)
        folder.mkdir(exist_ok=True)
        moved = folder / f"part-{number}.parquet"
        next(parts.iterdir()).rename(moved)
        os.utime(moved, (time.time() - 3600 + number,) * 2)
        table = table.slice(size)
    sink, checkpoint = CheckedSink(), str(tmp_path / "checkpoint")
    changes = bs.detect(read(spark, folder), ledger(), arrival="seq", attenuation=0)
    with bs.write(changes, into=sink, checkpoint=checkpoint, available_now=True) as run:
        run.finish()
    assert sink.batches == [0, 1, 2, 3, 4]
    assert sum(map(abs, sink.announced.balances.values())) > 0


def test_a_job_goes_on_from_checkpoints_and_volumes(
    spark: SparkSession, tmp_path: Path, alone: Told
) -> None:
    source = write_parts(TABLE, tmp_path / "in", ROWS)
    later = source / "part-00004.parquet"
    shutil.move(later, tmp_path / later.name)
    run(spark, tmp_path, short_ledger(), ends=False)
    assert volumes(spark, tmp_path / "checkpoint")
    # The engine of another query takes the place of this one, which has to be built again.
    other = tmp_path / "other"
    write_parts(TABLE.slice(0, 10), other / "in", 10)
    run(spark, other, short_ledger(), ends=False)
    shutil.move(tmp_path / later.name, later)
    os.utime(later)
    run(spark, tmp_path, short_ledger())
    assert told(written(spark, tmp_path)) == alone


def test_the_process_of_a_slot_dies(spark: SparkSession, tmp_path: Path, alone: Told) -> None:
    """Spark does not try again on one machine, so the query fails; it goes on where it was."""
    write_parts(TABLE, tmp_path / "in", ROWS)
    hierarchy = operator(Fatal(tmp_path / "mark"))
    with pytest.raises(bs.RunError):
        run(spark, tmp_path, hierarchy)
    assert (tmp_path / "mark").exists()
    run(spark, tmp_path, hierarchy)
    assert told(written(spark, tmp_path)) == alone


def test_a_worker_process_of_a_slot_dies(spark: SparkSession, tmp_path: Path, alone: Told) -> None:
    """The slot replaces it, and nobody else notices."""
    write_parts(TABLE, tmp_path / "in", ROWS)
    fatal = Fatal(tmp_path / "mark", pool=True)
    run(spark, tmp_path, operator(fatal, workers=2, predictor="always"))
    assert (tmp_path / "mark").exists()
    assert told(written(spark, tmp_path)) == alone


AHEAD = table_of(transfers(1_600, 100_000, seed=5))
"""Hardly any transfers conflict."""


def ran_ahead(spark: SparkSession, folder: Path, hierarchy: bt.Hierarchy) -> dict[str, float]:
    """Take what is in FOLDER/in, two files at a time; returns what transactions did."""
    changes = detected(spark, folder, hierarchy, files=2)
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")
    with (
        bs.write(changes, out, checkpoint=checkpoint, available_now=True) as run,
        bs.statistics(run) as statistics,
    ):
        run.wait()
        run.finish()
    return statistics.detectors["ledger"].parts["transactions"]


@pytest.mark.parametrize("dies", [False, True])
def test_long_transactions_run_ahead_where_rows_are_read(
    spark: SparkSession, tmp_path: Path, dies: bool
) -> None:
    """Each micro-batch has two tasks. If one of them dies, the query goes on where it was."""
    write_parts(AHEAD, tmp_path / "in", ROWS // 2)
    hierarchy = operator(Slow(tmp_path / "mark" if dies else None))
    if dies:
        with pytest.raises(bs.RunError):
            ran_ahead(spark, tmp_path, hierarchy)
        assert (tmp_path / "mark").exists()
        assert list((tmp_path / "checkpoint" / "ahead").iterdir())
    work = ran_ahead(spark, tmp_path, hierarchy)
    assert told(in_order(spark.read.parquet(str(tmp_path / "out")).collect())) == told(
        run_locally(AHEAD, ROWS)
    )
    assert dies or work["ahead"] > 2 * work["executions"]


def test_readings_say_where_transactions_run(spark: SparkSession, tmp_path: Path) -> None:
    write_parts(TABLE, tmp_path / "in", ROWS)
    checkpoint = str(tmp_path / "checkpoint")
    with (
        bs.write(
            detected(spark, tmp_path), format="noop", checkpoint=checkpoint, available_now=True
        ) as run,
        bs.statistics(run) as statistics,
    ):
        run.wait()
    reading = statistics.detectors["ledger"]
    assert "one after the other: there is one core for it" in reading.how
    assert "spark.task.cpus" in reading.how
    assert reading.parts["transactions"]["executions"] >= ROWS


def test_what_a_script_defines_runs_without_worker_processes(
    spark: SparkSession, tmp_path: Path, alone: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It travels by value, so new processes could not import it."""

    def scripted(event: bt.Event, state: Any) -> list[bt.Event]:
        from tests.transactions.consistency import transfer

        return list(transfer(event, state))

    scripted.__module__, scripted.__qualname__ = "__main__", "scripted"
    defined_in_the_script(monkeypatch, scripted)
    write_parts(TABLE, tmp_path / "in", ROWS)
    with pytest.raises(ShippingError, match=r"cannot import the script.*workers=1"):
        run(spark, tmp_path, operator(scripted, workers=2))
    run(spark, tmp_path, operator(scripted))
    assert told(written(spark, tmp_path)) == alone
