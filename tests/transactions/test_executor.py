"""Where transactions run, with costs that are given: what is faster wins, and trials are short."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from betimes.model import Event
from betimes.transactions import executor as tested
from betimes.transactions import serial
from betimes.transactions.book import Book, Entry
from betimes.transactions.executor import Executor, Workers
from betimes.transactions.predictors import Choice, Predictor
from betimes.transactions.schedule import Schedule
from tests.transactions.operators import count as counting
from tests.transactions.test_book import entry_of


class World:
    """A clock that only work moves, here or in processes that are not there."""

    def __init__(self, here: float, there: float) -> None:
        self.costs = {False: here, True: there}
        self.now = 0.0
        self.ran = {False: 0, True: 0}
        self.worked = 0.0
        self.pool = SimpleNamespace(ready=[True], close=lambda: None)
        self.numbers = count()
        self.pauses: dict[int, float] = {}
        """Transactions here that take longer, and by how much."""

    def time(self) -> float:
        return self.now

    def execute(self, event: Event, state: Any) -> Event:
        self.now += self.costs[False] + self.pauses.get(self.ran[False], 0.0)
        self.ran[False] += 1
        return counting(event, state)

    def run(
        self, key: Any, book: Book, predictor: Predictor, goes_on: Callable[[int], bool]
    ) -> tuple[Schedule, list[Entry]]:
        """What processes do: one after the other, until they are told to stop."""
        del key
        ran: list[Entry] = []
        while book.first_waiting() is not None and goes_on(len(ran)):
            ran += serial.run(book, counting, (), 1)
            self.now += self.costs[True]
            self.ran[True] += 1
        return Schedule(book, predictor), ran

    def feed(self, executor: Executor, events: int, batch: int = 256) -> dict[bool, int]:
        """How many ran here and there."""
        before, book = dict(self.ran), Book()
        for first in range(0, events, batch):
            for ts in range(first, min(first + batch, events)):
                book.insert(entry_of(Event("e", next(self.numbers), {"account": ts % 7})))
            ran = executor.run(None, book)
            assert [entry.place for entry in ran] == sorted(entry.place for entry in ran)
            assert book.first_waiting() is None
        return {there: self.ran[there] - before[there] for there in (False, True)}


def executor_in(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    workers: Workers = 2,
    predictor: Choice = "adaptive",
    cores: int | None = None,
) -> Executor:
    monkeypatch.setattr(tested, "Processes", lambda *_, **__: world)
    monkeypatch.setattr(tested, "packed", lambda *_: b"")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return Executor(
        world.execute, (), predictor=predictor, workers=workers, timeout=None, name="tested",
        time=world.time, cores=cores,
    )  # fmt: skip


def test_processes_run_almost_everything_where_they_are_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(here=1e-3, there=6e-4)
    executor = executor_in(world, monkeypatch)
    ran = world.feed(executor, 20_000)
    assert ran[False] < 0.03 * 20_000
    assert "in 2 worker processes: 1000 us per transaction here, 600 us there" in executor.explain()


def test_where_they_are_slower_they_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(here=1e-3, there=2e-3)
    executor = executor_in(world, monkeypatch)
    for batch in (64, 5_000):
        began = world.now
        world.feed(executor, 20_000, batch)
        assert world.now - began < 20_000 * 1e-3 * 1.02
    assert executor.explain().startswith("one after the other")


def test_it_comes_back_when_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(here=1e-3, there=2e-3)
    executor = executor_in(world, monkeypatch)
    world.feed(executor, 10_000)
    world.costs[True] = 6e-4
    world.feed(executor, 20_000)
    ran = world.feed(executor, 20_000)
    assert ran[True] > 0.95 * 20_000
    world.costs[True] = 3e-3
    world.feed(executor, 1_000)
    ran = world.feed(executor, 20_000)
    assert ran[False] > 0.95 * 20_000


def test_short_transactions_are_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(here=1e-5, there=1e-9)
    executor = executor_in(world, monkeypatch)
    assert world.feed(executor, 10_000)[True] == 0
    assert "10 us, too short to send" in executor.explain()


def test_pauses_and_cold_starts_do_not_make_transactions_look_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As garbage collection and first calls do."""
    world = World(here=1e-5, there=1e-9)
    world.pauses = {0: 0.01, 1_000: 0.05, 5_000: 0.05}
    assert world.feed(executor_in(world, monkeypatch), 10_000)[True] == 0


def test_nobody_starts_processes_for_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(here=1e-3, there=6e-4)
    executor = executor_in(world, monkeypatch, workers="auto")
    assert world.feed(executor, 1_500)[True] == 0
    assert "not many have run" in executor.explain()
    assert world.feed(executor, 5_000)[True] > 4_000


def test_it_starts_as_many_as_it_has_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark, a task is told how many are its own."""
    world, asked = World(here=1e-3, there=6e-4), list[int]()

    def started(*_: Any, workers: int, **__: Any) -> World:
        asked.append(workers)
        return world

    for cores in (None, 3, 1):
        executor = executor_in(world, monkeypatch, workers="auto", cores=cores)
        monkeypatch.setattr(tested, "Processes", started)
        world.feed(executor, 5_000)
    assert asked == [2, 3]
    assert "one after the other: there is one core for it" in executor.explain()


def test_a_predictor_that_was_asked_for_is_used_whatever_it_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(here=1e-3, there=2e-3)
    executor = executor_in(world, monkeypatch, predictor="always")
    assert (
        executor.explain() == "in 2 worker processes: no transaction has run yet; predictor: always"
    )
    assert world.feed(executor, 1_000) == {False: 0, True: 1_000}
