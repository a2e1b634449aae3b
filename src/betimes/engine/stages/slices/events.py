"""Events as columns on their way through a stage: while they wait, and in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from betimes.engine.news.outputs import Place
from betimes.engine.stages.from_below import Made
from betimes.engine.stages.handed import in_order
from betimes.engine.stages.tactic import NOTHING, Ints
from betimes.model import stored
from betimes.model.arrays import ArrayBatch, concat, in_arrays
from betimes.model.batch import EventBatch, pick
from betimes.model.event import Event
from betimes.model.payloads import read, written

_CHUNKS = 4
"""Columns of tables with more pieces are joined: a look-up has to ask each piece."""


class Slice:
    """Events in order, with their arrival numbers and the arrivals of their release."""

    __slots__ = ("arrival", "at", "batch", "codes", "made")

    def __init__(
        self,
        batch: EventBatch,
        arrival: Ints,
        at: Ints,
        codes: Ints = NOTHING,
        made: list[Made | None] | None = None,
    ) -> None:
        self.batch = batch
        self.arrival = arrival
        self.at = at
        self.codes = codes
        """Their keys, while they wait and are handed out; nothing if there is only one."""
        self.made = made
        """For each event, if another stage made it: the output's identity and place; None if all
        are input events."""

    def __len__(self) -> int:
        return len(self.arrival)

    def place(self, row: int) -> Place:
        made = None if self.made is None else self.made[row]
        if made is not None:
            return made[1]
        return int(self.batch.ts[row]), 0, int(self.arrival[row])

    @property
    def ts(self) -> Ints:
        return self.batch.ts

    def event(self, row: int) -> Event:
        return self.batch[row]

    def output(self, row: int) -> str | None:
        made = None if self.made is None else self.made[row]
        return None if made is None else made[0]

    def places(self, rows: list[int]) -> list[Place]:
        if self.made is not None:
            return [self.place(row) for row in rows]
        ts, arrival = self.batch.ts[rows].tolist(), self.arrival[rows].tolist()
        return [(time, 0, number) for time, number in zip(ts, arrival, strict=True)]

    def types(self, rows: list[int]) -> list[str]:
        """The types of the events of these rows."""
        types = self.batch.types
        return [types[code] for code in self.batch.codes[rows].tolist()]

    def rest(self, low: int) -> Slice:
        """These without the first ones."""
        return self.part(low, len(self))

    def part(self, low: int, high: int) -> Slice:
        if low == 0 and high == len(self):
            return self
        arrival, at, codes = self.arrival[low:high], self.at[low:high], self.codes[low:high]
        made = None if self.made is None else self.made[low:high]
        return Slice(self.batch.part(low, high), arrival, at, codes, made)

    def take(self, rows: Ints) -> Slice:
        made = None if self.made is None else pick(self.made, rows.tolist())
        codes = self.codes.take(rows) if len(self.codes) else self.codes
        arrival = self.arrival.take(rows)
        # While events wait, nobody knows when they will be released.
        at = arrival if self.at is self.arrival else self.at.take(rows)
        return Slice(self.batch.take(rows), arrival, at, codes, made)

    def pick(self, rows: Ints) -> Slice:
        taken = self.take(rows)
        taken.batch = whole(taken.batch)
        return taken

    def own(self) -> Slice:
        return self

    def joined(self, more: Slice) -> Slice:
        return Slice.join([self, more])

    def count_before(self, place: Place) -> int:
        """How many of the events come before a place."""
        if not len(self) or self.batch.ts[0] > place[0]:
            return 0
        return bisect_left(range(len(self)), place, key=self.place)

    def sorted(self) -> Slice:
        """By place."""
        if self.made is not None:
            return self.take(np.array(sorted(range(len(self)), key=self.place), np.int64))
        return self.take(in_order(self.batch.ts, self.arrival))

    def without(self, place: Place) -> Slice:
        """The events without the one at a place."""
        row = bisect_left(range(len(self)), place, key=self.place)
        return self.take(np.delete(np.arange(len(self)), row))

    @classmethod
    def wait(cls, parts: list[Slice]) -> Slice:
        """Concatenate what waits: the same as `join`, but more will follow."""
        return cls.join(parts, grows=True)

    @staticmethod
    def join(parts: list[Slice], *, grows: bool = False) -> Slice:
        """Concatenate."""
        if len(parts) == 1:
            return parts[0]
        arrival = np.concatenate([part.arrival for part in parts])
        waits = all(part.at is part.arrival for part in parts)
        return Slice(
            whole(concat([part.batch for part in parts], grows=grows), _CHUNKS),
            arrival,
            arrival if waits else np.concatenate([part.at for part in parts]),
            np.concatenate([part.codes for part in parts]),
            _made(parts),
        )

    def state_of(self) -> tuple[Any, ...]:
        """Everything needed to resume elsewhere."""
        batch = self.batch
        payload = written(batch.payload)
        columns = (batch.ts, batch.codes, batch.types, payload)
        return *columns, self.arrival, self.at, self.codes, self.made

    @classmethod
    def resumed(cls, kept: tuple[Any, ...]) -> Slice:
        """What `state_of` kept."""
        what = "events of a detector"
        ts, codes, types, payload, arrival, at, keys, made = stored.shaped(kept, _Kept, what)
        batch = stored.batch(ts, codes, types, read(payload), what)
        for column in (arrival, at):
            stored.array(column, np.int64, ts.shape, what)
        stored.array(keys, np.int64, ts.shape if len(keys) else (0,), what)
        stored.require(made is None or len(made) == len(ts), f"{what} are incomplete")
        return cls(in_arrays(batch), arrival, at, keys, made)


_Kept = tuple[
    np.ndarray, np.ndarray, list[str], Any, np.ndarray, np.ndarray, np.ndarray,
    list[tuple[str, stored.Place] | None] | None,
]  # fmt: skip


def _made(parts: Sequence[Slice]) -> list[Made | None] | None:
    """Which events of slices that follow each other were made by other stages."""
    if all(part.made is None for part in parts):
        return None
    return [each for part in parts for each in part.made or [None] * len(part)]


def whole(batch: EventBatch, chunks: int = 1) -> EventBatch:
    """The batch with columns in one piece if they have more than these."""
    if isinstance(batch, ArrayBatch):
        return batch
    payload = batch.payload
    if isinstance(payload, pa.Table) and payload.num_columns:
        if payload.column(0).num_chunks <= chunks:
            return batch
        payload = payload.combine_chunks()
    return EventBatch(batch.ts, batch.codes, batch.types, payload)
