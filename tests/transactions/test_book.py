"""The protocol, without an engine: whatever the order, the result is that of the serial run."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.model.codec import dumps
from betimes.transactions.book import Book, Entry
from betimes.transactions.serial import run
from betimes.transactions.tracked import KEYS, Record, attempt
from tests.engine.material import share
from tests.transactions.material import PAYLOADS, PlainState, execute, serially

END = (2**62, 0, 0)


def events_of(payloads: list[dict[str, Any]]) -> list[Event]:
    return [Event("e", ts, payload) for ts, payload in enumerate(payloads)]


def entry_of(event: Event) -> Entry:
    return Entry((event.ts, 0, event.ts), event)


def result_of(entry: Entry) -> Any:
    record = entry.record
    assert record is not None
    return record.made if record.error is None else str(record.error)


def check(book: Book, events: list[Event], state: PlainState | None = None) -> None:
    """Records and state are those of the serial run, including the order of the keys."""
    state = PlainState() if state is None else state
    assert [result_of(entry) for entry in book.entries] == serially(events, state)
    found = book.versions.state(None, END)
    assert dumps(list(found.items()), "") == dumps(list(state.items()), "")


STREAMS = st.lists(PAYLOADS, min_size=1, max_size=14).map(events_of)


@given(STREAMS, st.randoms(use_true_random=False), st.integers(1, 5))
@share(1)
def test_late_events_are_earlier_transactions(
    events: list[Event], chance: random.Random, cut: int
) -> None:
    book = Book()
    order = list(events)
    chance.shuffle(order)
    for first in range(0, len(order), cut):
        for event in order[first : first + cut]:
            book.insert(entry_of(event))
        touched = list(run(book, execute))
        places = [entry.place for entry in touched]
        assert places == sorted(set(places)), "in order, and each at most once"
    check(book, events)


@given(STREAMS, st.randoms(use_true_random=False))
@share(1)
def test_withdrawn_events_never_were(events: list[Event], chance: random.Random) -> None:
    book = Book()
    for event in events:
        book.insert(entry_of(event))
    list(run(book, execute))
    left = [event for event in events if chance.random() < 0.7]
    for event in events:
        if event not in left:
            book.remove((event.ts, 0, event.ts))
    list(run(book, execute))
    check(book, left)


@given(STREAMS, st.integers(0, 14), st.randoms(use_true_random=False))
@share(1)
def test_what_is_forgotten_stays_in_the_state(
    events: list[Event], before: int, chance: random.Random
) -> None:
    book, early, late = Book(), events[:before], events[before:]
    held = [event for event in late if chance.random() < 0.3]
    for event in early + [event for event in late if event not in held]:
        book.insert(entry_of(event))
    list(run(book, execute))
    assert [entry.event for entry in book.forget(before)] == early
    for event in held:
        book.insert(entry_of(event))
    list(run(book, execute))
    state = PlainState()
    serially(early, state)
    check(book, late, state)


@given(STREAMS, st.randoms(use_true_random=False), st.integers(1, 6))
@share(2)
def test_any_interleaving_of_workers_gives_the_serial_result(
    events: list[Event], chance: random.Random, workers: int
) -> None:
    """Transactions start and end at any time; events come in any order; some are withdrawn."""
    book = Book()
    coming = list(events)
    chance.shuffle(coming)
    left = list(events)
    running: list[tuple[Entry, Any]] = []
    while coming or running or book.first_waiting() is not None:
        busy = {entry.place for entry, _ in running}
        free = [entry for entry in book.waiting if entry.place not in busy]
        choices = ["come"] * bool(coming) + ["end"] * bool(running)
        choices += ["start", "start"] * (bool(free) and len(running) < workers)
        choice = chance.choice(choices)
        if choice == "come":
            book.insert(entry_of(coming.pop()))
            if chance.random() < 0.1:
                gone = chance.choice(book.entries)
                book.remove(gone.place)
                left.remove(gone.event)
                running = [pair for pair in running if pair[0] is not gone]
        elif choice == "start":
            entry = chance.choice(free)
            # It reads now, and ends later.
            running.append((entry, attempt(execute, entry.event, book.view(entry))))
        else:
            entry, record = running.pop(chance.randrange(len(running)))
            book.done(entry, record)
    check(book, left)


def chain(event: Event, state: Any) -> None:
    state["n"] = state.get("n", 0) * 2 + event["v"]


def test_a_transaction_runs_again_at_most_once_per_earlier_change() -> None:
    """On a pure chain of conflicts, run from the end: the worst case."""
    book, count = Book(), 12
    for ts in range(count):
        book.insert(entry_of(Event("e", ts, {"v": ts + 1})))
    entries = list(book.entries)
    while book.first_waiting() is not None:
        for entry in reversed(list(book.waiting)):
            book.done(entry, attempt(chain, entry.event, book.view(entry)))
    changes_before = 0
    for entry in entries:
        assert entry.runs <= 1 + changes_before
        changes_before += entry.runs
    expected = 0
    for ts in range(count):
        expected = expected * 2 + ts + 1
    assert book.versions.state(None, END) == {"n": expected}


class LoggedBook(Book):
    """Notes which keys each transaction changes, one change after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[Any, set[Any]]] = []

    def _install(self, entry: Entry, record: Record) -> None:
        before = {} if entry.record is None else entry.record.writes
        super()._install(entry, record)
        self.log.append((entry.place, {*before, *record.writes}))

    def clashes(self, entry: Entry, record: Record, since: int) -> int:
        """How often earlier transactions have changed since then what this one has read."""
        read = {(name, key) for kind, name, key in record.reads if kind != KEYS}
        names = {name for kind, name, _ in record.reads if kind == KEYS}
        return sum(
            place < entry.place and any(key in read or key[0] in names for key in keys)
            for place, keys in self.log[since:]
        )


@given(STREAMS, st.randoms(use_true_random=False), st.integers(1, 6))
@share(1)
def test_a_transaction_runs_again_at_most_as_often_as_earlier_ones_conflict_with_it(
    events: list[Event], chance: random.Random, workers: int
) -> None:
    book = LoggedBook()
    coming, allowed = list(events), dict.fromkeys((entry_of(e).place for e in events), 1)
    chance.shuffle(coming)
    running: list[tuple[Entry, Record, int]] = []
    ran: dict[Any, tuple[Record, int]] = {}
    while coming or running or book.first_waiting() is not None:
        busy = {entry.place for entry, *_ in running}
        free = [entry for entry in book.waiting if entry.place not in busy]
        if coming and (chance.random() < 0.3 or not (free or running)):
            book.insert(entry_of(coming.pop()))
        elif free and len(running) < workers and (chance.random() < 0.6 or not running):
            entry = chance.choice(free)
            if entry.place in ran:  # it runs again: count what has happened since it last began
                allowed[entry.place] += book.clashes(entry, *ran[entry.place])
            record = attempt(execute, entry.event, book.view(entry))
            ran[entry.place] = record, len(book.log)
            running.append((entry, *ran[entry.place]))
        elif running:
            entry, record, _ = running.pop(chance.randrange(len(running)))
            book.done(entry, record)
    check(book, events)
    for entry in book.entries:
        assert entry.runs <= allowed[entry.place]


def add(event: Event, state: Any) -> None:
    state.add(event["k"], event["v"])
    state.append("log", event["v"])


def test_commutative_updates_do_not_conflict() -> None:
    book, values = Book(), [0.1, 0.2, 0.3, 1e17, -1e17, 0.7]
    places = list(range(len(values)))
    random.Random(3).shuffle(places)
    for ts in places:
        book.insert(entry_of(Event("e", ts, {"k": "sum", "v": values[ts]})))
        list(run(book, add))
    assert book.aborts == 0
    total = 0.1
    for value in values[1:]:
        total += value
    assert book.versions.state(None, END) == {"sum": total, "log": values}


def test_a_late_event_that_touches_nothing_else_disturbs_nobody() -> None:
    book = Book()
    for ts in (1, 2, 3, 4):
        book.insert(entry_of(Event("e", ts, {"start": ts, "program": [("own", "a")]})))
    list(run(book, execute))
    book.insert(entry_of(Event("e", 0, {"start": 5, "program": [("get", "b"), ("set", "b")]})))
    assert [entry.place[0] for entry in run(book, execute)] == [0]


def test_transactions_that_find_the_same_keys_share_the_list() -> None:
    def count(event: Event, state: Any) -> None:
        state[event["k"]] = len(state)

    book = Book()
    for ts in range(60):
        book.insert(entry_of(Event("e", ts, {"k": min(ts, 20)})))
        list(run(book, count))
    lists = [entry.record.reads[KEYS, None, None][0] for entry in book.entries if entry.record]
    assert [len(found) for found in lists] == [*range(21), *[21] * 39]
    assert len({id(found) for found in lists}) == 22
