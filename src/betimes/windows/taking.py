"""What all compiled aggregates share: events in one order, as columns, and what is taken of them.

An event for which an expression fails is left out, in whatever order it comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from betimes.engine.news.outputs import Output, Outputs
from betimes.engine.snapshots.weights import ROW
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.slices.arriving import SlicesArriving
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.tactic import Ints, Setting
from betimes.windows.aggregates import Aggregate
from betimes.windows.operators import OperatorSpec
from betimes.windows.results import Results
from betimes.windows.timeline import PLAIN, TS, Timeline
from betimes.windows.values import Expressions

_PIECE = 4096
"""How many events are forgotten together, as far as a budget of memory is concerned."""


class Changed(NamedTuple):
    """The past of a key has changed."""

    ts: int
    key: int
    at: int
    """The arrival with which an event was taken back; -1 if one came late."""
    why: str


class AggregateArrivals(SlicesArriving):
    """Takes events in, and out again."""

    weighs = False

    def __init__(self, spec: OperatorSpec, setting: Setting, rows: int = PLAIN) -> None:
        super().__init__(setting)
        setting.retraction.reason = "compiled: only what has changed is published"
        assert isinstance(spec.given, Aggregate)
        self._expressions = Expressions(spec.given.columns)
        self._timeline = Timeline(len(self._expressions.texts), rows)
        self._results = Results(spec, self._expressions, self._timeline, setting)
        if not self._has_keys:
            self._keys.resume([None])
        self._passed = -1
        self._reach = -1
        self._taken_back: list[Changed] = []
        """Events that were taken out in this batch."""

    # Time

    @property
    def passed(self) -> int | None:
        return self._passed

    def let_pass(self, time: int) -> None:
        self._passed = max(self._passed, time)

    # Events

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:  # noqa: ARG002
        row = self._below.withdraw(output.id)
        if row is not None:
            return row
        key = self._timeline.remove(output.place)
        code = int(self._codes(Outputs.of([output]))[0]) if self._has_keys else 0
        self._setting.failures.mend(self._keys.values[code], output.place, output.place)
        if key is not None:
            event = output.event
            why = f"retracted {event.type} at {event.ts}"
            self._taken_back.append(Changed(event.ts, key, at, why))
        return None

    def _codes_of(self, events: Slice) -> Ints:
        """The keys of events."""
        return events.codes if self._has_keys else np.zeros(len(events), np.int64)

    def _numbers_of(self, events: Slice) -> list[Ints]:
        """What the timeline keeps of events beside their values."""
        return [events.ts, events.arrival, events.at, self._codes_of(events)]

    def _take_in(self, events: Slice) -> None:
        """Put events in their places, without those at which an expression fails."""
        if not len(events):
            return
        values = self._expressions.read(events.batch)
        numbers = np.stack(self._numbers_of(events))
        places = None if events.made is None else events.places(list(range(len(events))))
        if values.failed:
            codes = self._codes_of(events)
            for row, error in values.failed.items():
                self._fail(events, row, int(codes[row]), error)
            left = np.array([row for row in range(len(events)) if row not in values.failed], int)
            numbers, values.floats = numbers[:, left], values.floats[:, left]
            values.whole = values.whole[:, left]
            rows = left.tolist()
            values.objects = {n: [mine[r] for r in rows] for n, mine in values.objects.items()}
            places = None if places is None else [places[row] for row in rows]
        self._timeline.insert(numbers, values.floats, values.whole, values.objects, places)

    def _fail(self, events: Slice, row: int, code: int, error: Exception) -> None:
        name, event = self._setting.node.name, events.event(row)
        failure = DetectorFailed(
            f"detector {name!r} failed at {event!r}: {type(error).__name__}: {error}"
        )
        self._setting.failures.note(self._keys.values[code], events.place(row), failure)

    # Memory

    def history(self) -> list[tuple[int, int]]:
        ts, each = self._timeline.numbers[TS], ROW + 9 * len(self._expressions.texts)
        return [
            (ts.item(row), each * min(_PIECE, len(ts) - row)) for row in range(0, len(ts), _PIECE)
        ]

    @property
    def remembered(self) -> int:
        return len(self._timeline) - int(self._timeline.numbers[TS].searchsorted(self._reach))

    def snapshots(self) -> tuple[int, int]:
        return 0, 0
