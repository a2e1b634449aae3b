"""Running transactions on several workers, and committing them here.

Each worker has a copy of the state, as it was when it last got work. A message has what changed
since, and a **chunk**: some transactions, in order. The worker runs them one after the other on its
copy, so each sees what earlier ones have written, in this chunk or in those before it whose records
were still on their way when the message was sent; and it replies with the records. That is why
transactions that need each other can follow each other without a pause, if one worker gets them.

A record whose reads find the same values here counts; any other has lost. So nothing depends on
what a worker knew, how long it took or whether it died: the copies are guesses, and so are the
records. This thread runs a transaction only if it is its turn and no worker has it: because the
predictor wants that, because it has lost, failed or could not travel, or because no worker is free.

Copies are of the newest state. A transaction that runs again after a late event, far from the end,
takes along what it would find now of what it has read before.

Workers are processes, to which everything travels as bytes, or threads, to which it is handed over.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import chain
from time import perf_counter
from typing import Any, NamedTuple

from betimes.engine.news.outputs import Place
from betimes.parallel import Pool, ThreadPool, can_ship
from betimes.transactions.book import Book, Entry
from betimes.transactions.copies import END, Known, Ran, Task, news, run_on, tell, watch
from betimes.transactions.effects import same
from betimes.transactions.predictors import Predictor
from betimes.transactions.schedule import Schedule
from betimes.transactions.tracked import VALUE, Execute, Record, Writes, attempt
from betimes.transactions.versions import Base, Versions

Names = tuple[str, ...]

CHUNK = 0.004
"""About how many seconds of work go into a chunk, so that sending it costs little."""
MOST = 64
"""Transactions in a chunk, at most."""
AHEAD = 2
"""Chunks on their way to each worker, so that it never waits for the next."""
_REACH = 4
"""How many times as many transactions as can be on their way are looked at for the next chunk."""


class Address(NamedTuple):
    """Which chunk it is, for whoever runs it."""

    book: int
    chunk: int
    """Its number; later ones have larger numbers."""
    since: int
    """Of earlier chunks of the worker, those from this number on are not in what it is told."""


class Copy:
    """A worker's copy of the state of one book."""

    def __init__(self) -> None:
        self._base: Base = {}
        self._written: dict[int, list[tuple[Place, Writes]]] = {}
        """What was written here, by chunk, as far as nobody has told it."""

    def run(
        self, address: Address, changes: Known, tasks: list[Task], execute: Execute, names: Names
    ) -> list[Ran | None]:
        tell(self._base, changes)
        self._written = {n: it for n, it in self._written.items() if n >= address.since}
        versions = Versions(self._base)
        for place, writes in chain.from_iterable(self._written.values()):
            versions.write(place, writes)
        records = run_on(versions, execute, names, tasks)
        self._written[address.chunk] = [
            (place, record[1])
            for (place, *_), record in zip(tasks, records, strict=True)
            if record is not None
        ]
        return records


class Worker:
    """What a worker does: transactions on copies of the states."""

    def __init__(self, execute: Execute, names: Names) -> None:
        self._execute = execute
        self._names = names
        self._copies: dict[int, Copy] = {}

    def __call__(self, work: tuple[Address, Known, list[Task]]) -> tuple[float, list[Ran | None]]:
        """Take note of changes, and run a chunk; the seconds that took, and the records."""
        address, changes, tasks = work
        copy = self._copies.setdefault(address.book, Copy())
        began = perf_counter()
        records = copy.run(address, changes, tasks, self._execute, self._names)
        return perf_counter() - began, records


class DistantWorker(Worker):
    """The same in another process."""

    def __call__(self, work: Any) -> Any:
        # Pickled by the process that started this one, over a socket that nobody else has.
        address, changes, chunk = pickle.loads(work)
        seconds, records = super().__call__((address, changes, pickle.loads(chunk)))
        try:
            return pickle.dumps((seconds, records))
        except Exception:  # noqa: BLE001 - what cannot travel is run again where it can stay
            kept = [record if can_ship(record, pickle.dumps) else None for record in records]
            return pickle.dumps((seconds, kept))


def _as_it_is(thing: Any) -> Any:
    return thing


class _Sent(NamedTuple):
    """A chunk on its way."""

    worker: int
    chunk: int
    entries: list[Entry]


Flying = dict[int, _Sent]
"""The chunks on their way, by ticket."""


class Crew:
    """Workers for the books of one operator."""

    def __init__(
        self, execute: Execute, names: tuple[str, ...], *, name: str, time: Callable[[], float]
    ) -> None:
        self._execute = execute
        self._names = names
        self._name = name
        self._time = time
        self._books: dict[Any, tuple[int, Book]] = {}
        """The books whose states workers know, with the number by which they know them."""
        self._number = self._chunk = 0
        self._task = CHUNK
        """Seconds per transaction, about."""
        self._write: Callable[[Any], Any] = _as_it_is
        self._read: Callable[[Any], Any] = _as_it_is
        self.worked = 0.0
        """Seconds of running transactions, by all workers and here."""
        self.pool: Pool | ThreadPool

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
            for worker in range(len(self.pool)):
                watch(book, worker)
        schedule = Schedule(book, predictor)
        ran: list[Entry] = []
        flying: Flying = {}
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

    def _collect(self, schedule: Schedule, flying: Flying, *, wait: bool) -> Iterator[Entry]:
        """Take what workers have sent; those whose records count."""
        for reply in self.pool.receive(wait):
            sent = flying.pop(reply.ticket, None)
            if sent is None:
                continue  # it is from a run that was given up
            seconds, records = self._read(reply.data)
            self.worked += seconds
            self._task += 0.2 * (seconds / len(records) - self._task)
            for entry, made in zip(sent.entries, records, strict=True):
                if made is None:
                    schedule.hold(entry)
                elif schedule.done(entry, Record(*made)):
                    yield entry

    def _hand_out(self, key: Any, schedule: Schedule, flying: Flying) -> None:
        """Send chunks to workers that have room."""
        book, pool = schedule.book, self.pool
        room = {n: AHEAD - load for n, load in enumerate(pool.loads) if pool.ready[n]}
        size = max(1, min(int(CHUNK / max(self._task, 1e-6)), MOST))
        size = min(size, len(book.waiting) // (2 * len(pool)) + 1)
        reach = _REACH * AHEAD * len(pool) * size
        while room and max(room.values()) > 0:
            worker = max(room, key=room.__getitem__)
            entries = schedule.take(size, reach, worker)
            if not entries:
                del room[worker]
                continue
            room[worker] -= 1
            tasks: list[Task] = [
                (entry.place, entry.event, _known(book, entry)) for entry in entries
            ]
            try:
                chunk = self._write(tasks)
            except Exception:  # noqa: BLE001 - what cannot travel runs here
                for entry in entries:
                    schedule.hold(entry)
                return
            self._chunk += 1
            mine = (sent.chunk for sent in flying.values() if sent.worker == worker)
            since = min(mine, default=self._chunk)
            address = Address(self._books[key][0], self._chunk, since)
            work = self._write((address, news(book, worker), chunk))
            flying[pool.send(work, to=worker)] = _Sent(worker, self._chunk, entries)


class Processes(Crew):
    """Worker processes, which may die and are replaced."""

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
        super().__init__(execute, names, name=name, time=time)
        self._write, self._read = pickle.dumps, pickle.loads
        self.pool: Pool = Pool(
            DistantWorker(execute, names), workers=workers, timeout=timeout, name=name,
            revive=self._all_states,
        )  # fmt: skip

    def _all_states(self, worker: int) -> Iterator[bytes]:
        """For a worker that replaces a dead one.

        It then gets messages that were for its predecessor, with older values; so whatever there is
        counts as changed.
        """
        for number, book in self._books.values():
            watch(book, worker)
            yield pickle.dumps((Address(number, 0, 0), news(book, worker), pickle.dumps([])))
            watch(book, worker)


class Threads(Crew):
    """Worker threads: faster than processes where the interpreter runs them at the same time."""

    def __init__(
        self,
        execute: Execute,
        names: tuple[str, ...],
        *,
        workers: int,
        name: str,
        time: Callable[[], float],
    ) -> None:
        super().__init__(execute, names, name=name, time=time)
        self.pool: ThreadPool = ThreadPool([Worker(execute, names) for _ in range(workers)], name)


def _known(book: Book, entry: Entry) -> Known:
    """What a transaction would find now of what it read before, where that is not the newest."""
    if entry.record is None:
        return []
    keys = [(name, key) for kind, name, key in entry.record.reads if kind == VALUE]
    found = [(key, book.versions.value(key, entry.place)) for key in keys]
    return [(key, it) for key, it in found if not same(it, book.versions.value(key, END))]
