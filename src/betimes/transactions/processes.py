"""Running transactions in worker processes, and committing them here.

Each worker has a copy of the state, as it was when it last got work. A message has what changed
since, and a **chunk**: some transactions, in order. The worker runs them one after the other on its
copy, so each sees what those before it in the chunk have written, and replies with the records.

A record whose reads find the same values here counts; any other has lost. So nothing depends on
what a worker knew, how long it took or whether it died: the copies are guesses, and so are the
records. This process runs a transaction only if it is its turn and no worker has it: because the
predictor wants that, because it has lost, failed or could not travel, or because no worker is free.

Copies are of the newest state. A transaction that runs again after a late event, far from the end,
takes along what it would find now of what it has read before.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.model.event import Event
from betimes.parallel import Pool, can_ship
from betimes.transactions.book import At, Book, Entry
from betimes.transactions.effects import DELETE, SET, Effect, Found, Key, same
from betimes.transactions.predictors import Predictor
from betimes.transactions.schedule import Schedule
from betimes.transactions.tracked import VALUE, Execute, Record, attempt
from betimes.transactions.versions import Base, Versions

CHUNK = 0.004
"""About how many seconds of work go into a chunk, so that sending it costs little."""
MOST = 64
"""Transactions in a chunk, at most."""
AHEAD = 2
"""Chunks on their way to each worker, so that it never waits for the next."""
_REACH = 4
"""How many times as many transactions as can be on their way are looked at for the next chunk."""
_END: Place = (2**63, 0, 0)
_NO_TASKS = pickle.dumps([])

Known = list[tuple[Key, Found]]
Task = tuple[Event, Known]
"""What a worker gets of a transaction: its event, and what it would find of what it read before."""


class Worker:
    """What runs in a worker process: transactions on copies of the states."""

    def __init__(self, execute: Execute, names: tuple[str, ...]) -> None:
        self._execute = execute
        self._names = names
        self._bases: dict[int, Base] = {}

    def __call__(self, work: bytes) -> bytes:
        """Take note of changes, and run a chunk."""
        # Pickled by the process that started this one, over a socket that nobody else has.
        number, changes, chunk = pickle.loads(work)
        tasks: list[Task] = pickle.loads(chunk)
        base = self._bases.setdefault(number, {})
        for (name, key), found in changes:
            state = base.setdefault(name, {})
            state.pop(key, None) if not found else state.__setitem__(key, found)
        versions, began = Versions(base), perf_counter()
        records = [self._run(versions, row, *task) for row, task in enumerate(tasks)]
        seconds = perf_counter() - began
        try:
            return pickle.dumps((seconds, records))
        except Exception:  # noqa: BLE001 - what cannot travel is run again where it can stay
            kept = [record if can_ship(record, pickle.dumps) else None for record in records]
            return pickle.dumps((seconds, kept))

    def _run(
        self, versions: Versions, row: int, event: Event, known: Known
    ) -> tuple[Any, ...] | None:
        """The record of a transaction; None if it failed, which has to be seen where it counts."""
        before: dict[Key, Effect] = {
            key: [(SET, found[0])] if found else [(DELETE,)]
            for key, found in known
            if not versions.is_written(key)
        }
        versions.write((row, 0, 0), before)
        place = (row, 1, 0)
        record = attempt(self._execute, event, At(versions, place), self._names)
        if record.error is not None:
            return None
        versions.write(place, record.writes)
        return record.reads, record.writes, record.made


class Processes:
    """Worker processes for the books of one operator."""

    def __init__(
        self,
        execute: Execute,
        names: tuple[str, ...],
        *,
        workers: int,
        timeout: float | None,
        name: str,
        time: Callable[[], float],
    ) -> None:
        self._execute = execute
        self._names = names
        self._time = time
        self._books: dict[Any, tuple[int, Book]] = {}
        """The books whose states workers know, with the number by which they know them."""
        self._number = 0
        self._task = CHUNK
        """Seconds per transaction, about."""
        self.worked = 0.0
        """Seconds of running transactions, in all processes."""
        self.pool = Pool(
            Worker(execute, names), workers=workers, timeout=timeout, name=name,
            revive=self._all_states,
        )  # fmt: skip

    def run(
        self,
        key: Any,
        book: Book,
        predictor: Predictor,
        goes_on: Callable[[int], bool] = lambda _: True,
    ) -> tuple[Schedule, list[Entry]]:
        """Run what waits in a book; all those that ran.

        After each turn, `goes_on` is asked with how many have; once it says no, what is on its way
        is waited for, and the rest is left.
        """
        if key not in self._books or self._books[key][1] is not book:
            self._number += 1
            self._books[key] = self._number, book
            book.watchers = [set(book.versions.all_keys()) for _ in range(len(self.pool))]
        schedule = Schedule(book, predictor)
        ran: list[Entry] = []
        flying: dict[int, list[Entry]] = {}
        while (first := book.first_waiting()) is not None:
            if first.runs and not schedule.runs(first):
                schedule.hold(first)  # here, it cannot lose again
            if goes_on(len(ran)):
                self._hand_out(key, schedule, flying)
            elif not flying:
                break
            here = not schedule.runs(first)
            if here:
                began = self._time()
                record = attempt(self._execute, first.event, book.view(first), self._names)
                self.worked += self._time() - began
                schedule.done(first, record, exact=True)
                ran.append(first)
            ran += self._collect(schedule, flying, wait=not here)
        return schedule, ran

    def _collect(
        self, schedule: Schedule, flying: dict[int, list[Entry]], *, wait: bool
    ) -> Iterator[Entry]:
        """Take what workers have sent; those whose records count."""
        for reply in self.pool.receive(wait):
            entries = flying.pop(reply.ticket, None)
            if entries is None:
                continue  # it is from a run that was given up
            seconds, records = pickle.loads(reply.data)
            self.worked += seconds
            self._task += 0.2 * (seconds / len(records) - self._task)
            for entry, made in zip(entries, records, strict=True):
                if made is None:
                    schedule.hold(entry)
                elif schedule.done(entry, Record(*made)):
                    yield entry

    def _hand_out(self, key: Any, schedule: Schedule, flying: dict[int, list[Entry]]) -> None:
        """Send chunks to workers that have room."""
        book, pool = schedule.book, self.pool
        room = {n: AHEAD - load for n, load in enumerate(pool.loads) if pool.ready[n]}
        size = max(1, min(int(CHUNK / max(self._task, 1e-6)), MOST))
        size = min(size, len(book.waiting) // (2 * len(pool)) + 1)
        reach = _REACH * AHEAD * len(pool) * size
        while room and max(room.values()) > 0:
            worker = max(room, key=room.__getitem__)
            entries = schedule.take(size, reach)
            if not entries:
                return
            room[worker] -= 1
            tasks: list[Task] = [(entry.event, _known(book, entry)) for entry in entries]
            try:
                chunk = pickle.dumps(tasks)
            except Exception:  # noqa: BLE001 - what cannot travel runs here
                for entry in entries:
                    schedule.hold(entry)
                return
            work = pickle.dumps((self._books[key][0], self._changes(book, worker), chunk))
            flying[pool.send(work, to=worker)] = entries

    def _changes(self, book: Book, worker: int) -> Known:
        """What a worker does not know yet."""
        changed, book.watchers[worker] = book.watchers[worker], set()
        return _newest(book, changed)

    def _all_states(self, worker: int) -> Iterator[bytes]:
        """For a worker that replaces a dead one.

        It then gets messages that were for its predecessor, with older values; so whatever there is
        counts as changed.
        """
        for number, book in self._books.values():
            book.watchers[worker] = set(book.versions.all_keys())
            yield pickle.dumps((number, _newest(book, book.watchers[worker]), _NO_TASKS))


def _newest(book: Book, keys: Iterable[Key]) -> Known:
    return [(key, book.versions.value(key, _END)) for key in keys]


def _known(book: Book, entry: Entry) -> Known:
    """What a transaction would find now of what it read before, where that is not the newest."""
    if entry.record is None:
        return []
    keys = [(name, key) for kind, name, key in entry.record.reads if kind == VALUE]
    found = [(key, book.versions.value(key, entry.place)) for key in keys]
    return [(key, it) for key, it in found if not same(it, book.versions.value(key, _END))]
