"""Events in the form that the compiled loop takes: handed out, and handled."""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import Outputs, Place
from betimes.engine.stages.tactic import Ints
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.patterns.kernel import ARRIVAL, NUMBER, TS

Floats = npt.NDArray[np.float64]


class Finds(Protocol):
    """Looks up events by number."""

    def find(self, numbers: Ints) -> EventBatch: ...


class CodedEvents:
    """Events in order, in the form that the compiled loop takes."""

    __slots__ = ("_store", "events", "values")

    def __init__(self, events: Ints, values: Floats, store: Finds) -> None:
        self.events = events
        """Columns by the names of `patterns.kernel`: TS, ARRIVAL, KEY and so on."""
        self.values = values
        """What conditions compare of each."""
        self._store = store

    def __len__(self) -> int:
        return int(self.events.shape[1])

    @property
    def ts(self) -> Ints:
        times: Ints = self.events[TS]
        return times

    def place(self, row: int) -> Place:
        return int(self.events[TS, row]), 0, int(self.events[ARRIVAL, row])

    def event(self, row: int) -> Event:
        (event,) = self._store.find(self.events[NUMBER, row : row + 1]).rows()
        return event

    def output(self, row: int) -> str | None:  # noqa: ARG002 - all are input events
        return None

    def pick(self, rows: Ints) -> CodedEvents:
        return CodedEvents(self.events[:, rows], self.values[:, rows], self._store)

    def own(self) -> CodedEvents:
        return self

    def joined(self, more: CodedEvents) -> CodedEvents:
        events = np.concatenate((self.events, more.events), axis=1)
        return CodedEvents(events, np.concatenate((self.values, more.values), axis=1), self._store)

    def state_of(self) -> tuple[Ints, Floats]:
        """Everything needed to resume elsewhere."""
        return self.events, self.values

    def part(self, low: int, high: int) -> CodedEvents:
        return CodedEvents(self.events[:, low:high], self.values[:, low:high], self._store)


class ColumnSegment(msgspec.Struct):
    """Events in order, what they made, and the state of each key before they touched it."""

    stamp: int
    events: Ints
    own: Floats
    undo: Ints
    outputs: list[Outputs] = []
    """What they made, in pieces; the key of each is its number."""

    @property
    def first(self) -> tuple[int, int]:
        return int(self.events[TS, 0]), int(self.events[ARRIVAL, 0])

    def give_up(self, todo: npt.NDArray[np.bool_]) -> list[Outputs]:
        """Outputs of these keys are no longer held; return them."""
        gone, left = [], []
        for outputs in self.outputs:
            mine = todo[outputs.keys]
            gone.append(outputs.pick(np.flatnonzero(mine)))
            left.append(outputs.pick(np.flatnonzero(~mine)))
        self.outputs = [outputs for outputs in left if len(outputs)]
        return gone

    def keep(self, old: Outputs, stays: dict[str, int]) -> None:
        """Hold outputs as they were, where they came again; `stays` has their rows."""
        kept = []
        for outputs in self.outputs:
            again = [row for row, match in enumerate(outputs.ids) if match in stays]
            if again:
                rows = [stays[outputs.ids[row]] for row in again]
                others = np.delete(np.arange(len(outputs)), again)
                kept += [outputs.pick(others), old.pick(np.array(rows, np.int64))]
            else:
                kept.append(outputs)
        self.outputs = [outputs for outputs in kept if len(outputs)]

    def extend(self, more: CodedEvents) -> None:
        """Add events that follow all others."""
        self.events = np.concatenate((self.events, more.events), axis=1)
        self.own = np.concatenate((self.own, more.values), axis=1)

    def insert(self, late: CodedEvents) -> None:
        """Add events at their places."""
        self.extend(late)
        order = np.lexsort((self.events[ARRIVAL], self.events[TS]))
        self.events, self.own = self.events[:, order], self.own[:, order]
