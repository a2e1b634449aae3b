"""Money is neither made nor lost: balances sum to 0 after every batch, and the check can fail."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import betimes as bt
from betimes.model import Event
from tests.transactions import consistency
from tests.transactions.consistency import (
    Announced,
    InconsistencyError,
    LocalRun,
    ledger,
    rows,
    transfer,
    transfers,
)


@pytest.mark.parametrize("accounts", [10, 100_000])
@pytest.mark.parametrize("batch", [1, 64, None])
@pytest.mark.parametrize("attenuation", [0.0, 0.4, 1.0])
def test_balances_sum_to_zero_after_every_batch(
    accounts: int, batch: int | None, attenuation: float
) -> None:
    count = 300 if batch == 1 else 1_200
    run = LocalRun(count, accounts, batch=batch, attenuation=attenuation, seed=7)
    assert sum(run.batches()) == count
    if accounts == 10:
        # Even with attenuation 1: how late transfers may be is learned from those that were.
        assert run.announced.taken_back, "some had to be corrected"


def test_with_workers_they_do_as_well() -> None:
    engine = bt.Engine(ledger(workers=2, predictor="always"), attenuation=0)
    announced, events = Announced(), list(transfers(1_000, 10, seed=2))
    for first in range(0, 1_000, 100):
        announced.take(rows(engine.feed(events[first : first + 100])))
    announced.take(rows(engine.finish()))
    assert announced.taken_back


def test_a_run_that_is_stopped_goes_on_where_it_was() -> None:
    whole = LocalRun(600, 10, batch=50, attenuation=0, seed=1)
    stopped = LocalRun(600, 10, batch=50, attenuation=0, seed=1)
    list(whole.batches())
    for _ in range(5):
        next(stopped.batches())
    stopped = pickle.loads(pickle.dumps(stopped))
    list(stopped.batches())
    assert (stopped.done, stopped.sizes, stopped.again) == (600, 12, whole.again)


def in_halves(event: Event, accounts: Any) -> Iterator[Event]:
    """The payee hears of a transfer only with the next one."""
    made = list(transfer(event, accounts))
    yield from accounts.get("held", [])
    accounts["held"] = made[1:]
    yield made[0]


def test_half_of_a_transfer_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "transfer", in_halves)
    run = LocalRun(50, 10, batch=1, attenuation=0, seed=1)
    with pytest.raises(InconsistencyError, match="the balances sum to -"):
        list(run.batches())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("insert", 1, 5), ("insert", 1, 5)], "where 5 was announced"),
        ([("delete", 1, 5)], "where nothing was announced"),
        ([("insert", 2, 0)], "no balance number 1"),
        ([("insert", 1, 5)], "sum to 5"),
        ([("insert", 1, 5), ("insert", 2, 0), ("delete", 1, 5)], "no balance number 1"),
    ],
)
def test_what_does_not_fit_together_is_named(
    changes: list[tuple[str, int, int]], message: str
) -> None:
    told = [
        (kind, {"account": 3, "number": number, "balance": balance})
        for kind, number, balance in changes
    ]
    with pytest.raises(InconsistencyError, match=message):
        Announced().take(told)


def test_the_script_reports(capsys: pytest.CaptureFixture[str]) -> None:
    consistency.main(["--transfers", "400", "--accounts", "5", "--batch", "50"])
    said = capsys.readouterr().out
    assert "400 of 400 transfers among 5 accounts in 8 batches" in said


def test_the_script_names_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "transfer", in_halves)
    with pytest.raises(SystemExit, match=r"batch 0, after 0 transfers: .* sum to"):
        consistency.main(["--transfers", "10", "--batch", "1"])
