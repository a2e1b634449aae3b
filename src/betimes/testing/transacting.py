"""Transactions in virtual time: any number of workers, any interleaving, on one core.

The protocol is the one that engines use (`betimes.transactions.book`); only workers and time are
virtual. A worker reads when it starts and is done after what the transaction costs. A boss, who
costs `overhead` per message, hands out what the predictor allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from betimes.model.event import Event
from betimes.testing.virtual import VirtualTime
from betimes.transactions.book import Book, Entry
from betimes.transactions.predictors import Choice, predictor_of
from betimes.transactions.schedule import Schedule
from betimes.transactions.tracked import Execute, Record, attempt

BOSS = "boss"


@dataclass
class Worked:
    """What came of a run in virtual time."""

    book: Book
    time: int
    """How long it took."""
    executions: int
    committed: dict[int, int]
    """When each transaction was committed, by the time of its event."""


class _Boss:
    """Takes events in, hands transactions out, and commits."""

    def __init__(self, schedule: Schedule, workers: int) -> None:
        self.schedule = schedule
        self.idle = [f"worker {n}" for n in range(workers)]
        self.committed: dict[int, int] = {}
        self.time: Callable[[], int] = lambda: 0
        self._next = 0

    def receive(self, message: Any) -> list[tuple[str, Any]]:
        if message is None:
            pass  # there are transactions already
        elif isinstance(message, Event):
            self.schedule.book.insert(Entry((message.ts, 0, message.ts), message))
        else:
            worker, entry, record = message
            self.schedule.done(entry, record)
            self.idle.append(worker)
        self._note_commits()
        return [(self.idle.pop(0), entry) for entry in self.schedule.take(len(self.idle))]

    def _note_commits(self) -> None:
        book = self.schedule.book
        first = book.first_waiting()
        end = len(book) if first is None else book.number(first.place)
        while self._next < end and book.entries[self._next].place[0] == self._next:
            self.committed[self._next] = self.time()
            self._next += 1


class _Worker:
    """Runs one transaction at a time."""

    def __init__(self, name: str, book: Book, execute: Execute) -> None:
        self._name = name
        self._book = book
        self._execute = execute

    def receive(self, entry: Entry) -> list[tuple[str, tuple[str, Entry, Record]]]:
        record = attempt(self._execute, entry.event, self._book.view(entry))
        return [(BOSS, (self._name, entry, record))]


def transact(
    execute: Execute,
    arrivals: Iterable[tuple[int, Event]],
    *,
    workers: int = 4,
    predictor: Choice = "adaptive",
    cost: Callable[[Event], int] = lambda _: 100,
    overhead: int = 0,
    transit: tuple[int, int] = (0, 0),
    seed: int = 0,
    book: Book | None = None,
) -> Worked:
    """Run transactions in virtual time; the events, with when they arrive, have times 0, 1, 2 ...

    With a `book`, those that wait there run, too.

    >>> def count(event, state):
    ...     state.add("n")
    >>> events = [(0, Event("e", ts)) for ts in range(8)]
    >>> worked = transact(count, events, workers=4, predictor="always", cost=lambda event: 100)
    >>> worked.time, worked.executions
    (200, 8)
    """
    book = Book() if book is None else book
    schedule = Schedule(book, predictor_of(predictor, execute))
    boss = _Boss(schedule, workers)
    actors: dict[str, Any] = {
        name: _Worker(name, book, execute) for name in list(boss.idle)
    } | {BOSS: boss}  # fmt: skip

    def price(name: str, message: Any) -> int:
        return overhead if name == BOSS else cost(message.event)

    world = VirtualTime(actors, seed=seed, cost=price, transit=transit)
    boss.time = lambda: world.now
    if book.first_waiting() is not None:
        world.at(0, lambda: world.send(BOSS, None))
    for when, event in arrivals:
        world.at(when, lambda event=event: world.send(BOSS, event))  # type: ignore[misc]
    world.run()
    return Worked(book, world.now, schedule.executions, boss.committed)
