"""Events as columns on their way through a stage: while they wait, and in order."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pyarrow as pa

from betimes.engine.news.news import Output, Place
from betimes.engine.stages.tactic import NOTHING, Ints
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.model.payloads import read, written

_CHUNKS = 4
"""Arrow columns with more pieces are joined: a look-up has to ask each piece."""


class Slice:
    """Events in order, with their arrival numbers and the arrivals of their release."""

    __slots__ = ("arrival", "at", "batch", "codes")

    def __init__(self, batch: EventBatch, arrival: Ints, at: Ints, codes: Ints = NOTHING) -> None:
        self.batch = batch
        self.arrival = arrival
        self.at = at
        self.codes = codes
        """Their keys, while they are handed out."""

    def __len__(self) -> int:
        return len(self.arrival)

    def place(self, row: int) -> Place:
        return int(self.batch.ts[row]), 0, int(self.arrival[row])

    @property
    def ts(self) -> Ints:
        return self.batch.ts

    def event(self, row: int) -> Event:
        return self.batch[row]

    def output(self, row: int) -> Output | None:  # noqa: ARG002 - all are input events
        return None

    def places(self, rows: list[int]) -> list[Place]:
        ts, arrival = self.batch.ts[rows].tolist(), self.arrival[rows].tolist()
        return [(time, 0, number) for time, number in zip(ts, arrival, strict=True)]

    def causes(self, rows: list[int]) -> list[Event]:
        """The events of these rows, with only their types and times."""
        batch = self.batch
        codes, ts = batch.codes[rows].tolist(), batch.ts[rows].tolist()
        return [Event(batch.types[code], time) for code, time in zip(codes, ts, strict=True)]

    def part(self, low: int, high: int) -> Slice:
        if low == 0 and high == len(self):
            return self
        arrival, at, codes = self.arrival[low:high], self.at[low:high], self.codes[low:high]
        return Slice(self.batch.part(low, high), arrival, at, codes)

    def take(self, rows: Ints) -> Slice:
        return Slice(self.batch.take(rows), self.arrival[rows], self.at[rows])

    def pick(self, rows: Ints) -> Slice:
        batch = whole(self.batch.take(rows))
        return Slice(batch, self.arrival[rows], self.at[rows], self.codes[rows])

    def own(self) -> Slice:
        return self

    def joined(self, more: Slice) -> Slice:
        batch = EventBatch.concat([self.batch, more.batch])
        payload = batch.payload
        if isinstance(payload, pa.Table) and payload.column(0).num_chunks > _CHUNKS:
            batch = whole(batch)
        return Slice(
            batch,
            np.concatenate((self.arrival, more.arrival)),
            np.concatenate((self.at, more.at)),
            np.concatenate((self.codes, more.codes)),
        )

    def count_before(self, place: Place) -> int:
        """How many of the events come before a place."""
        if not len(self) or self.batch.ts[0] > place[0]:
            return 0
        return bisect_left(range(len(self)), place, key=self.place)

    def sorted(self) -> Slice:
        """By place."""
        ts = self.batch.ts
        order = np.argsort(ts, kind="stable")
        ts, arrival = ts[order], self.arrival[order]
        if ((ts[1:] == ts[:-1]) & (arrival[1:] < arrival[:-1])).any():
            order = np.lexsort((self.arrival, self.batch.ts))
        return self.take(order)

    @staticmethod
    def join(parts: list[Slice]) -> Slice:
        """Concatenate."""
        if len(parts) == 1:
            return parts[0]
        return Slice(
            whole(EventBatch.concat([part.batch for part in parts])),
            np.concatenate([part.arrival for part in parts]),
            np.concatenate([part.at for part in parts]),
        )

    def state_of(self) -> tuple[Any, ...]:
        """Everything needed to resume elsewhere."""
        batch = self.batch
        payload = written(batch.payload)
        return batch.ts, batch.codes, batch.types, payload, self.arrival, self.at, self.codes

    @classmethod
    def resumed(cls, kept: tuple[Any, ...]) -> Slice:
        ts, codes, types, payload, *numbers = kept
        return cls(EventBatch(ts, codes, tuple(types), read(payload)), *numbers)


def whole(batch: EventBatch) -> EventBatch:
    """The batch with columns in one piece, which can be read as arrays without copying."""
    payload = batch.payload
    if isinstance(payload, pa.Table) and payload.num_columns and payload.column(0).num_chunks != 1:
        payload = payload.combine_chunks()
    return EventBatch(batch.ts, batch.codes, batch.types, payload)
