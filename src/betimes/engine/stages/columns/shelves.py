"""Shelves of a store: events by number, in the form that suits their payloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.snapshots.weights import ROW, weight_of_batch, weight_of_event
from betimes.model.arrays import ArrayBatch
from betimes.model.batch import EventBatch, pick
from betimes.model.event import Event

Ints = npt.NDArray[np.int64]

NOBODY: Ints = np.empty(0, np.int64)
SHELVES = 256
"""How many shapes of payloads have a shelf of their own; a number tells its shelf."""
_ROOM = 256
NUMBER, TS, TYPE, COLUMNS = range(4)
"""The rows of an array of words; those of the payload follow."""


class Chunk(NamedTuple):
    """Events with their numbers, which increase."""

    numbers: Ints
    batch: EventBatch

    def rows(self, numbers: Ints) -> Ints:
        """Where the events with these numbers are."""
        return _where(self.numbers, numbers)

    def part(self, since: int, others: Ints) -> Chunk:
        """The events from a number on, and some others, whose numbers are sorted."""
        rows = _kept(self.numbers, since, others)
        return Chunk(self.numbers[rows], self.batch.take(rows))


class Shelf(Protocol):
    """Events whose payloads have one shape."""

    def put(self, numbers: Ints, batch: EventBatch, rows: Ints | None) -> None:
        """Keep events: all of a batch, or these rows of it."""

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

    def put(self, numbers: Ints, batch: EventBatch, rows: Ints | None) -> None:
        some = batch if rows is None else batch.take(rows)
        self._events.update(zip(numbers.tolist(), some.rows(), strict=True))

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

    def put(self, numbers: Ints, batch: EventBatch, rows: Ints | None) -> None:
        """Keep events; join the newest chunks, so that each is larger than all after it.

        So there are few of them, and with n events, each is copied at most log2(n) times.
        """
        chunks, batch = self._chunks, batch if rows is None else batch.take(rows)
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
        return EventBatch.concat(parts).take(inverse(places))

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


class Block(NamedTuple):
    """Some events of a shelf of numbers."""

    rows: Ints
    """The number, time and type of each, then its columns, all as 64-bit words."""
    types: tuple[str, ...]
    schema: pa.Schema


class Numbers:
    """Events with columns of plain numbers as payloads: one array of words, with room for more.

    What is taken from it is taken at once, however many columns there are.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._words = np.empty((COLUMNS + len(schema), _ROOM), np.int64)
        self._kinds = [np.dtype(kind.to_pandas_dtype()) for kind in schema.types]
        self._size = 0
        self.types: tuple[str, ...] = ()
        """The types of its events."""

    def words(self) -> tuple[Ints, int, int]:
        """The array, how many events are in it, and how far apart their numbers are."""
        return self._words, self._size, SHELVES

    @property
    def weight(self) -> int:
        return self._size * (8 + 8 + 4 + sum(kind.itemsize for kind in self._kinds))

    def put(self, numbers: Ints, batch: EventBatch, rows: Ints | None) -> None:
        assert isinstance(batch, ArrayBatch)
        low, high = self._size, self._size + len(numbers)
        if high > self._words.shape[1]:
            self._keep(slice(low), 2 * high)
        self._size = high
        words, some = self._words[:, low:high], (lambda a: a) if rows is None else _taking(rows)
        words[NUMBER], words[TS] = numbers, some(batch.ts)
        words[TYPE] = self._coded(batch.types, some(batch.codes))
        for row, array in enumerate(batch.arrays.values(), COLUMNS):
            words[row].view(words_of(array.dtype))[:] = some(array)

    def _coded(self, types: tuple[str, ...], codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Types in the codes of this shelf."""
        if types == self.types:
            return codes
        self.types = (*dict.fromkeys((*self.types, *types)),)
        if self.types[: len(types)] == types:
            return codes
        return np.array([self.types.index(name) for name in types], np.int32).take(codes)

    def block(self, numbers: Ints) -> Block:
        """The events with these numbers, in an array of the same shape."""
        rows = _where(self._words[NUMBER, : self._size], numbers)
        return Block(self._words.take(rows, axis=1), self.types, self.schema)

    def find(self, numbers: Ints) -> ArrayBatch:
        words = self.block(numbers).rows
        arrays = {
            name: words[row].view(words_of(kind)).astype(kind, copy=False)
            for row, (name, kind) in enumerate(
                zip(self.schema.names, self._kinds, strict=True), COLUMNS
            )
        }
        codes = words[TYPE].astype(np.int32)
        return ArrayBatch(words[TS], codes, self.types, arrays, self.schema)

    def rows(self, numbers: Ints) -> list[Event]:
        return self.find(numbers).rows()

    def forget(self, before: int, bound: Ints) -> None:
        rows = _kept(self.numbers(), before, bound)
        if len(rows) < self._size:
            self._size = len(rows)
            self._keep(rows, 2 * len(rows) + _ROOM)

    def _keep(self, rows: Ints | slice, room: int) -> None:
        """Move some events to an array with this much room."""
        kept = self._words[:, rows]
        self._words = np.empty((len(kept), room), np.int64)
        self._words[:, : kept.shape[1]] = kept

    def numbers(self) -> Ints:
        numbers: Ints = self._words[NUMBER, : self._size]
        return numbers

    def __len__(self) -> int:
        return self._size


def _taking(rows: Ints) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    return lambda array: array.take(rows)


def words_of(kind: np.dtype[Any]) -> type[np.generic]:
    """The words that numbers of a kind are kept as."""
    if kind.kind == "f":
        return np.float64
    return np.uint64 if kind == np.uint64 else np.int64


def shelf_for(batch: EventBatch) -> Shelf:
    """A shelf for payloads like these."""
    if isinstance(batch, ArrayBatch):
        return Numbers(batch.schema)
    return Tables() if isinstance(batch.payload, pa.Table) else Rows()


def shape_of(batch: EventBatch) -> Any:
    """Events with the same shape can be on one shelf."""
    if isinstance(batch, ArrayBatch):
        return batch.schema, "arrays"
    return batch.payload.schema if isinstance(batch.payload, pa.Table) else None


def _where(known: Ints, numbers: Ints) -> Ints:
    """Where these numbers are among the known ones."""
    if not len(numbers):
        return numbers
    first, last = known.item(0), known.item(-1)
    if last - first == (len(known) - 1) * SHELVES:
        # As long as nothing between them was forgotten, their distances are all the same.
        return (numbers - first) // SHELVES
    return known.searchsorted(numbers)


def _kept(numbers: Ints, since: int, others: Ints) -> Ints:
    """Where the numbers from one on are, and some others, which are sorted."""
    known = np.append(others, -1)[others.searchsorted(numbers)] == numbers
    return np.flatnonzero(known | (numbers >= since))


def _joined(chunks: list[Chunk]) -> Chunk:
    batch = EventBatch.concat([chunk.batch for chunk in chunks])
    if isinstance(batch.payload, pa.Table):
        batch.payload = batch.payload.combine_chunks()
    return Chunk(np.concatenate([chunk.numbers for chunk in chunks]), batch)


def inverse(places: list[Ints]) -> Ints:
    """Where each row is once parts that belong at these places follow each other."""
    order = np.empty(sum(map(len, places)), np.int64)
    order[np.concatenate(places)] = np.arange(len(order))
    return order
