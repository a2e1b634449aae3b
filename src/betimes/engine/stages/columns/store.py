"""What compiled patterns keep of events: values as numbers, and payloads by event number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.reading.keys import Keys
from betimes.engine.reading.payloads import read, written
from betimes.model.batch import EventBatch
from betimes.patterns import PatternError
from betimes.patterns.compiled import Program

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_MANY = 50_000
_EXACT = 2**53
"""Whole numbers up to here are exact as floats."""


class Interned:
    """Columns that steps compare with each other, as numbers.

    Columns that are only tested for equality may hold text or numbers of any size: each distinct
    value gets a number. The others must be numbers that a float can represent exactly.
    """

    def __init__(self, program: Program, who: str) -> None:
        self._program = program
        self._who = who
        self._values = Keys()
        self._kinds: dict[str, str] = {}
        """Whether a column holds text or numbers."""
        self._seen: dict[str, str] = {}
        """The same, including what was read last."""

    def read(self, batch: EventBatch, bits: Ints) -> Floats:
        """One row per column, with NaN for null; `bits` says which steps each event fits."""
        before = self._seen.copy()
        try:
            return self._read(batch, bits)
        except PatternError:
            # Refused events do not determine what a column holds.
            self._seen = before
            raise

    def _read(self, batch: EventBatch, bits: Ints) -> Floats:
        found = np.empty((len(self._program.columns), len(batch)))
        for row, name in enumerate(self._program.columns):
            if name == "ts":
                found[row] = batch.ts
                continue
            numbers = self._floats(batch, name)
            if numbers is not None:
                found[row] = numbers
                continue
            values = self._column(batch, name, bits)
            self._note_kind(name, values)
            if name in self._program.numeric:
                found[row] = self._numbers(name, values)
            else:
                found[row] = self._codes(values)
        for one, other in self._program.pairs:
            kinds = {name: self._seen.get(name) for name in (one, other)}
            if None not in kinds.values() and len(set(kinds.values())) > 1:
                raise PatternError(
                    f"{self._who} compares {one!r} with {other!r}, but {one!r} holds "
                    f"{kinds[one]} and {other!r} {kinds[other]}; compare columns of the same kind"
                )
        return found

    def _floats(self, batch: EventBatch, name: str) -> Floats | None:
        """A column of floats, without looking at each value; None if it is not one."""
        payload = batch.payload
        if name not in self._program.numeric or not isinstance(payload, pa.Table):
            return None
        if name not in payload.column_names or not pa.types.is_floating(payload[name].type):
            return None
        self._note_kind(name, [0.0])
        numbers: Floats = payload[name].to_numpy().astype(np.float64)
        return numbers

    def _column(self, batch: EventBatch, name: str, bits: Ints) -> list[Any]:
        """The values of a column; events whose steps read it must have it."""
        payload = batch.payload
        if isinstance(payload, pa.Table) and name in payload.column_names:
            values: list[Any] = payload[name].to_pylist()
            return values
        rows = [] if isinstance(payload, pa.Table) or payload is None else payload
        taken, killed = self._program.needs[name]
        for row in np.flatnonzero((bits[0] & taken) | (bits[1] & killed)).tolist():
            if not rows or name not in rows[row]:
                event = batch[row]
                raise PatternError(
                    f"{self._who} compares {name!r} of different steps, but {event!r} has no "
                    f"{name!r}; it has {sorted(event.payload)}"
                )
        return [row.get(name) for row in rows] if rows else [None] * len(batch)

    def _note_kind(self, name: str, values: list[Any]) -> None:
        kinds = {
            "text" if isinstance(value, str) else "numbers" for value in values if value is not None
        }
        kinds |= {self._seen[name]} if name in self._seen else set()
        if len(kinds) > 1:
            raise PatternError(
                f"{self._who} compares {name!r} of different steps, which holds both text and "
                "numbers; give the column one kind"
            )
        if kinds:
            (self._seen[name],) = kinds

    def _numbers(self, name: str, values: list[Any]) -> list[float]:
        if self._seen.get(name) == "text":
            raise PatternError(
                f"{self._who} orders by {name!r} of different steps or calculates with it, but it "
                "holds text; for text, write the condition as a function in Python"
            )
        large = next((v for v in values if isinstance(v, int) and abs(v) > _EXACT), None)
        if large is not None:
            raise PatternError(
                f"{self._who} compares {name!r} of different steps, which holds {large}: too large "
                "to be exact as a float; write the condition as a function in Python"
            )
        return [np.nan if value is None else float(value) for value in values]

    def _codes(self, values: list[Any]) -> Floats:
        # Both None and NaN are null.
        known = np.array([value is not None and value == value for value in values], np.bool_)
        codes = np.full(len(values), np.nan)
        codes[known] = self._values.codes([v for v, k in zip(values, known, strict=True) if k])
        return codes

    def keep(self) -> None:
        """Note that what was read last is taken in."""
        self._values.keep()
        self._kinds = self._seen.copy()

    def drop(self) -> None:
        """Discard what was read last, unless it was kept."""
        self._values.drop()
        self._seen = self._kinds.copy()

    def state_of(self) -> tuple[list[Any], dict[str, str]]:
        """Everything needed to resume elsewhere."""
        return self._values.values, self._kinds

    def resume(self, kept: tuple[list[Any], dict[str, str]]) -> None:
        """Resume from what `state_of` kept."""
        self._values.resume(kept[0])
        self._kinds = kept[1]


class Chunk(NamedTuple):
    """Events with their numbers, which increase."""

    numbers: Ints
    batch: EventBatch

    def part(self, since: int, others: Ints) -> Chunk:
        """The events from a number on, and some others, whose numbers are sorted."""
        known = np.append(others, -1)[others.searchsorted(self.numbers)] == self.numbers
        rows = np.flatnonzero(known | (self.numbers >= since))
        return Chunk(self.numbers[rows], self.batch.take(rows))


class Store:
    """Events by number, as long as they may become part of a match."""

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
        """Join the newest chunks, so that each is larger than all after it and there are few.

        With n events, each event is copied at most log2(n) times.
        """
        low, size = len(self._chunks) - 1, len(self._chunks[-1].numbers)
        while low and len(self._chunks[low - 1].numbers) <= 2 * size:
            low -= 1
            size += len(self._chunks[low].numbers)
        if low < len(self._chunks) - 1:
            self._chunks[low:] = [_joined(self._chunks[low:])]

    def find(self, numbers: Ints) -> EventBatch:
        """The events with these numbers, in this order."""
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
        """Of the events before a number, keep only those that are bound."""
        old = [chunk for chunk in self._chunks if chunk.numbers[0] < before]
        bound = np.unique(bound)
        kept = [part for chunk in old if len((part := chunk.part(before, bound)).numbers)]
        self._chunks = ([_joined(kept)] if kept else []) + self._chunks[len(old) :]
        self._size = self._kept = sum(len(chunk.numbers) for chunk in self._chunks)

    @property
    def crowded(self) -> bool:
        """Whether there are many more events than after the last `forget`."""
        return self._size > 2 * self._kept + _MANY

    def state_of(self) -> dict[str, Any]:
        """Everything needed to resume elsewhere."""
        chunks = [
            (c.numbers, c.batch.ts, c.batch.codes, c.batch.types, written(c.batch.payload))
            for c in self._chunks
        ]
        return {"count": self.count, "chunks": chunks}

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` kept."""
        self.count = kept["count"]
        self._chunks = [
            Chunk(numbers, EventBatch(ts, codes, types, read(payload)))
            for numbers, ts, codes, types, payload in kept["chunks"]
        ]
        self._size = self._kept = sum(len(chunk.numbers) for chunk in self._chunks)


def _joined(chunks: list[Chunk]) -> Chunk:
    batch = EventBatch.concat([chunk.batch for chunk in chunks])
    if isinstance(batch.payload, pa.Table):
        batch.payload = batch.payload.combine_chunks()
    return Chunk(np.concatenate([chunk.numbers for chunk in chunks]), batch)
