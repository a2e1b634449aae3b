"""Events as columns on their way through a stage: while they wait, and in order."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pyarrow as pa

from betimes.engine.news.news import Output, Place
from betimes.engine.reading.payloads import read, written
from betimes.engine.stages.tactic import NOTHING, Ints
from betimes.model.batch import EventBatch
from betimes.model.event import Event

_SPARE = 4096
"""Up to this many events more than needed are kept, so that dropping them is rare."""
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
        return Slice(self.batch.part(low, high), self.arrival[low:high], self.at[low:high])

    def take(self, rows: Ints) -> Slice:
        return Slice(self.batch.take(rows), self.arrival[rows], self.at[rows])

    def pick(self, rows: list[int]) -> Slice:
        numbers = np.array(rows, np.int64)
        picked = self.take(numbers)
        picked.codes = self.codes[numbers]
        return picked

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
        return *_written(self.batch), self.arrival, self.at

    @classmethod
    def resumed(cls, kept: tuple[Any, ...]) -> Slice:
        *batch, arrival, at = kept
        return cls(_read(batch), arrival, at)


class WaitingSlices:
    """Events by the ordering unit's row numbers, until they are handed out."""

    def __init__(self) -> None:
        self._numbers = np.empty((3, 0), np.int64)
        """Row numbers (increasing), arrival numbers and keys."""
        self._left = np.empty(0, np.bool_)
        """Which of them have not been handed out yet."""
        self._batch: EventBatch | None = None

    def put(self, rows: Ints, arrival: Ints, keys: Ints, batch: EventBatch) -> None:
        """Keep events."""
        if not len(rows):
            return
        if self._batch is not None:
            batch = EventBatch.concat([self._batch, batch])
            payload = batch.payload
            if isinstance(payload, pa.Table) and payload.column(0).num_chunks > _CHUNKS:
                batch = whole(batch)
        self._numbers = np.concatenate((self._numbers, (rows, arrival, keys)), axis=1)
        left = np.ones(len(batch), np.bool_)
        left[: len(self._left)] = self._left
        self._left, self._batch = left, batch

    def take(self, rows: Ints) -> tuple[EventBatch, Ints, Ints]:
        """Hand out events, with their arrival numbers and keys."""
        if self._batch is None or not len(rows):
            return EventBatch.concat([]), NOTHING, NOTHING
        index = self._numbers[0].searchsorted(rows)
        self._left[index] = False
        return whole(self._batch.take(index)), self._numbers[1, index], self._numbers[2, index]

    def drop(self, rows: Ints) -> None:
        """Forget events that will not be handed out, if they are known."""
        self._left[np.isin(self._numbers[0], rows)] = False

    def tidy(self) -> None:
        """Drop what was handed out, once it is the larger part."""
        count = np.count_nonzero(self._left)
        if self._batch is None or len(self._left) <= 2 * count + _SPARE:
            return
        left = np.flatnonzero(self._left)
        self._numbers = self._numbers[:, left]
        self._left = np.ones(len(left), np.bool_)
        self._batch = whole(self._batch.take(left)) if len(left) else None

    def state_of(self) -> Any:
        """Everything needed to resume elsewhere."""
        if self._batch is None:
            return None
        return self._numbers, self._left, *_written(self._batch)

    def resume(self, kept: Any) -> None:
        """Resume from what `state_of` kept."""
        if kept is not None:
            self._numbers, self._left, *batch = kept
            self._batch = _read(batch)


def whole(batch: EventBatch) -> EventBatch:
    """The batch with columns in one piece, which can be read as arrays without copying."""
    payload = batch.payload
    if isinstance(payload, pa.Table) and payload.num_columns and payload.column(0).num_chunks != 1:
        payload = payload.combine_chunks()
    return EventBatch(batch.ts, batch.codes, batch.types, payload)


def _written(batch: EventBatch) -> tuple[Any, ...]:
    return batch.ts, batch.codes, batch.types, written(batch.payload)


def _read(kept: list[Any]) -> EventBatch:
    ts, codes, types, payload = kept
    return EventBatch(ts, codes, tuple(types), read(payload))
