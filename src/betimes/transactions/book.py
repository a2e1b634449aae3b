"""The protocol: transactions run in any order and are committed in the order of their places.

A **book** has the transactions of one state, by place. Each of them waits to be run, is running, or
has run; one that has run has a record of what it read, wrote and made. The book promises:

* *Whatever has run, holds.* When a transaction has written something, or something else than
  before, those that read it and have run are looked at again: a transaction whose reads find other
  values than they found has lost against an earlier one, and waits to be run again. Its old effects
  stay visible until then: very often it writes the same again, and those that read it still hold.
* *The earlier one wins.* A change is only ever seen by later transactions. So the first transaction
  that has not run is never disturbed, and running them one after the other in order, each of them
  runs once. That is why there is neither deadlock nor livelock, and why a transaction runs again at
  most once for each change that an earlier one makes to what it has read.
* *What everyone can see may be wrong.* A transaction may read what an earlier one has written that
  will run again. If that changes, it runs again, too.
* *Committed* is everything up to the first transaction that has not run.

An event that comes late is one more transaction in the middle: those after it that do not read what
it writes still hold. An event that is withdrawn is a transaction whose effects are void.

Who runs a transaction, where, and on which view of the state, does not matter: a record that comes
from somewhere else is compared with the state here before it counts (`done`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.engine.snapshots.pages import Page, Pages
from betimes.model.event import Event
from betimes.transactions.effects import Effect, Found, Key, Name, same
from betimes.transactions.tracked import HAS, KEYS, VALUE, Read, Record
from betimes.transactions.versions import Versions
from betimes.transactions.waiting import Waiting


class At:
    """The state as the transaction at one place finds it."""

    __slots__ = ("_place", "_versions")

    def __init__(self, versions: Versions, place: Place) -> None:
        self._versions = versions
        self._place = place

    def value(self, key: Key) -> Found:
        return self._versions.value(key, self._place)

    def has(self, key: Key) -> bool:
        return self._versions.has(key, self._place)

    def keys(self, name: Name) -> list[Any]:
        return self._versions.keys(name, self._place)


class Entry:
    """One transaction."""

    __slots__ = ("at", "event", "listed", "outputs", "place", "record", "runs", "told", "waits")

    def __init__(self, place: Place, event: Event, at: int = -1) -> None:
        self.place = place
        self.event = event
        self.at = at
        """With which arrival its event was known."""
        self.record: Record | None = None
        self.waits = True
        """Whether it has to be run."""
        self.listed = False
        """Whether it is in the list of those that wait."""
        self.runs = 0
        """How often it has run."""
        self.told = False
        """Whether what it made has been published; if it runs again, that is a correction."""
        self.outputs: list[Any] = []
        """What was published of what it made."""


class Book:
    """The transactions of one state."""

    def __init__(self, versions: Versions | None = None) -> None:
        self.versions = Versions() if versions is None else versions
        self.entries: list[Entry] = []
        """All transactions that are remembered, in order."""
        self._places: list[Place] = []
        self.pages = Pages()
        self._readers: dict[Read, list[Place]] = {}
        self.waiting = Waiting()
        self._furthest: Place = (-1, 0, 0)
        """Nobody has read anything after this place."""
        self.watchers: dict[Any, dict[Key, Any]] = {}
        """For each copy of the state somewhere else: which keys have changed since, in order."""
        self.aborts = 0
        """How often a transaction that had run has to run again."""
        self.lost: list[Entry] = []
        """Which ones, until somebody asks."""
        self.conflicts: dict[Key, int] = {}
        """How often each key was the reason."""

    def __len__(self) -> int:
        return len(self.entries)

    # Which transactions there are

    def insert(self, entry: Entry, record: Record | None = None) -> None:
        """One more transaction; it waits to be run unless it has run elsewhere, as recorded."""
        last = not self._places or entry.place > self._places[-1]
        self.pages.add(entry.place, last=last)
        if last:
            self._places.append(entry.place)
            self.entries.append(entry)
        else:
            at = bisect_left(self._places, entry.place)
            self._places.insert(at, entry.place)
            self.entries.insert(at, entry)
        if record is None:
            self.waiting.put(entry)
        else:
            self._install(entry, record)

    def number(self, place: Place) -> int:
        """How many transactions come before a place."""
        return bisect_left(self._places, place)

    def find(self, place: Place) -> Entry:
        """The transaction at a place."""
        at = self.number(place)
        if at == len(self.entries) or self._places[at] != place:
            raise LookupError(f"no transaction at {place}")
        return self.entries[at]

    def remove(self, place: Place) -> Entry:
        """A transaction that never was."""
        at = self.number(place)
        entry = self.find(place)
        del self.entries[at], self._places[at]
        self.pages.remove(place)
        entry.waits = False
        if entry.record is not None:
            self._forget_reads(entry.record, place)
            gone = entry.record.writes
            self.versions.erase(place, gone)
            for changed in self.watchers.values():
                changed |= gone
            self._suspect(place, gone)
        return entry

    def forget(self, before: int) -> list[Entry]:
        """Forget the transactions before a time; they have run, and nothing goes back to them."""
        count = bisect_left(self._places, (before,))
        gone = self.entries[:count]
        for entry in gone:
            assert entry.record is not None
            self._forget_reads(entry.record, entry.place)
            self.versions.settle(entry.record.writes)
        del self.entries[:count], self._places[:count]
        self.pages.forget(count, self._places[0] if self._places else None)
        return gone

    def page(self, page: Page) -> list[Entry]:
        """The transactions of a page."""
        start = self.number(page.start)
        return self.entries[start : start + page.size]

    # Running them

    def first_waiting(self) -> Entry | None:
        """The first transaction that has to be run; everything before it is committed."""
        return self.waiting.first()

    def view(self, entry: Entry) -> At:
        """The state as a transaction finds it now."""
        return At(self.versions, entry.place)

    def done(self, entry: Entry, record: Record, *, exact: bool = False) -> bool:
        """A transaction has run: whether that counts.

        `exact` says that it has just read the state here; nothing needs to be compared.
        """
        entry.runs += 1
        if not exact and self._has_lost(entry, record):
            return False
        self._install(entry, record)
        return True

    def _install(self, entry: Entry, record: Record) -> None:
        before, place = entry.record, entry.place
        old = {} if before is None else before.writes
        if before is not None:
            self._forget_reads(before, place)
        entry.record, entry.waits = record, False
        self.pages.of(place)
        for read in record.reads:
            readers = self._readers.setdefault(read, [])
            if not readers or readers[-1] < place:
                readers.append(place)
            else:
                insort(readers, place)
        last, new = place >= self._furthest, record.writes
        if last:
            self._furthest = place
        if not (old or new):
            return
        if old:
            self.versions.erase(place, [key for key in old if key not in new])
        self.versions.write(place, new)
        for changed_keys in self.watchers.values():
            changed_keys |= old
            changed_keys |= new
        if last:
            return  # nobody after it has run
        keys = {**old, **new}
        # If others are written, those that are created may come in another order or spelling.
        moved = not same((list(old),), (list(new),))
        changed = [key for key in keys if moved or not _alike(old[key], new[key])]
        self._suspect(place, changed)

    def _forget_reads(self, record: Record, place: Place) -> None:
        for read in record.reads:
            readers = self._readers[read]
            del readers[bisect_left(readers, place)]
            if not readers:
                del self._readers[read]

    def _suspect(self, place: Place, changed: Iterable[Key]) -> None:
        """Some keys have changed at a place: look at those who have read them since."""
        suspects: set[Place] = set()
        readers_of = self._readers.get
        for key in changed:
            for read in ((VALUE, *key), (HAS, *key)):
                readers = readers_of(read)
                if readers and readers[-1] > place:
                    end = self.versions.until_overwritten(key, place)
                    high = len(readers) if end is None else bisect_right(readers, end)
                    suspects.update(readers[bisect_right(readers, place) : high])
            readers = readers_of((KEYS, key[0], None))
            if readers:
                suspects.update(readers[bisect_right(readers, place) :])
        for suspect in sorted(suspects):
            entry = self.find(suspect)
            if entry.waits or entry.record is None:
                continue
            if self._has_lost(entry, entry.record):
                entry.waits = True
                self.waiting.put(entry)

    def _has_lost(self, entry: Entry, record: Record) -> bool:
        """Whether what was read is no longer what would be found."""
        broken = record.broken(self.view(entry))
        if broken is None:
            return False
        _, *key = broken
        self.conflicts[*key,] = self.conflicts.get((*key,), 0) + 1
        self.aborts += 1
        self.lost.append(entry)
        return True


def _alike(one: Effect, other: Effect) -> bool:
    """Whether two effects are the same."""
    return len(one) == len(other) and all(
        mine[0] == yours[0] and same(mine[1:], yours[1:])
        for mine, yours in zip(one, other, strict=True)
    )
