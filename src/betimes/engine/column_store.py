"""What compiled patterns keep of events: keys as numbers, and payloads by the events' numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.stage import keys_of
from betimes.model.batch import EventBatch, Payload
from betimes.model.errors import EventError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_MANY = 50_000


class Keys:
    """Numbers for keys, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}

    def codes(self, values: list[Any]) -> Ints:
        """The numbers of these keys."""
        known = self._codes
        try:
            return np.array([known[value] for value in values], np.int64)
        except KeyError:
            return np.array([self._code(value) for value in values], np.int64)

    def _code(self, value: Any) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def resume(self, values: list[Any]) -> None:
        """Go on with these keys."""
        self.values = values
        self._codes = {value: code for code, value in enumerate(values)}


def encoded(batch: EventBatch, column: str, who: str) -> tuple[Ints, list[Any]]:
    """A payload column as numbers, and the values that they stand for."""
    payload = batch.payload
    if isinstance(payload, pa.Table) and column in payload.column_names:
        values = payload[column]
        if not pa.types.is_nested(values.type):
            whole: Any = values.unify_dictionaries().combine_chunks()
            if isinstance(whole, pa.ChunkedArray):
                whole = pa.concat_arrays(whole.chunks)
            if not pa.types.is_dictionary(whole.type):
                whole = whole.dictionary_encode(null_encoding="encode")
            indices = whole.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            return indices, whole.dictionary.to_pylist()
    keys = keys_of(batch.rows(), column, who)
    numbers = {value: number for number, value in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64), list(numbers)


class Interned:
    """Columns that steps compare with each other, as numbers; texts get numbers of their own."""

    def __init__(self, columns: tuple[str, ...], who: str) -> None:
        self._columns = columns
        self._who = who
        self._texts = Keys()
        self._kinds: dict[str, str] = {}

    def read(self, batch: EventBatch) -> Floats:
        """A row for each column; null is NaN."""
        found = np.empty((len(self._columns), len(batch)))
        for row, name in enumerate(self._columns):
            found[row] = batch.ts if name == "ts" else self._numbers(batch, name)
        return found

    def _numbers(self, batch: EventBatch, name: str) -> Floats:
        values: list[Any]
        if isinstance(batch.payload, pa.Table):
            if name not in batch.payload.column_names:
                return np.full(len(batch), np.nan)
            column = batch.payload[name]
            kind = column.type
            if pa.types.is_floating(kind) or pa.types.is_integer(kind):
                self._note_kind(name, "numbers")
                numbers: Floats = column.cast(pa.float64(), safe=True).to_numpy()
                return numbers
            values = column.to_pylist()
        else:
            values = [row.get(name) for row in batch.payload or [{}] * len(batch)]
        kinds = {type(value) for value in values} - {type(None)}
        if str in kinds:
            self._note_kind(name, "text")
            if kinds != {str}:
                raise EventError(
                    f"{self._who} compares {name!r} of different steps, which holds both text and "
                    f"{sorted(k.__name__ for k in kinds - {str})}; give the column one kind"
                )
            codes = self._texts.codes([value for value in values if value is not None])
            texts = np.full(len(batch), np.nan)
            texts[[value is not None for value in values]] = codes
            return texts
        if kinds:
            self._note_kind(name, "numbers")
        return np.array([np.nan if value is None else float(value) for value in values])

    def _note_kind(self, name: str, kind: str) -> None:
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            raise EventError(
                f"{self._who} compares {name!r} of different steps, which held {known} and now "
                f"holds {kind}; give the column one kind"
            )

    def state_of(self) -> tuple[list[Any], dict[str, str]]:
        """All that must be kept to go on elsewhere."""
        return self._texts.values, self._kinds

    def resume(self, kept: tuple[list[Any], dict[str, str]]) -> None:
        """Go on from what `state_of` kept."""
        self._texts.resume(kept[0])
        self._kinds = kept[1]


class Chunk(NamedTuple):
    """Events with their numbers, which grow."""

    numbers: Ints
    batch: EventBatch

    def part(self, since: int, others: Ints) -> Chunk:
        """The events from a number on, and some others; the numbers of these are sorted."""
        known = np.append(others, -1)[others.searchsorted(self.numbers)] == self.numbers
        rows = np.flatnonzero(known | (self.numbers >= since))
        return Chunk(self.numbers[rows], self.batch.take(rows))


class Store:
    """Events by number: those that may still become part of a match."""

    def __init__(self) -> None:
        self.count = 0
        """The number of the next event."""
        self._chunks: list[Chunk] = []
        self._size = self._kept = 0

    def put(self, batch: EventBatch) -> Ints:
        """Keep events; return their numbers."""
        numbers = np.arange(self.count, self.count + len(batch))
        self.count += len(batch)
        self._size += len(batch)
        if len(batch):
            self._chunks.append(Chunk(numbers, batch))
            self._join()
        return numbers

    def _join(self) -> None:
        """Join the newest chunks, so that each is larger than all after it: few have to be asked.

        Each event is copied as often as the number of events can be halved.
        """
        low, size = len(self._chunks) - 1, len(self._chunks[-1].numbers)
        while low and len(self._chunks[low - 1].numbers) <= 2 * size:
            low -= 1
            size += len(self._chunks[low].numbers)
        if low < len(self._chunks) - 1:
            self._chunks[low:] = [_joined(self._chunks[low:])]

    def find(self, numbers: Ints) -> EventBatch:
        """The events of these numbers, in this order."""
        firsts = np.array([chunk.numbers[0] for chunk in self._chunks])
        which = firsts.searchsorted(numbers, side="right") - 1
        parts: list[EventBatch] = []
        places = []
        for at in np.unique(which).tolist():
            chunk, mine = self._chunks[at], np.flatnonzero(which == at)
            parts.append(chunk.batch.take(chunk.numbers.searchsorted(numbers[mine])))
            places.append(mine)
        if len(parts) == 1:
            return parts[0]
        order = np.empty(len(numbers), np.int64)
        order[np.concatenate(places)] = np.arange(len(numbers))
        return EventBatch.concat(parts).take(order)

    def forget(self, before: int, bound: Ints) -> None:
        """Keep of the events before a number only those that are bound."""
        old = [chunk for chunk in self._chunks if chunk.numbers[0] < before]
        bound = np.unique(bound)
        kept = [part for chunk in old if len((part := chunk.part(before, bound)).numbers)]
        self._chunks = ([_joined(kept)] if kept else []) + self._chunks[len(old) :]
        self._size = self._kept = sum(len(chunk.numbers) for chunk in self._chunks)

    @property
    def crowded(self) -> bool:
        """Whether there are many more events than after something was last forgotten."""
        return self._size > 2 * self._kept + _MANY

    def state_of(self) -> dict[str, Any]:
        """All that must be kept to go on elsewhere."""
        chunks = [
            (c.numbers, c.batch.ts, c.batch.codes, c.batch.types, _written(c.batch.payload))
            for c in self._chunks
        ]
        return {"count": self.count, "chunks": chunks}

    def resume(self, kept: dict[str, Any]) -> None:
        """Go on from what `state_of` kept."""
        self.count = kept["count"]
        self._chunks = [
            Chunk(numbers, EventBatch(ts, codes, types, _read(payload)))
            for numbers, ts, codes, types, payload in kept["chunks"]
        ]
        self._size = self._kept = sum(len(chunk.numbers) for chunk in self._chunks)


def _joined(chunks: list[Chunk]) -> Chunk:
    batch = EventBatch.concat([chunk.batch for chunk in chunks])
    if isinstance(batch.payload, pa.Table):
        batch.payload = batch.payload.combine_chunks()
    return Chunk(np.concatenate([chunk.numbers for chunk in chunks]), batch)


def _written(payload: Payload | None) -> Any:
    """A payload as data: Arrow's own format, or rows."""
    if not isinstance(payload, pa.Table):
        return None if payload is None else list(payload)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, payload.schema) as writer:
        writer.write_table(payload)
    return sink.getvalue().to_pybytes()


def _read(payload: Any) -> Payload | None:
    if not isinstance(payload, bytes):
        rows: Payload | None = payload
        return rows
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()
