"""The payloads of events that compiled patterns keep, by event number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from betimes.engine.stages.columns.shelves import (
    SHELVES,
    Block,
    Ints,
    Numbers,
    Rows,
    Shelf,
    Tables,
    inverse,
    shape_of,
    shelf_for,
)
from betimes.model import stored
from betimes.model.arrays import ArrayBatch, in_arrays
from betimes.model.batch import EventBatch, in_rows
from betimes.model.event import Event
from betimes.model.payloads import read, written
from betimes.model.volumes import Ranges, VolumeReader, VolumeWriter

_MANY = 50_000
_BLOCK = 2048
"""So many events are one item of a checkpoint."""


class Store:
    """Events by number, as long as they may become part of a match."""

    def __init__(self) -> None:
        self.next = 0
        """All numbers so far are smaller."""
        self._shelves: list[Shelf] = []
        self._shapes: dict[Any, int] = {}
        self._last: tuple[Any, int] = None, 0
        """The schema of numbers that came last, and its shelf."""
        self._size = self._kept = 0
        self._old = Ranges(_BLOCK)

    def put(self, batch: EventBatch, rows: Ints | None = None) -> Ints:
        """Keep events, all or these rows; return their numbers, which increase."""
        count = len(batch.ts) if rows is None else len(rows)
        if not count:
            return np.empty(0, np.int64)
        known, shelf = self._last
        if not (isinstance(batch, ArrayBatch) and batch.schema is known):
            shelf = self._shelf_of(batch)
        end = self.next + count * SHELVES
        numbers = np.arange(self.next + shelf, end, SHELVES)
        self.next = end
        self._size += count
        self._shelves[shelf].put(numbers, batch, rows)
        return numbers

    def _shelf_of(self, batch: EventBatch) -> int:
        shape = shape_of(batch)
        shelf = self._shapes.get(shape)
        if shelf is None:
            shelf = len(self._shelves)
            if shelf < SHELVES - 1:
                self._shelves.append(shelf_for(batch))
            else:
                # The last shelf takes whatever comes.
                shelf = SHELVES - 1
                if len(self._shelves) < SHELVES:
                    self._shelves.append(Rows())
            self._shapes[shape] = shelf
        if isinstance(batch, ArrayBatch):
            self._last = batch.schema, shelf
        return shelf

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
        return EventBatch.concat(parts).take(inverse(places))

    def block(self, numbers: Ints) -> Block | None:
        """The same as words, if their payloads are numbers and have one shape."""
        shelf = self.numbers(numbers)
        return None if shelf is None else shelf.block(numbers)

    def numbers(self, numbers: Ints) -> Numbers | None:
        """The shelf that these events are on, if it is one, and a shelf of numbers."""
        shelf = 0
        if len(self._shelves) > 1:
            shelf = numbers.item(0) % SHELVES
            if not (numbers % SHELVES == shelf).all():
                return None
        found = self._shelves[shelf]
        return found if isinstance(found, Numbers) else None

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
        self.next = stored.shaped(kept["next"], stored.Int, what)
        stored.require(0 <= self.next < 2**62, "events have no numbers")
        chunks: dict[int, list[tuple[Ints, EventBatch]]] = {}
        for kept_chunks in self._old.read(volumes, kept["events"], what):
            for at, numbers, batch in self._read(kept_chunks):
                chunks.setdefault(at, []).append((numbers, batch))
        for at in range(max(chunks, default=-1) + 1):
            self._put_back(at, chunks.get(at, []))
        self._size = self._kept = sum(map(len, self._shelves))
        weights = stored.shaped(kept["weights"], list[stored.Int], what)
        for shelf, weight in zip(self._shelves, weights, strict=False):
            if isinstance(shelf, Tables):
                shelf.weight = weight

    def check(self, numbers: Ints) -> None:
        """Refuse a state that refers to events which are not here."""
        known = np.concatenate(
            [np.empty(0, np.int64), *(shelf.numbers() for shelf in self._shelves)]
        )
        stored.require(np.isin(numbers, known).all(), "events of a pattern are missing")

    def _read(self, chunks: Any) -> Iterator[tuple[int, Ints, EventBatch]]:
        """What a checkpoint has in one place: shelves, numbers and events."""
        for at, numbers, ts, codes, types, payload in chunks:
            batch = stored.batch(ts, codes, types, read(payload), "kept events")
            stored.require(len(numbers) == len(ts), "numbers of kept events are missing")
            numbers = stored.increasing(numbers, "the numbers of kept events")
            stored.require(0 <= at < SHELVES, "kept events are on no shelf")
            yield at, numbers, batch

    def _put_back(self, at: int, chunks: list[tuple[Ints, EventBatch]]) -> None:
        """Fill a shelf with what a checkpoint has of it."""
        arrays = [in_arrays(batch) for _, batch in chunks]
        batches = [batch for _, batch in chunks]
        if at < SHELVES - 1 and all(isinstance(batch, ArrayBatch) for batch in arrays):
            batches = arrays
        shelf = shelf_for(batches[0]) if batches and at < SHELVES - 1 else Rows()
        self._shelves.append(shelf)
        for (numbers, _), batch in zip(chunks, batches, strict=True):
            shelf.put(numbers, batch, None)
            self._shapes.setdefault(shape_of(batch), at)
