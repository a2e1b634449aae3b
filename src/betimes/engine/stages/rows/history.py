"""The history of a stage: what was handled, in order, with what it takes to go back.

The history is a list of segments. A segment holds the events handled since a snapshot, and the
snapshot itself in the form of an undo log: the state that each key had when the segment first
touched it. So going back to the beginning of a segment costs as much as was touched, never the
whole table of keys; a detector without keys is the case of one key.

Stages never go back to most segments. Only those that they do go back to get an index of events by
key; an event that lands in a segment later is stored at its end and indexed at its place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import Output, Place
from betimes.engine.snapshots.segments import Weighed
from betimes.engine.snapshots.states import Snapshot
from betimes.engine.snapshots.weights import (
    MADE,
    ROW,
    weight_of_event,
    weight_of_state,
)
from betimes.engine.stages.rows.growing import Growing
from betimes.model import stored, unmade
from betimes.model.batch import pick
from betimes.model.event import Event
from betimes.model.stored import Int
from betimes.model.unmade import Events, Unmade

Ints = npt.NDArray[np.int64]


class EventRows:
    """Events as columns: places (ts, rank, tie), events, and the arrival of their release.

    Numbers are NumPy columns: a million Python integers take time to create and to free. If there
    are outputs of other stages among the events, `rank` and `tie` are lists.
    """

    __slots__ = ("_grown", "at", "events", "keys", "outputs", "rank", "tie", "ts")

    def __init__(
        self,
        ts: Ints,
        rank: list[int] | None,
        tie: Ints | list[Any],
        events: Events,
        at: Ints,
        keys: list[Any] | None,
        outputs: dict[int, str] | None = None,
    ) -> None:
        self.ts = ts
        self.rank = rank
        self.tie = tie
        self.events = events
        self.at = at
        self.keys = keys
        self.outputs = outputs or {}
        """Which rows are outputs of other stages, and which outputs, while they are handed out."""
        self._grown: tuple[Growing, Growing, Growing, Growing] | None = None
        """The columns ts, at and tie, and the types of events, once others were joined to them."""

    @classmethod
    def nothing(cls) -> EventRows:
        none = np.empty(0, np.int64)
        return cls(none, None, none, [], none, None)

    def __len__(self) -> int:
        return len(self.events)

    def place(self, row: int) -> Place:
        if self.rank is None:
            return self.ts.item(row), 0, self.tie.item(row)  # type: ignore[union-attr]
        return self.ts.item(row), self.rank[row], self.tie[row]

    def places(self) -> list[Place]:
        """All of them at once."""
        rank = self.rank or [0] * len(self)
        tie = self.tie.tolist() if isinstance(self.tie, np.ndarray) else self.tie
        return list(zip(self.ts.tolist(), rank, tie, strict=True))

    def find(self, rows: list[int], place: Place) -> int:
        """How many of these rows, which are in order, come before a place."""
        ts = self.ts.item
        at = bisect_left(rows, place[0], key=ts)
        while at < len(rows) and ts(rows[at]) == place[0] and self.place(rows[at]) < place:
            at += 1
        return at

    def event(self, row: int) -> Event:
        return self.events[row]

    def type(self, row: int) -> str:
        """The type of an event."""
        events = self.events
        name: str = events.names[row] if isinstance(events, Unmade) else events[row].type
        return name

    def output(self, row: int) -> str | None:
        return self.outputs.get(row)

    def some(self, rows: list[int]) -> list[Event]:
        """The events of these rows."""
        events = self.events
        if isinstance(events, Unmade):
            return [*events.pick(np.array(rows, np.int64), rows)]
        return pick(events, rows)

    def make(self) -> None:
        """Make all events, because they will be asked for again."""
        if isinstance(self.events, Unmade):
            self.events = list(self.events)

    def state_of(self) -> list[Any]:
        """Everything needed to resume elsewhere."""
        return [self.ts, self.rank, self.tie, list(self.events), self.at, self.keys]

    @classmethod
    def resumed(cls, kept: list[Any]) -> EventRows:
        """What `state_of` kept."""
        what = "events of a detector"
        shape = tuple[np.ndarray, list[Int] | None, Any, Any, np.ndarray, list[Any] | None]
        ts, rank, tie, events, at, keys = stored.shaped(kept, shape, what)
        count = stored.array(ts, np.int64, (None,), what).shape
        stored.array(at, np.int64, count, what)
        stored.require(isinstance(tie, list) == (rank is not None), f"{what} have no places")
        if rank is None:
            stored.array(tie, np.int64, count, what)
        events = stored.events(events, what)
        stored.hashable(keys or (), f"keys of {what}")
        columns = [events, *(each for each in (rank, tie, keys) if each is not None)]
        stored.require({(len(each),) for each in columns} == {count}, f"{what} are incomplete")
        return cls(ts, rank, tie, events, at, keys)

    def key(self, row: int) -> Any:
        return None if self.keys is None else self.keys[row]

    def part(self, low: int, high: int) -> EventRows:
        events, tie = self.events, self.tie[low:high]
        return EventRows(
            self.ts[low:high],
            None if self.rank is None else self.rank[low:high],
            tie,
            events.part(low, high) if isinstance(events, Unmade) else events[low:high],
            tie if self.at is self.tie else self.at[low:high],  # type: ignore[arg-type]
            None if self.keys is None else self.keys[low:high],
        )

    def rest(self, low: int) -> EventRows:
        """These without the first ones; what is joined to them still finds room."""
        rest = self.part(low, len(self))
        rest._grown = self._grown
        return rest

    def pick(self, rows: Ints) -> EventRows:
        numbers, events, ts = rows.tolist(), self.events, self.ts.take(rows)
        tie = self.tie.take(rows) if isinstance(self.tie, np.ndarray) else pick(self.tie, numbers)
        at: Any = tie if self.at is self.tie else self.at.take(rows)
        return EventRows(
            ts,
            None if self.rank is None else pick(self.rank, numbers),
            tie,
            events.pick(rows, numbers, ts) if isinstance(events, Unmade) else pick(events, numbers),
            at,
            None if self.keys is None else pick(self.keys, numbers),
        )

    def own(self) -> EventRows:
        keys = None if self.keys is None else list(self.keys)
        return EventRows(self.ts, self.rank, self.tie, unmade.own(self.events), self.at, keys)

    def joined(self, more: EventRows) -> EventRows:
        return EventRows.join([self, more])

    def with_ranks(self) -> EventRows:
        """The same with rank and tie as lists, so that they can hold outputs of other stages."""
        if self.rank is None:
            self.rank = [0] * len(self)
        if isinstance(self.tie, np.ndarray):
            self.tie = self.tie.tolist()
        return self

    @staticmethod
    def join(parts: list[EventRows]) -> EventRows:
        """Concatenate; the first part absorbs the others."""
        first, *others = parts
        if any(part.rank is not None for part in parts):
            for part in parts:
                part.with_ranks()
        if first._grown is None:
            first._grown = Growing(), Growing(), Growing(), Growing()
        ts, at, tie, names = first._grown
        ties: list[Any] = [part.tie for part in parts]
        same = all(part.at is part.tie for part in parts)
        first.ts = ts.join([part.ts for part in parts])
        if isinstance(first.tie, np.ndarray):
            first.tie = ties[0] = tie.join(ties)
        first.at = ties[0] if same else at.join([part.at for part in parts])
        first.events = unmade.join([part.events for part in parts], first.ts, names.join)
        for part in others:
            if first.keys is not None and part.keys is not None:
                first.keys += part.keys
            if first.rank is not None and part.rank is not None:
                first.rank += part.rank
            if isinstance(first.tie, list):
                first.tie += part.tie
        return first

    def sorted(self) -> EventRows:
        """By place."""
        return self.pick(np.array(sorted(range(len(self)), key=self.place), np.int64))

    def count_before(self, place: Place) -> int:
        """How many of the sorted events come before a place."""
        if not len(self) or self.ts[0] > place[0]:
            return 0
        return bisect_left(range(len(self)), place, key=self.place)


class RowSegment(Weighed):
    """Events between two snapshots."""

    __slots__ = (
        "_count",
        "_index",
        "_parts",
        "last",
        "outputs",
        "size",
        "start",
        "undo",
    )

    def __init__(self, start: Place) -> None:
        super().__init__()
        self.start = self.last = start
        self.size = 0
        self.undo: dict[Any, Snapshot] = {}
        self.outputs: dict[Any, list[Output]] = {}
        self._parts: list[EventRows] = []
        self._count = 0
        """Rows in all parts, including events that were removed."""
        self._index: defaultdict[Any, list[int]] | None = None

    @property
    def columns(self) -> EventRows | None:
        """All events of the segment, in the order in which they were added."""
        if len(self._parts) > 1:
            self._parts = [EventRows.join(self._parts)]
        return self._parts[0] if self._parts else None

    @property
    def indexed(self) -> bool:
        """Whether any key has gone back to it."""
        return self._index is not None

    def extend(self, columns: EventRows, last: Place) -> None:
        """Add events that follow all others, the last of which has this place."""
        self.kept = None
        before, count = self._count, len(columns)
        if self._index is not None:
            self._add(range(before, before + count), columns.keys)
        self._parts.append(columns)
        self._count, self.size = before + count, self.size + count
        self.last = max(self.last, last)

    @property
    def index(self) -> defaultdict[Any, list[int]]:
        """The rows of every key's events, in order."""
        if self._index is None:
            self._index = defaultdict(list)
            columns = self.columns
            if columns is not None:
                columns.make()  # more keys will go back to it
                self._add(range(len(columns)), columns.keys)
        return self._index

    def rows(self, key: Any) -> list[int]:
        """The rows of a key's events, in order."""
        index = self._index
        return (self.index if index is None else index).get(key, [])

    def _add(self, rows: Iterable[int], keys: list[Any] | None) -> None:
        index = self.index
        if keys is None:
            index[None].extend(rows)
            return
        # This runs for every event of a segment that a key goes back to: without bytecode, it takes
        # two thirds of the time of a loop.
        deque(map(list.append, map(index.__getitem__, keys), rows), maxlen=0)

    def compact(self) -> None:
        """Restore order after events landed here later or were removed."""
        columns = self.columns
        if self._index is not None and columns is not None:
            rows = [row for mine in self._index.values() for row in mine]
            self._parts = [columns.pick(np.array(rows)).sorted()] if rows else []
            self._count = len(rows)
            self._index, self._weight = None, -1

    def insert(self, events: EventRows) -> None:
        """Add events that land among the handled ones."""
        self.kept = None
        index, places = self.index, events.places()
        keys = events.keys or [None] * len(events)
        self._parts.append(events)
        columns = self.columns
        assert columns is not None
        for row, (key, place) in enumerate(zip(keys, places, strict=True), self._count):
            mine = index[key]
            mine.insert(columns.find(mine, place), row)
        self._count += len(places)
        self.size += len(places)
        self.last = max(self.last, places[-1])

    def _weigh(self) -> int:
        weight = MADE * sum(map(len, self.outputs.values()))
        if self._parts and len(self._parts[0]):
            weight += self.size * (ROW + weight_of_event(self._parts[0].event(0)))
        if self.undo:
            weight += len(self.undo) * (ROW + weight_of_state(next(iter(self.undo.values()))))
        return weight

    def remove(self, key: Any, place: Place) -> None:
        """Remove an event."""
        rows, columns = self.rows(key), self.columns
        assert columns is not None
        at = columns.find(rows, place)
        if at == len(rows) or columns.place(rows[at]) != place:
            raise LookupError(f"no event of key {key!r} at {place} in this segment")
        del rows[at]
        self.size -= 1
        self.kept = None
