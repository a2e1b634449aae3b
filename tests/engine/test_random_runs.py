"""A few of the runs of `random_runs.py`, the same each time; a developer runs many."""

from __future__ import annotations

import pytest

from betimes.engine import Engine
from tests.engine import random_runs


def test_runs_give_what_the_oracle_gives(capsys: pytest.CaptureFixture[str]) -> None:
    code = random_runs.main(["--runs", "25", "--seed", "7"])
    assert (code, capsys.readouterr().out.partition(" s")[0].rpartition(",")[0]) == (
        0, "25 runs, 0 of them wrong",
    )  # fmt: skip


def test_a_run_that_goes_wrong_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "restore", lambda *_: None)  # a restart forgets everything
    assert random_runs.main(["--runs", "5", "--seed", "7"]) == 1
    assert "of seed 7:" in capsys.readouterr().out
