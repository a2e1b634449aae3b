"""The tactic of transactions: a late event runs, and then only those that read what it changed.

There is one book per key. What a batch brings is put into the books, at its places, and whatever
waits then is run. Outputs belong to the transaction that made them, so those of a transaction that
did not run again stay without being looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

from betimes.engine.news.outputs import Output, Outputs
from betimes.engine.snapshots.pages import Page
from betimes.engine.snapshots.segments import read_segments, write_segments
from betimes.engine.snapshots.weights import MADE, ROW, weight_of_event, weight_of_state
from betimes.engine.stages.rows.arriving import RowArrivals
from betimes.engine.stages.rows.history import EventRows
from betimes.engine.stages.rows.when import When
from betimes.engine.stages.runner import DetectorFailed, Runner
from betimes.engine.stages.tactic import END, Moment, Replay, Setting, Told
from betimes.model.event import Event
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.transactions.book import Book, Entry
from betimes.transactions.effects import is_mutable
from betimes.transactions.foresight import Memos
from betimes.transactions.tracked import Record
from betimes.transactions.versions import Versions


class Outcome:
    """A transaction that failed, in the form of a detector that fails again."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @property
    def __self__(self) -> Outcome:
        return self

    def snapshot(self) -> dict[str, Any]:
        """For errors: what it had read."""
        return self._record.seen()

    def __call__(self, event: Event) -> None:  # noqa: ARG002
        if self._record.error is not None:
            raise self._record.error


class TransactionTactic(RowArrivals):
    """Runs the events of each key as transactions on a state of their own."""

    weighs = False
    passed = None
    next_due = END

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        node = setting.node
        operator = node.maker.source
        name = f"detector {node.name!r}"
        alone = node.by is None and not setting.grouped
        self._memos: Memos | None = None
        if setting.foresight is not None and alone and operator.may_run_ahead:
            self._memos = setting.foresight.of(node.name)
        self._executor = operator.executor(name, setting.time, setting.cores, self._memos)
        self._runner = Runner(setting.node)
        self._books: dict[Any, Book] = {}
        self._withdrawn: dict[Any, list[tuple[Entry, int]]] = {}
        """What was taken back from below in this batch, by key, and with which arrival."""

    def let_pass(self, time: int) -> None:
        """Time makes no difference to transactions."""

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:  # noqa: ARG002
        row = self._below.withdraw(output.id)
        if row is not None:
            return row
        key = self._key(output)
        entry = self._books[key].remove(output.place)
        self._setting.failures.mend(key, output.place, output.place)
        self._withdrawn.setdefault(key, []).append((entry, at))
        return None

    # Handling events

    def handle(self, events: EventRows, moment: Moment) -> Iterator[Told]:  # noqa: ARG002
        if events.rank is not None:
            events = events.sorted()
        touched = dict.fromkeys(self._withdrawn)
        made = When(events).made([*range(len(events))])
        rows = zip(events.places(), events.events, made, strict=True)
        for row, (place, event, at) in enumerate(rows):
            key = events.key(row)
            touched[key] = None
            book = self._books.get(key)
            if book is None:
                book = self._books[key] = Book()
            book.insert(Entry(place, event, at))
        self._setting.counts.handled += len(events)
        for key in touched:
            yield from self._run(key, self._books[key], self._withdrawn.pop(key, []))

    def _run(self, key: Any, book: Book, gone: list[tuple[Entry, int]]) -> Iterator[Told]:
        """Run what waits in a book, and tell what has changed."""
        setting = self._setting
        counts, outputs = setting.counts, setting.outputs
        began = setting.time()
        before = dict(self._executor.work)
        if self._memos is not None:
            self._memos.book = book
        ran = self._executor.run(key, book)
        counts.how = self._executor.explain()
        for name, value in self._executor.work.items():
            counts.work[name] = counts.work.get(name, 0) + value - before[name]
        old = [output for entry in (*ran, *(each for each, _ in gone)) for output in entry.outputs]
        again = [entry for entry in ran if entry.told]
        first = next((entry for entry in ran if not entry.told), None)
        if not (old or gone or again):
            yield Outputs.of([made for entry in ran for made in self._commit(key, entry, entry.at)])
            return
        counts.replays += 1
        counts.replayed += len(again)
        counts.replaying += setting.time() - began
        outputs.unmake(old)
        place = min(entry.place for entry in (*ran, *(each for each, _ in gone)))
        replay = Replay(key, place, max((at for _, at in gone), default=-1), on_demand=True)
        replay.old, replay.handled = old, len(ran)
        replay.why = _why(first, gone)
        for entry in ran:
            replay.at = max(replay.at, entry.at)
            replay.new += self._commit(key, entry, replay.at)
        replay.new, replay.stay = outputs.again(old, replay.new)
        made = iter(replay.new)
        for entry in ran:
            entry.outputs = list(islice(made, len(entry.outputs)))
        yield replay

    def _commit(self, key: Any, entry: Entry, at: int) -> list[Output]:
        """Make outputs of what a transaction made; a failure is noted."""
        record, failures = entry.record, self._setting.failures
        assert record is not None
        if failures:
            failures.mend(key, entry.place, entry.place)
        made = record.made
        try:
            if record.error is None:
                self._runner.check(made)
            else:
                self._runner.run(Outcome(record), [entry.event])
        except DetectorFailed as failure:
            failures.note(key, entry.place, failure)
            made = []
        entry.told = True
        make, place, cause = self._setting.outputs.make, entry.place, entry.event.type
        entry.outputs = [make(each, n, place, cause, at, key) for n, each in enumerate(made)]
        return entry.outputs

    # Memory

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        return [
            entry.outputs
            for book in self._books.values()
            if book.entries and book.entries[0].place[0] < before
            for entry in book.forget(before)
        ]

    def history(self) -> list[tuple[int, int]]:
        books = self._books.values()
        return sorted((page.start[0], _weight(b.page(page))) for b in books for page in b.pages.all)

    @property
    def remembered(self) -> int:
        return sum(map(len, self._books.values()))

    def snapshots(self) -> tuple[int, int]:
        records = [entry.record for entry in self._entries() if entry.record is not None]
        sizes = (sys.getsizeof(record.reads) + sys.getsizeof(record.writes) for record in records)
        return sum(len(book.versions) for book in self._books.values()), sum(sizes)

    def parts(self) -> dict[str, dict[str, float]]:
        return {"transactions": dict(self._setting.counts.work)}

    def _entries(self) -> Iterator[Entry]:
        return chain.from_iterable(book.entries for book in self._books.values())

    # Checkpoints

    def outputs(self) -> Outputs:
        return Outputs.of([output for entry in self._entries() for output in entry.outputs])

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        what = self._setting.what
        books = [
            (key, book.versions.base, write_segments(
                book.pages.all, volumes, settled, partial(_written, book), what
            ))
            for key, book in self._books.items()
        ]  # fmt: skip
        return {**self._arrivals_kept(), "books": books}

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self._resume_arrivals(kept)
        self._books = {}
        for key, base, pages in kept["books"]:
            book = self._books[key] = Book(Versions(base))
            book.pages.all = read_segments(pages, volumes, partial(_read, book), self._setting.what)


def _why(first: Entry | None, gone: list[tuple[Entry, int]]) -> str:
    """What made transactions run again: the first late event, or one that was taken back."""
    withdrawn = min((entry for entry, _ in gone), key=lambda entry: entry.place, default=None)
    if withdrawn is not None and (first is None or withdrawn.place < first.place):
        return f"retracted {withdrawn.event.type} at {withdrawn.event.ts}"
    assert first is not None
    return f"late {first.event.type} at {first.event.ts}"


def _weight(entries: list[Entry]) -> int:
    """About how many bytes they take; what they have read is kept by those who wrote it."""
    one = entries[0]
    made = sum(len(entry.outputs) for entry in entries)
    touched, written = 0, 0
    if one.record is not None:
        touched = len(one.record.reads) + len(one.record.writes)
        steps = (step for effect in one.record.writes.values() for step in effect)
        written = sum(weight_of_state(operand) for _, *rest in steps for operand in rest
                      if is_mutable(operand))  # fmt: skip
    each = ROW * (1 + touched) + weight_of_event(one.event) + written
    return MADE * made + len(entries) * each


def _written(book: Book, page: Page) -> dict[str, Any]:
    entries = book.page(page)
    records = [entry.record for entry in entries]
    return {
        "start": page.start,
        "entries": [
            (entry.place, entry.event, entry.at, record.reads, record.writes,
             len(entry.outputs))
            for entry, record in zip(entries, records, strict=True) if record is not None
        ],
        "outputs": Outputs.of([made for entry in entries for made in entry.outputs]).state_of(),
    }  # fmt: skip


def _read(book: Book, state: dict[str, Any]) -> Page:
    outputs = iter(Outputs.resumed(state["outputs"]))
    for place, event, at, reads, writes, made in state["entries"]:
        entry = Entry(place, event, at)
        entry.told, entry.outputs = True, list(islice(outputs, made))
        book.insert(entry, Record(reads, writes, []))
    return Page(state["start"], len(state["entries"]))
