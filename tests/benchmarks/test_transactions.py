"""The benchmarks of transactions: what they model is right, and each of them runs."""

from __future__ import annotations

import pytest
from benchmarks import transactions
from benchmarks.transactions import PREDICTORS, Cost, Histogram, arrivals, sequential

from betimes.testing.transacting import transact


def test_exact_predictors_see_every_conflict_of_the_second_scenario() -> None:
    for name, again in (("0: always", True), ("2: exact, yes or no", False)):
        worked = transact(
            Histogram(also=5), arrivals(100, ordered=True), workers=32, cost=Cost(1_000),
            predictor=PREDICTORS[name],
        )  # fmt: skip
        assert (worked.executions > 100) is again


def test_the_sequential_operator_waits_for_the_next_event() -> None:
    coming = arrivals(50, ordered=False)
    assert sequential(coming, 0)[0] == max(when for when, _ in coming)
    assert sequential(coming, 10_000)[0] == min(when for when, e in coming if e.ts == 0) + 500_000


def test_the_tables_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "overhead", lambda: 10.0)
    for what in ("paper", "surface"):
        transactions.main([what, "--events", "20"])
    printed = capsys.readouterr().out
    assert "Mean latency" in printed
    assert "Speed-up with 32 workers" in printed
