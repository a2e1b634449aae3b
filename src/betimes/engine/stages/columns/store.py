"""The payloads of events that compiled patterns keep, by event number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.snapshots.weights import ROW, weight_of_batch, weight_of_event
from betimes.model import stored
from betimes.model.batch import EventBatch, in_rows
from betimes.model.coded import pick
from betimes.model.event import Event
from betimes.model.payloads import read, written
from betimes.model.volumes import Ranges, VolumeReader, VolumeWriter

Ints = npt.NDArray[np.int64]

NOBODY: Ints = np.empty(0, np.int64)
_MANY = 50_000
_BLOCK = 2048
"""So many events are one item of a checkpoint."""
SHELVES = 256
"""How many shapes of payloads have a shelf of their own; a number tells its shelf."""


class Chunk(NamedTuple):
    """Events with their numbers, which increase."""

    numbers: Ints
    batch: EventBatch

    def rows(self, numbers: Ints) -> Ints:
        """Where the events with these numbers are."""
        first, last = int(self.numbers[0]), int(self.numbers[-1])
        if last - first == (len(self.numbers) - 1) * SHELVES:
            # As long as nothing between them was forgotten, their distances are all the same.
            return (numbers - first) // SHELVES
        return self.numbers.searchsorted(numbers)

    def part(self, since: int, others: Ints) -> Chunk:
        """The events from a number on, and some others, whose numbers are sorted."""
        known = np.append(others, -1)[others.searchsorted(self.numbers)] == self.numbers
        rows = np.flatnonzero(known | (self.numbers >= since))
        return Chunk(self.numbers[rows], self.batch.take(rows))


class Shelf(Protocol):
    """Events whose payloads have one shape."""

    def put(self, numbers: Ints, batch: EventBatch) -> None:
        """Keep events."""

    def find(self, numbers: Ints) -> EventBatch:
        """The events with these numbers, in this order."""

    def rows(self, numbers: Ints) -> list[Event]:
        """The same, one by one."""

    def forget(self, before: int, bound: Ints) -> None:
        """Of the events before a number, keep only those that are bound."""

    def numbers(self) -> Ints:
        """The numbers of all events, in order."""

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""

    def __len__(self) -> int: ...


class Rows:
    """Events with dictionaries as payloads, one by one."""

    def __init__(self) -> None:
        self._events: dict[int, Event] = {}

    @property
    def weight(self) -> int:
        event = next(iter(self._events.values()), None)
        return 0 if event is None else len(self) * (ROW + weight_of_event(event))

    def put(self, numbers: Ints, batch: EventBatch) -> None:
        self._events.update(zip(numbers.tolist(), batch.rows(), strict=True))

    def find(self, numbers: Ints) -> EventBatch:
        return EventBatch.from_rows(self.rows(numbers))

    def rows(self, numbers: Ints) -> list[Event]:
        return pick(self._events, numbers.tolist())

    def forget(self, before: int, bound: Ints) -> None:
        kept = set(bound.tolist())
        self._events = {
            number: event
            for number, event in self._events.items()
            if number >= before or number in kept
        }

    def numbers(self) -> Ints:
        return np.array(list(self._events), np.int64)

    def __len__(self) -> int:
        return len(self._events)


class Tables:
    """Events with tables of the same columns as payloads, in chunks."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self.weight = 0

    def put(self, numbers: Ints, batch: EventBatch) -> None:
        """Keep events; join the newest chunks, so that each is larger than all after it.

        So there are few of them, and with n events, each is copied at most log2(n) times.
        """
        chunks = self._chunks
        self.weight += int(numbers.nbytes) + weight_of_batch(batch)
        chunks.append(Chunk(numbers, batch))
        low, size = len(chunks) - 1, len(batch)
        while low and len(chunks[low - 1].numbers) <= 2 * size:
            low -= 1
            size += len(chunks[low].numbers)
        if low < len(chunks) - 1:
            chunks[low:] = [_joined(chunks[low:])]

    def find(self, numbers: Ints) -> EventBatch:
        if len(self._chunks) == 1:
            (chunk,) = self._chunks
            return chunk.batch.take(chunk.rows(numbers))
        firsts = np.array([chunk.numbers[0] for chunk in self._chunks])
        which = firsts.searchsorted(numbers, side="right") - 1
        parts: list[EventBatch] = []
        places = []
        for at in np.unique(which).tolist():
            chunk, mine = self._chunks[at], np.flatnonzero(which == at)
            parts.append(chunk.batch.take(chunk.rows(numbers[mine])))
            places.append(mine)
        if len(parts) == 1:
            return parts[0]
        return EventBatch.concat(parts).take(_inverse(places))

    def forget(self, before: int, bound: Ints) -> None:
        count = len(self)
        old = [chunk for chunk in self._chunks if chunk.numbers[0] < before]
        kept = [part for chunk in old if len((part := chunk.part(before, bound)).numbers)]
        self._chunks = ([_joined(kept)] if kept else []) + self._chunks[len(old) :]
        self.weight = self.weight * len(self) // max(count, 1)

    def rows(self, numbers: Ints) -> list[Event]:
        return self.find(numbers).rows()

    def numbers(self) -> Ints:
        return np.concatenate([chunk.numbers for chunk in self._chunks] or [NOBODY])

    def __len__(self) -> int:
        return sum(len(chunk.numbers) for chunk in self._chunks)


class Store:
    """Events by number, as long as they may become part of a match."""

    def __init__(self) -> None:
        self.next = 0
        """All numbers so far are smaller."""
        self._shelves: list[Shelf] = []
        self._shapes: dict[Any, int] = {}
        self._size = self._kept = 0
        self._old = Ranges(_BLOCK)

    def put(self, batch: EventBatch) -> Ints:
        """Keep events; return their numbers, which increase."""
        payload, count = batch.payload, len(batch.ts)
        if not count:
            return np.empty(0, np.int64)
        shape = payload.schema if isinstance(payload, pa.Table) else None
        shelf = self._shapes.get(shape)
        if shelf is None:
            shelf = min(len(self._shelves), SHELVES - 1)
            if len(self._shelves) < SHELVES:
                self._shelves.append(Rows() if shape is None else Tables())
            self._shapes[shape] = shelf
        end = self.next + count * SHELVES
        numbers = np.arange(self.next + shelf, end, SHELVES)
        self.next = end
        self._size += count
        self._shelves[shelf].put(numbers, batch)
        return numbers

    def find(self, numbers: Ints) -> EventBatch:
        """The events with these numbers, in this order."""
        if len(self._shelves) == 1:
            return self._shelves[0].find(numbers)
        shelf = numbers % SHELVES
        used: list[int] = np.unique(shelf).tolist()
        if len(used) == 1:
            return self._shelves[used[0]].find(numbers)
        places = [np.flatnonzero(shelf == each) for each in used]
        parts = [
            in_rows(self._shelves[each].find(numbers[mine]))
            for each, mine in zip(used, places, strict=True)
        ]
        return EventBatch.concat(parts).take(_inverse(places))

    def alike(self, numbers: Ints) -> bool:
        """Whether the payloads of these events have one shape."""
        return len(self._shelves) == 1 or bool((numbers % SHELVES == numbers[0, 0] % SHELVES).all())

    def rows(self, numbers: Ints) -> list[Event]:
        """The same, one by one."""
        if len(self._shelves) == 1:
            return self._shelves[0].rows(numbers)
        return self.find(numbers).rows()

    def forget(self, before: int, bound: Ints) -> None:
        """Of the events before a number, keep only those that are bound."""
        bound = np.unique(bound)
        for shelf in self._shelves:
            shelf.forget(before, bound)
        self._old.thin(before // SHELVES)
        self._size = self._kept = sum(map(len, self._shelves))

    def weight_of_one(self) -> int:
        """About how many bytes an event takes."""
        return sum(shelf.weight for shelf in self._shelves) // max(self._size, 1)

    @property
    def crowded(self) -> bool:
        """Whether there are many more events than after the last `forget`."""
        return self._size > 2 * self._kept + _MANY

    def state_of(self, volumes: VolumeWriter, what: str) -> dict[str, Any]:
        """Everything needed to resume elsewhere."""
        return {
            "next": self.next,
            "events": self._old.write(volumes, self.next // SHELVES, self._cut(), what),
            "weights": [shelf.weight for shelf in self._shelves],
        }

    def _cut(self) -> Callable[[int, int], Any]:
        """What gives a range of the events, as data."""
        known = [shelf.numbers() for shelf in self._shelves]

        def cut(low: int, high: int) -> list[Any]:
            chunks = []
            for at, (shelf, numbers) in enumerate(zip(self._shelves, known, strict=True)):
                first, end = numbers.searchsorted((low * SHELVES, high * SHELVES))
                if first < end:
                    batch = shelf.find(mine := numbers[first:end])
                    payload = written(batch.payload)
                    chunks.append((at, mine, batch.ts, batch.codes, batch.types, payload))
            return chunks

        return cut

    def resume(self, kept: dict[str, Any], volumes: VolumeReader, what: str) -> None:
        """Resume from what `state_of` kept."""
        self.next = kept["next"]
        for chunks in self._old.read(volumes, kept["events"], what):
            self._put_back(chunks)
        self._size = self._kept = sum(map(len, self._shelves))
        for shelf, weight in zip(self._shelves, kept["weights"], strict=False):
            if isinstance(shelf, Tables):
                shelf.weight = weight

    def _put_back(self, chunks: Any) -> None:
        for at, numbers, ts, codes, types, payload in chunks:
            batch = stored.batch(ts, codes, types, read(payload), "kept events")
            stored.require(len(numbers) == len(ts), "numbers of kept events are missing")
            numbers = stored.increasing(numbers, "the numbers of kept events")
            stored.require(0 <= at < SHELVES, "kept events are on no shelf")
            shape = batch.payload.schema if isinstance(batch.payload, pa.Table) else None
            while len(self._shelves) <= at:
                self._shelves.append(Rows() if shape is None else Tables())
            self._shelves[at].put(numbers, batch)
            self._shapes.setdefault(shape, at)


def _inverse(places: list[Ints]) -> Ints:
    """Where each row is once parts that belong at these places follow each other."""
    order = np.empty(sum(map(len, places)), np.int64)
    order[np.concatenate(places)] = np.arange(len(order))
    return order


def _joined(chunks: list[Chunk]) -> Chunk:
    batch = EventBatch.concat([chunk.batch for chunk in chunks])
    if isinstance(batch.payload, pa.Table):
        batch.payload = batch.payload.combine_chunks()
    return Chunk(np.concatenate([chunk.numbers for chunk in chunks]), batch)
