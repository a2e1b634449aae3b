"""Events in the form that the compiled loop takes: handed out, and handled."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import NO_OUTPUTS, Output, Outputs, Place
from betimes.engine.snapshots.segments import Weighed
from betimes.engine.snapshots.weights import MADE
from betimes.engine.stages.handed import in_order as by_time
from betimes.engine.stages.tactic import Ints
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.model.stored import Int, shaped
from betimes.patterns.kernel import ARRIVAL, KEY, NUMBER, TS

Floats = npt.NDArray[np.float64]


class Derives(Protocol):
    """Knows which events other stages made."""

    def place_of(self, number: int) -> Place | None:
        """The place of an event, if another stage made it."""

    def id_of(self, number: int) -> str | None:
        """Its identity, if another stage made it."""


class Knows(Protocol):
    """Looks up events by number."""

    def find(self, numbers: Ints) -> EventBatch: ...

    @property
    def mixed(self) -> bool:
        """Whether there may be outputs of other stages among the events."""

    @property
    def derived(self) -> Derives:
        """Which of them these are."""


class CodedEvents:
    """Events in order, in the form that the compiled loop takes."""

    __slots__ = ("_events", "_known", "_values")

    def __init__(self, events: Ints | None, values: Floats | None, known: Knows) -> None:
        self._events = events
        self._values = values
        self._known = known

    def _look(self) -> tuple[Ints, Floats]:
        assert self._events is not None
        assert self._values is not None
        return self._events, self._values

    @property
    def events(self) -> Ints:
        """Columns by the names of `patterns.kernel`: TS, ARRIVAL, KEY and so on."""
        return self._look()[0] if self._events is None else self._events

    @property
    def values(self) -> Floats:
        """What conditions compare of each."""
        return self._look()[1] if self._values is None else self._values

    def __len__(self) -> int:
        return int(self.events.shape[1])

    @property
    def ts(self) -> Ints:
        times: Ints = self.events[TS]
        return times

    def place(self, row: int) -> Place:
        made = (
            self._known.derived.place_of(self.events.item(NUMBER, row))
            if self._known.mixed
            else None
        )
        if made is not None:
            return made
        return self.events.item(TS, row), 0, self.events.item(ARRIVAL, row)

    def event(self, row: int) -> Event:
        (event,) = self._known.find(self.events[NUMBER, row : row + 1]).rows()
        return event

    def output(self, row: int) -> str | None:
        return (
            self._known.derived.id_of(self.events.item(NUMBER, row)) if self._known.mixed else None
        )

    def pick(self, rows: Ints) -> CodedEvents:
        events, values = self.events.take(rows, axis=1), self.values.take(rows, axis=1)
        return CodedEvents(events, values, self._known)

    def part(self, low: int, high: int) -> CodedEvents:
        if low == 0 and high == len(self):
            return self
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


class ColumnSegment(Weighed):
    """Events in order, what they made, and the state of each key before they touched it.

    The arrays have room for more, because most segments are continued by the batches that follow.
    """

    __slots__ = ("_events", "_log", "_logged", "_own", "outputs", "size", "stamp", "start")

    def __init__(self, stamp: int, start: Place, events: Ints, own: Floats, undo: Ints) -> None:
        super().__init__()
        self.stamp = stamp
        self.start = start
        """The place of the first event that was ever here."""
        self.set_events(events, own)
        self.undo = undo
        self.outputs: list[Outputs] = []
        """What they made, in pieces; the key of each is its number."""

    @property
    def events(self) -> Ints:
        return self._events[:, : self.size]

    @property
    def own(self) -> Floats:
        """What conditions compare of each."""
        return self._own[:, : self.size]

    def set_events(self, events: Ints, own: Floats) -> None:
        """Have these events, and no others."""
        self._events, self._own, self.size = events, own, int(events.shape[1])

    @property
    def undo(self) -> Ints:
        """The states of keys before they were touched."""
        return self._log[:, : self._logged]

    @undo.setter
    def undo(self, log: Ints) -> None:
        self._log, self._logged = log, int(log.shape[1])

    def log(self, undo: Ints) -> None:
        """More keys were touched."""
        count = undo.shape[1]
        if count:
            before, self._logged = self._logged, self._logged + count
            self._log = with_room(self._log, before, self._logged)
            self._log[:, before : self._logged] = undo
            self.kept = None

    def make_room(self, more: int) -> tuple[Ints, Floats]:
        """The arrays of events and values, with room for more behind the last."""
        self._events = with_room(self._events, self.size, self.size + more)
        self._own = with_room(self._own, self.size, self.size + more)
        return self._events, self._own

    def trim(self) -> None:
        """Give back the room for more: other segments follow."""
        if self._events.shape[1] > self.size:
            self._events, self._own = self.events.copy(), self.own.copy()
        if self._log.shape[1] > self._logged:
            self._log = self.undo.copy()

    def _weigh(self) -> int:
        """Without the payloads of its events."""
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
        low, high = self.size, self.size + len(more)
        events, own = self.make_room(len(more))
        events[:, low:high], own[:, low:high] = more.events, more.values
        self.size = high

    def insert(self, late: CodedEvents, known: Knows) -> None:
        """Add events at their places."""
        self.start = min(self.start, late.place(0))
        self.extend(late)
        both = CodedEvents(self.events, self.own, known)
        ordered = both.sorted()
        if ordered is not both:
            self.set_events(ordered.events, ordered.values)

    def remove(self, output: Output, known: Knows) -> int | None:
        """Remove what another stage made; return its key, or None if it is not here."""
        times, ts = self.events[TS], output.event.ts
        low, high = int(times.searchsorted(ts)), int(times.searchsorted(ts, side="right"))
        numbers = self.events[NUMBER, low:high].tolist()
        row = next(
            (low + n for n, each in enumerate(numbers) if known.derived.id_of(each) == output.id),
            -1,
        )
        if row < 0:
            return None
        key = self.events.item(KEY, row)
        self.set_events(np.delete(self.events, row, axis=1), np.delete(self.own, row, axis=1))
        self.kept = None
        return key

    def state_of(self) -> tuple[Any, ...]:
        """Everything needed to resume elsewhere."""
        outputs = Outputs.concat(self.outputs).state_of()
        events, own, undo = self.events.copy(), self.own.copy(), self.undo.copy()
        return self.stamp, self.start, events, own, undo, outputs

    @classmethod
    def resumed(cls, kept: tuple[Any, ...]) -> ColumnSegment:
        """What `state_of` kept."""
        shape = tuple[Int, Place, np.ndarray, np.ndarray, np.ndarray, list[Any]]
        stamp, start, events, own, undo, made = shaped(kept, shape, "history")
        outputs = Outputs.resumed(made)
        self = cls(stamp, start, events, own, undo)
        if len(outputs):
            self.outputs.append(outputs)
        return self

    def numbered(self, low: int) -> Ints:
        """The events from a row on, with their numbers in the order of handling as arrivals.

        The compiled loop compares places by time and arrival. With outputs of other stages among
        the events, that is not their order.
        """
        events = self.events[:, low:].copy()
        events[ARRIVAL] = (self.stamp << 32) + np.arange(low, self.size)
        return events

    def place(self, row: int) -> Place:
        """The place of an event, if all of them are input events."""
        return self._events.item(TS, row), 0, self._events.item(ARRIVAL, row)


def with_room(array: npt.NDArray[Any], used: int, need: int) -> npt.NDArray[Any]:
    """The array, or a larger one with its first columns; whatever grows again gets more room."""
    if need <= array.shape[1]:
        return array
    grown = np.empty((array.shape[0], 2 * need if used else need), array.dtype)
    grown[:, :used] = array[:, :used]
    return grown


def _by_key(outputs: Outputs, wanted: npt.NDArray[np.bool_]) -> tuple[Outputs, Outputs]:
    """Those whose keys are wanted, and the others; few are looked at one by one."""
    if outputs.made_one_by_one:
        mine = [row for row in outputs.rows if wanted.item(row.key)]
        if not mine:
            return NO_OUTPUTS, outputs
        return Outputs.of(mine), Outputs.of([r for r in outputs.rows if not wanted.item(r.key)])
    flags = wanted[outputs.keys]
    return outputs.pick(np.flatnonzero(flags)), outputs.pick(np.flatnonzero(~flags))
