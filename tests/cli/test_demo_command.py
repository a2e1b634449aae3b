"""`betimes demo`: tables, and pictures that are some."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from betimes.cli import app
from betimes.cli.demo import early, on_spark
from betimes.cli.demo.command import POLICIES, busy_hour, measure, program
from betimes.cli.demo.early import WAYS, GameResult, LiveTime, Told, print_story, story, watch
from betimes.cli.demo.game import play, soccer
from betimes.model.change import Change
from betimes.testing import ReferenceUnit
from betimes.testing.oracle import oracle

N = 30_000
INSTALLED = Path(sys.executable).parent


def test_demo_prints_the_tables_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(INSTALLED))
    result = CliRunner().invoke(
        app, ["demo", "--events", str(N), "--no-spark"], env={"COLUMNS": "100"}
    )
    assert result.exit_code == 0, result.stderr
    for policy in POLICIES:
        assert f"  {policy} " in result.stdout
    for way in WAYS:
        row = next(line for line in result.stdout.splitlines() if line.startswith(f"  {way} "))
        assert row.split()[-1] == "yes"
    assert "33 detectors on 9 levels" in result.stdout
    names = ("betimes-demo.png", "betimes-demo-early.png", "betimes-demo-match.png")
    assert f"pictures: {', '.join(names)}" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("next, try: betimes trace")
    for picture in names:
        assert Path(picture).read_bytes().startswith(b"\x89PNG")


def test_what_to_try_next_can_be_typed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(INSTALLED))
    assert program() == "betimes"
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(INSTALLED.parent)
    assert program() == f"{INSTALLED.name}/betimes"


def test_policies_differ_as_they_should() -> None:
    stream = busy_hour(100_000, seed=3)
    largest, decaying, quantile, fixed = (measure(p, stream, lambda _: None) for p in POLICIES)
    assert quantile.mean_wait < decaying.mean_wait < largest.mean_wait
    assert largest.stats.late < decaying.stats.late < quantile.stats.late
    assert quantile.stats.late < 0.025 * 100_000
    assert set(fixed.slack.tolist()) == {500_000}
    assert all(run.stats.settled == 100_000 for run in (largest, decaying, quantile, fixed))


def test_the_mean_wait_is_that_of_the_reference() -> None:
    stream = busy_hour(2_000, seed=4)
    unit = ReferenceUnit(clock={"ball"})
    waits = []
    for event in stream.events:
        row = unit.feed(event.type, event.ts)
        waits += [(row.clock or 0) - item[0] for item in row.released]
    waits += [(unit.learned.clock or 0) - item[0] for item in unit.buffer]
    assert measure("largest", stream, lambda _: None).mean_wait == pytest.approx(np.mean(waits))


def test_speculation_is_early_and_right() -> None:
    game = play(6_000, seed=2)
    truth = oracle(soccer(), game.events)
    runs = {way: watch(way, game, lambda _: None) for way in WAYS}
    assert all(run.result == truth for run in runs.values())
    assert {type for type, *_ in truth} == {"hit", "double_hit", "pass", "one_two"}
    buffering, third, _ = runs.values()
    assert len(buffering.latencies) == len(third.latencies) == truth.total()
    assert third.mean < 0.5 * buffering.mean
    assert third.count("insert") == truth.total() + third.count("delete")


def test_the_game_is_a_function_of_its_seed() -> None:
    assert play(2_000, seed=5) == play(2_000, seed=5)
    assert play(2_000, seed=5) != play(2_000, seed=6)
    game = play(2_000, seed=5)
    assert all(ts <= at for at, ts in zip(game.arrived, (e.ts for e in game.events), strict=True))
    assert game.arrived == sorted(game.arrived)


def change(change_type: Any, match_id: str, ts: int, detected_at: int) -> Told:
    payload = {"player": "P1"}
    row = Change(
        change_type,
        "provisional",
        match_id,
        0,
        "hit",
        ts,
        detected_at,
        0,
        payload,
        "D",
        "ball at 1",
    )
    return Told(detected_at, row)


def test_the_latency_is_that_of_the_announcement_that_stood() -> None:
    told = [change("insert", "a", 10, 12), change("delete", "a", 10, 13)]
    told += [change("insert", "b", 20, 25), change("insert", "a", 10, 19)]
    assert GameResult("0.3", told).latencies.tolist() == [5, 9]
    assert GameResult("0.3", []).mean == 0


def test_the_story_has_only_moments_with_corrections(capsys: pytest.CaptureFixture[str]) -> None:
    told = [change("insert", "a", 10, 12), change("insert", "b", 20, 25)]
    told.append(change("delete", "a", 10, 26))
    assert [row.change.match_id for row in story(told)] == ["a", "a"]
    print_story([GameResult("0.3", told[:2])])
    assert capsys.readouterr().out == ""


def test_live_time_jumps_over_pauses() -> None:
    time = LiveTime()
    then = time() + 1_000
    time.wait_until(then)
    assert then <= time() < then + 100
    time.wait_until(then - 500)
    assert time() >= then


def test_the_part_on_spark_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = sys.modules["betimes.cli.demo.command"]
    monkeypatch.setattr(module, "why_not", lambda: "there is no Java; install one")
    result = CliRunner().invoke(app, ["demo", "--events", "2000"])
    assert result.exit_code == 0, result.stderr
    assert "skipping the part on Spark: there is no Java; install one" in result.stderr


def test_rows_of_a_table_have_different_labels() -> None:
    assert not set(early.WAYS) & set(on_spark.WAYS)
