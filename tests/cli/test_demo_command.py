"""`betimes demo`: a table, and a picture that is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from betimes.cli import app
from betimes.cli.demo import POLICIES, busy_hour, measure
from betimes.testing import ReferenceUnit

N = 30_000


def test_demo_prints_the_table_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--events", str(N)], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.stderr
    for policy in POLICIES:
        assert f"  {policy} " in result.stdout
    assert "picture: betimes-demo.png" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("next: try betimes trace")
    assert Path("betimes-demo.png").read_bytes().startswith(b"\x89PNG")


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
