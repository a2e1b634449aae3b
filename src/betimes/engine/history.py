"""The history of a stage: what was handled, in order, with the means to go back.

The history is a row of segments. A segment holds the events handled since a snapshot, and the
snapshot itself in the form of an undo log: the state that each key had when the segment first
touched it. Going back to the beginning of a segment therefore costs what was touched, never the
whole table of keys, and an unkeyed detector is the case of one key.

Most segments are never gone back to. Their events stay in the columns in which they came until
somebody needs them by key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any

from betimes.engine.messages import Output, Place
from betimes.engine.snapshots import Snapshot
from betimes.model.event import Event

Item = tuple[int, int, Any, Event, int]
"""An event in the history: its place (ts, rank, tie), itself, and the arrival of its release."""


class Columns:
    """Events in order, as columns: what a stage handles in one go."""

    __slots__ = ("at", "events", "keys", "rank", "tie", "ts")

    def __init__(
        self,
        ts: list[int],
        rank: list[int],
        tie: list[Any],
        events: list[Event],
        at: list[int],
        keys: list[Any] | None,
    ) -> None:
        self.ts = ts
        self.rank = rank
        self.tie = tie
        self.events = events
        self.at = at
        self.keys = keys

    def __len__(self) -> int:
        return len(self.ts)

    def place(self, index: int) -> Place:
        return self.ts[index], self.rank[index], self.tie[index]

    def items(self) -> list[Item]:
        return list(zip(self.ts, self.rank, self.tie, self.events, self.at, strict=True))

    def part(self, low: int, high: int) -> Columns:
        columns = (self.ts, self.rank, self.tie, self.events, self.at)
        keys = None if self.keys is None else self.keys[low:high]
        return Columns(*(column[low:high] for column in columns), keys)

    def pick(self, wanted: list[int]) -> Columns:
        columns = (self.ts, self.rank, self.tie, self.events, self.at)
        keys = None if self.keys is None else [self.keys[i] for i in wanted]
        return Columns(*([column[i] for i in wanted] for column in columns), keys)

    def sorted(self) -> Columns:
        """By place; equal times are rare, and only they compare more than the time."""
        order = sorted(range(len(self)), key=self.place)
        return self if order == list(range(len(self))) else self.pick(order)

    def count_before(self, place: Place) -> int:
        """How many of the sorted events stand before a place."""
        if not self.ts or self.ts[0] > place[0]:
            return 0
        return bisect_left(range(len(self)), place, key=self.place)


class Absent:
    """The snapshot of a key that did not exist."""


ABSENT = Absent()


class Segment:
    """Events between two snapshots."""

    __slots__ = ("_columns", "_items", "outputs", "size", "start", "undo")

    def __init__(self, columns: Columns) -> None:
        self.start = columns.place(0)
        self.size = len(columns)
        self.undo: dict[Any, Snapshot] = {}
        self.outputs: dict[Any, list[Output]] = {}
        self._columns: Columns | None = columns
        self._items: dict[Any, list[Item]] = {}

    def by_key(self) -> dict[Any, list[Item]]:
        """The events of each key, in order."""
        if self._columns is not None:
            rows, keys = self._columns.items(), self._columns.keys
            if keys is None:
                self._items = {None: rows}
            else:
                items: dict[Any, list[Item]] = {}
                for key, row in zip(keys, rows, strict=True):
                    mine = items.get(key)
                    if mine is None:
                        items[key] = [row]
                    else:
                        mine.append(row)
                self._items = items
            self._columns = None
        return self._items

    def insert(self, key: Any, item: Item) -> None:
        insort(self.by_key().setdefault(key, []), item)
        self.size += 1

    def remove(self, key: Any, place: Place) -> None:
        items = self.by_key()[key]
        at = bisect_right(items, place, key=lambda item: item[:3]) - 1
        del items[at]
        self.size -= 1

    def last_ts(self) -> int:
        """The latest time in the segment."""
        if self._columns is not None:
            return self._columns.ts[-1]
        return max((items[-1][0] for items in self._items.values() if items), default=self.start[0])


class History:
    """Segments in order."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.last: Place = (-1, 0, 0)
        """The place of the last event handled."""
        self.forgotten: int | None = None
        """Events up to this time cannot be gone back to any more."""

    def find(self, place: Place) -> int:
        """The segment to which a place belongs; 0 also for places before the first."""
        at = bisect_right(self.segments, place, key=lambda segment: segment.start) - 1
        return max(at, 0)

    def forget(self, before: int) -> list[Segment]:
        """Drop the segments whose events are all older than `before`, but never the last."""
        count = 0
        while count < len(self.segments) - 1 and self.segments[count].last_ts() < before:
            count += 1
        gone = self.segments[:count]
        if gone:
            self.forgotten = gone[-1].last_ts()
            del self.segments[:count]
        return gone

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)
