"""What every way to run transactions promises, whatever it is: the result of the serial run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes.model import Event
from betimes.testing.transacting import transact
from betimes.transactions import serial
from betimes.transactions.book import Book, Entry
from betimes.transactions.copies import END, Task, run_on
from betimes.transactions.crew import Crew
from betimes.transactions.executor import Executor
from betimes.transactions.foresight import Memos
from betimes.transactions.predictors import Choice, predictor_of
from betimes.transactions.versions import Versions
from tests.engine.material import share
from tests.transactions.material import PAYLOADS, execute
from tests.transactions.test_book import check, entry_of, events_of
from tests.transactions.test_processes import STARTS

BOOKS = count()
CHOICES: list[Choice] = ["always", "dynamic", "learned", "never", bt.horizon(3)]
Way = Callable[[int, Book, Choice, random.Random], Iterable[Entry]]
"""Runs what waits in a book, which has a number, with a predictor; those that ran."""


def one_after_the_other(_: int, book: Book, __: Choice, ___: random.Random) -> list[Entry]:
    return list(serial.run(book, execute))


def in_virtual_time(_: int, book: Book, choice: Choice, chance: random.Random) -> list[Entry]:
    waited = list(book.waiting)
    transact(
        execute, [], book=book, workers=chance.choice([1, 2, 32]), predictor=choice,
        cost=lambda _: chance.randint(0, 50), transit=(0, 20), seed=chance.randint(0, 10**6),
    )  # fmt: skip
    return waited


def ahead_on_a_cluster(_: int, book: Book, __: Choice, chance: random.Random) -> list[Entry]:
    """Some tasks run a part each, on copies of a state that may be older than the book's."""
    place = chance.choice([END, *(entry.place for entry in book.entries)])
    known = book.versions.state(None, place)
    waiting, memos = list(book.waiting), Memos()
    for part in (waiting[::2], waiting[1::2]):
        copy = Versions({None: {key: (value,) for key, value in known.items()}})
        tasks: list[Task] = [(entry.place, entry.event, []) for entry in part]
        ran = zip(part, run_on(copy, execute, (), tasks), strict=True)
        memos.put(
            [(e.event.type, e.event.ts, e.event.payload, made) for e, made in ran if made], [0.1]
        )
    executor = Executor(
        execute, (), predictor="adaptive", workers=1, timeout=None, name="tested",
        time=perf_counter, memos=memos,
    )  # fmt: skip
    return executor.run(None, book)


def on(crew: Crew) -> Way:
    def run(number: int, book: Book, choice: Choice, _: random.Random) -> list[Entry]:
        schedule, ran = crew.run(number, book, predictor_of(choice, execute))
        assert schedule.executions >= len({entry.place for entry in ran})
        return ran

    return run


PLAIN: dict[str, Way] = {
    "serial": one_after_the_other, "virtual": in_virtual_time, "cluster": ahead_on_a_cluster,
}  # fmt: skip


@pytest.fixture(scope="module", params=[*PLAIN, *STARTS])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    if request.param in PLAIN:
        yield PLAIN[request.param]
        return
    crew = STARTS[request.param](execute)
    yield on(crew)
    crew.pool.close()


@given(
    st.lists(PAYLOADS, min_size=1, max_size=14).map(events_of),
    st.randoms(use_true_random=False),
    st.integers(1, 9),
    st.sampled_from(CHOICES),
)
@share(0.3)
def test_any_work_in_any_order_gives_the_serial_result(
    way: Way,
    events: list[Event],
    chance: random.Random,
    size: int,
    choice: Choice,
) -> None:
    """Events come late, some are withdrawn; copies of the state are more or less up to date."""
    book, number = Book(), next(BOOKS)
    coming, left = list(events), list(events)
    chance.shuffle(coming)
    while coming:
        for event in coming[:size]:
            book.insert(entry_of(event))
        del coming[:size]
        if chance.random() < 0.2:
            gone = chance.choice(book.entries)
            book.remove(gone.place)
            left.remove(gone.event)
        waited = {entry.place for entry in book.waiting}
        assert waited <= {entry.place for entry in way(number, book, choice, chance)}
        assert book.first_waiting() is None
    check(book, left)
