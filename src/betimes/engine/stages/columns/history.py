"""Events in the form that the compiled loop takes: handed out, and handled."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import NO_OUTPUTS, Outputs, Place
from betimes.engine.snapshots.weights import MADE
from betimes.engine.stages.handed import in_order as by_time
from betimes.engine.stages.tactic import Ints
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.model.stored import Int, shaped
from betimes.model.volumes import Kept
from betimes.patterns.kernel import ARRIVAL, KEY, NUMBER, TS

Floats = npt.NDArray[np.float64]


class Knows(Protocol):
    """Looks up events by number."""

    def find(self, numbers: Ints) -> EventBatch: ...

    def derived(self, number: int) -> tuple[str, Place] | None:
        """If another stage made it: the identity of the output, and its place."""

    @property
    def mixed(self) -> bool:
        """Whether there may be outputs of other stages among the events."""


class CodedEvents:
    """Events in order, in the form that the compiled loop takes."""

    __slots__ = ("_known", "events", "values")

    def __init__(self, events: Ints, values: Floats, known: Knows) -> None:
        self.events = events
        """Columns by the names of `patterns.kernel`: TS, ARRIVAL, KEY and so on."""
        self.values = values
        """What conditions compare of each."""
        self._known = known

    def __len__(self) -> int:
        return int(self.events.shape[1])

    @property
    def ts(self) -> Ints:
        times: Ints = self.events[TS]
        return times

    def place(self, row: int) -> Place:
        made = self._known.derived(int(self.events[NUMBER, row])) if self._known.mixed else None
        if made is not None:
            return made[1]
        return int(self.events[TS, row]), 0, int(self.events[ARRIVAL, row])

    def event(self, row: int) -> Event:
        (event,) = self._known.find(self.events[NUMBER, row : row + 1]).rows()
        return event

    def output(self, row: int) -> str | None:
        made = self._known.derived(int(self.events[NUMBER, row])) if self._known.mixed else None
        return None if made is None else made[0]

    def pick(self, rows: Ints) -> CodedEvents:
        events, values = self.events.take(rows, axis=1), self.values.take(rows, axis=1)
        return CodedEvents(events, values, self._known)

    def part(self, low: int, high: int) -> CodedEvents:
        return CodedEvents(self.events[:, low:high], self.values[:, low:high], self._known)

    def sorted(self) -> CodedEvents:
        """By place."""
        order = in_order(self.events, self.place if self._known.mixed else None)
        return self if order is None else self.pick(order)

    def count_before(self, place: Place) -> int:
        """How many of the sorted events come before a place."""
        ts, (time, rank, tie) = self.ts, place
        if not len(ts) or ts[0] > time:
            return 0
        if self._known.mixed:
            return bisect_left(range(len(self)), place, key=self.place)
        before = int(ts.searchsorted(time))
        if rank == 0:
            same = slice(before, int(ts.searchsorted(time, side="right")))
            before += int(self.events[ARRIVAL, same].searchsorted(tie))
        return before


def in_order(events: Ints, place: Callable[[int], Place] | None) -> Ints | None:
    """The order of events by place; None if they are in order. `place` decides at equal times."""
    ts = events[TS]
    if place is None:
        return by_time(ts, events[ARRIVAL])
    if (ts[1:] > ts[:-1]).all():
        return None
    order = np.argsort(ts, kind="stable")
    borders = np.flatnonzero(np.diff(ts[order])) + 1
    for low, high in zip([0, *borders.tolist()], [*borders.tolist(), len(ts)], strict=True):
        if high - low > 1:
            order[low:high] = sorted(order[low:high].tolist(), key=place)
    return order


class ColumnSegment(msgspec.Struct):
    """Events in order, what they made, and the state of each key before they touched it."""

    stamp: int
    start: Place
    """The place of the first event that was ever here."""
    events: Ints
    own: Floats
    undo: Ints
    outputs: list[Outputs] = []
    """What they made, in pieces; the key of each is its number."""
    kept: Kept | None = None
    """Where it was written to a checkpoint."""

    @property
    def weight(self) -> int:
        """About how many bytes it takes, without the payloads of its events."""
        arrays = int(self.events.nbytes + self.own.nbytes + self.undo.nbytes)
        return arrays + MADE * sum(map(len, self.outputs))

    def give_up(self, todo: npt.NDArray[np.bool_]) -> list[Outputs]:
        """Outputs of these keys are no longer held; return them."""
        gone, left = [], []
        for outputs in self.outputs:
            mine, others = _by_key(outputs, todo)
            if len(mine):
                gone.append(mine)
            if len(others):
                left.append(others)
        self.outputs = left
        return gone

    def extend(self, more: CodedEvents) -> None:
        """Add events that follow all others."""
        self.kept = None
        self.events = np.concatenate((self.events, more.events), axis=1)
        self.own = np.concatenate((self.own, more.values), axis=1)

    def insert(self, late: CodedEvents, known: Knows) -> None:
        """Add events at their places."""
        self.start = min(self.start, late.place(0))
        self.extend(late)
        both = CodedEvents(self.events, self.own, known).sorted()
        self.events, self.own = both.events, both.values

    def remove(self, number: int) -> int:
        """Remove an event; return its key."""
        (row,) = np.flatnonzero(self.events[NUMBER] == number).tolist()
        key = int(self.events[KEY, row])
        self.events = np.delete(self.events, row, axis=1)
        self.own = np.delete(self.own, row, axis=1)
        self.kept = None
        return key

    def state_of(self) -> tuple[Any, ...]:
        """Everything needed to resume elsewhere."""
        outputs = Outputs.concat(self.outputs).state_of()
        return self.stamp, self.start, self.events, self.own, self.undo, outputs

    @classmethod
    def resumed(cls, kept: tuple[Any, ...]) -> ColumnSegment:
        """What `state_of` kept."""
        shape = tuple[Int, Place, np.ndarray, np.ndarray, np.ndarray, list[Any]]
        stamp, start, events, own, undo, made = shaped(kept, shape, "history")
        outputs = Outputs.resumed(made)
        return cls(stamp, start, events, own, undo, [outputs] if len(outputs) else [])

    def numbered(self, low: int, *, mixed: bool) -> Ints:
        """The events from a row on as the compiled loop takes them.

        It compares places by time and arrival. With outputs of other stages among the events, that
        is not their order; then their numbers in the order of handling stand for the arrivals.
        """
        events = self.events[:, low:]
        if mixed:
            events = events.copy()
            events[ARRIVAL] = (self.stamp << 32) + np.arange(low, self.events.shape[1])
        return events


def _by_key(outputs: Outputs, wanted: npt.NDArray[np.bool_]) -> tuple[Outputs, Outputs]:
    """Those whose keys are wanted, and the others; few are looked at one by one."""
    if outputs.made_one_by_one:
        mine = [row for row in outputs.rows if wanted.item(row.key)]
        if not mine:
            return NO_OUTPUTS, outputs
        return Outputs.of(mine), Outputs.of([r for r in outputs.rows if not wanted.item(r.key)])
    flags = wanted[outputs.keys]
    return outputs.pick(np.flatnonzero(flags)), outputs.pick(np.flatnonzero(~flags))
