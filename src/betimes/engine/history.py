"""The history of a stage: what was handled, in order, with the means to go back.

The history is a row of segments. A segment holds the events handled since a snapshot, and the
snapshot itself in the form of an undo log: the state that each key had when the segment first
touched it. Going back to the beginning of a segment therefore costs what was touched, never the
whole table of keys, and an unkeyed detector is the case of one key.

Most segments are never gone back to. An index of their events by key is made only for those that
are; an event that lands in a segment later is stored at its end and indexed at its place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from betimes.engine.messages import Output, Place
from betimes.engine.snapshots import Snapshot
from betimes.model.event import Event


class Absent:
    """The snapshot of a key that did not exist."""


ABSENT = Absent()


def pick(column: list[Any], rows: list[int]) -> list[Any]:
    """The values of a column in these rows, as fast as Python can."""
    if len(rows) < 2:
        return [column[row] for row in rows]
    return list(itemgetter(*rows)(column))


class Columns:
    """Events as columns: their places (ts, rank, tie), themselves, the arrival of their release."""

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

    def place(self, row: int) -> Place:
        return self.ts[row], self.rank[row], self.tie[row]

    def key(self, row: int) -> Any:
        return None if self.keys is None else self.keys[row]

    def part(self, low: int, high: int) -> Columns:
        keys = None if self.keys is None else self.keys[low:high]
        return Columns(
            self.ts[low:high], self.rank[low:high], self.tie[low:high],
            self.events[low:high], self.at[low:high], keys,
        )  # fmt: skip

    def pick(self, rows: list[int]) -> Columns:
        return Columns(
            pick(self.ts, rows), pick(self.rank, rows), pick(self.tie, rows),
            pick(self.events, rows), pick(self.at, rows),
            None if self.keys is None else pick(self.keys, rows),
        )  # fmt: skip

    def extend(self, other: Columns) -> None:
        self.ts += other.ts
        self.rank += other.rank
        self.tie += other.tie
        self.events += other.events
        self.at += other.at
        if self.keys is not None and other.keys is not None:
            self.keys += other.keys

    def append(self, other: Columns, row: int) -> None:
        """Add one event of others."""
        self.ts.append(other.ts[row])
        self.rank.append(other.rank[row])
        self.tie.append(other.tie[row])
        self.events.append(other.events[row])
        self.at.append(other.at[row])
        if self.keys is not None and other.keys is not None:
            self.keys.append(other.keys[row])

    def sorted(self) -> Columns:
        """By place."""
        order = sorted(range(len(self)), key=self.place)
        return self.pick(order)

    def count_before(self, place: Place) -> int:
        """How many of the sorted events stand before a place."""
        if not self.ts or self.ts[0] > place[0]:
            return 0
        return bisect_left(range(len(self)), place, key=self.place)


class Segment:
    """Events between two snapshots."""

    __slots__ = ("_index", "columns", "last", "outputs", "size", "start", "undo")

    def __init__(self, start: Place) -> None:
        self.start = self.last = start
        self.size = 0
        self.columns: Columns | None = None
        self.undo: dict[Any, Snapshot] = {}
        self.outputs: dict[Any, list[Output]] = {}
        self._index: dict[Any, list[int]] | None = None

    def extend(self, columns: Columns) -> None:
        """Add events that follow all others."""
        first = 0
        if self.columns is None:
            self.columns = columns
        else:
            first = len(self.columns)
            self.columns.extend(columns)
        if self._index is not None:
            self._add(range(first, first + len(columns)), columns.keys)
        self.size += len(columns)
        self.last = max(self.last, columns.place(len(columns) - 1))

    def rows(self, key: Any) -> list[int]:
        """The rows of a key's events, in order."""
        if self._index is None:
            self._index = {}
            if self.columns is not None:
                self._add(range(len(self.columns)), self.columns.keys)
        return self._index.get(key, [])

    def _add(self, rows: Iterable[int], keys: list[Any] | None) -> None:
        assert self._index is not None
        index = self._index
        if keys is None:
            index.setdefault(None, []).extend(rows)
            return
        for row, key in zip(rows, keys, strict=True):
            mine = index.get(key)
            if mine is None:
                index[key] = [row]
            else:
                mine.append(row)

    def compact(self) -> None:
        """Put what landed here later, or was taken out, in order again."""
        if self._index is not None and self.columns is not None:
            rows = [row for mine in self._index.values() for row in mine]
            self.columns = self.columns.pick(rows).sorted() if rows else None
            self._index = None

    def insert(self, key: Any, columns: Columns, row: int) -> None:
        """Add one event that lands among those that were handled."""
        rows = self.rows(key)
        place = columns.place(row)
        if self.columns is None:
            self.columns = columns.part(row, row + 1)
        else:
            self.columns.append(columns, row)
        row = len(self.columns) - 1
        if not rows:
            assert self._index is not None
            self._index[key] = rows
        rows.insert(bisect_left(rows, place, key=self.columns.place), row)
        self.size += 1
        self.last = max(self.last, place)

    def remove(self, key: Any, place: Place) -> None:
        """Take an event out."""
        assert self.columns is not None
        rows = self.rows(key)
        at = bisect_left(rows, place, key=self.columns.place)
        if at == len(rows) or self.columns.place(rows[at]) != place:
            raise LookupError(f"no event of key {key!r} at {place} in this segment")
        del rows[at]
        self.size -= 1


class History:
    """Segments in order."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.last: Place = (-1, 0, 0)
        """The place of the last event handled."""

    def find(self, place: Place) -> int:
        """The segment to which a place belongs; 0 also for places before the first."""
        at = bisect_right(self.segments, place, key=lambda segment: segment.start) - 1
        return max(at, 0)

    def insert(self, key: Any, columns: Columns, row: int) -> int:
        """Add an event that lands among those that were handled; return its segment.

        If it stands behind all events of its segment, it becomes the first of the next one, so that
        the nearest snapshot is gone back to.
        """
        place = columns.place(row)
        at = self.find(place)
        if at + 1 < len(self.segments) and self.segments[at].last < place:
            at += 1
            self.segments[at].start = place
        self.segments[at].insert(key, columns, row)
        return at

    def forget(self, before: int) -> list[Segment]:
        """Drop the segments whose events are all older than `before`, but never the last."""
        count = 0
        # The next one begins after all that this one holds.
        while count < len(self.segments) - 1 and self.segments[count + 1].start[0] < before:
            count += 1
        gone = self.segments[:count]
        del self.segments[:count]
        return gone

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)
