"""Committing matches: what a compiled pattern has found becomes outputs.

Few outputs become rows, many become columns; both say the same.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from betimes.engine.news.digests import encode
from betimes.engine.news.making import FEW
from betimes.engine.news.outputs import NO_OUTPUTS, TIME, Outputs, Place, Places
from betimes.engine.reading.keys import Keys
from betimes.engine.stages.columns.below import Known
from betimes.engine.stages.columns.shaper import Shaper
from betimes.engine.stages.columns.shelves import TS as SHELF_TS
from betimes.engine.stages.columns.shelves import TYPE as SHELF_TYPE
from betimes.engine.stages.tactic import Ints, Setting
from betimes.model.arrays import ArrayBatch
from betimes.model.batch import EventBatch
from betimes.model.coded import Coded
from betimes.model.event import Event
from betimes.patterns import kernel
from betimes.patterns.compiled import Program
from betimes.patterns.kernel import ARRIVAL, KEY, NUMBER, TS

_CAUSE = np.array([TS, NUMBER, KEY, ARRIVAL])
"""What tells the places of causes apart."""


class Committing:
    """Makes the outputs of one pattern from its matches."""

    def __init__(self, setting: Setting, program: Program, store: Known, keys: Keys) -> None:
        pattern = setting.node.pattern
        assert pattern is not None
        self._type, shape = pattern.shapes()["match"]
        self._outputs = setting.outputs
        self._program = program
        self._store = store
        self._keys = keys
        self._shaper = Shaper(pattern, program, shape)

    def commit(self, matches: Ints, handled: Ints) -> Outputs:
        """The outputs of matches that these events completed."""
        count = matches.shape[1]
        if not count:
            return NO_OUTPUTS
        return (self._few if count < FEW else self._many)(matches, handled)

    def payloads(self, matches: Ints) -> list[dict[str, Any]] | pa.Table:
        """The payloads of matches."""
        return self._shaper.payloads(self._bound(matches[kernel.EVENTS :]))

    def place(self, ts: int, number: int, key: int, arrival: int) -> Place:
        """The place of a cause: an input event, an output of another stage, or time."""
        if number < 0:
            return ts, TIME, encode(self._keys.values[key])
        made = self._store.derived.place_of(number) if self._store.mixed else None
        return (ts, 0, arrival) if made is None else made

    # Few

    def _few(self, matches: Ints, handled: Ints) -> Outputs:
        numbers, count = matches[kernel.EVENTS :], matches.shape[1]
        told = handled.take(matches[kernel.TOLD], axis=1)
        each = told.tolist()
        codes = each[KEY]
        shelf, identities = self._store.numbers(numbers), None
        plan = None if shelf is None else self._shaper.plan(shelf.schema)
        if shelf is not None and plan is not None and not plan.huge:
            rows, identities = self._outputs.identify(
                self._type, plan.names, plan.kinds, shelf.words(), numbers, plan.fields,
                self._keys.values, told[KEY],
            )  # fmt: skip
            times, kinds, payloads = plan.taken_apart(rows)
            types = [shelf.types[code] for code in kinds]
            events = [*map(Event, [self._type] * count, times, payloads)]
        else:
            every, steps = self._store.rows(numbers.T.ravel()), len(self._program.steps)
            bound = [every[low : low + steps] for low in range(0, len(every), steps)]
            types = [match[-1].type for match in bound]
            events = [Event(self._type, b[-1].ts, self._shaper.payload(b)) for b in bound]
        seen = matches[kernel.NEWEST].tolist()
        causes: list[Place]
        if self._store.mixed:
            causes = [*map(self.place, each[TS], each[NUMBER], codes, each[ARRIVAL])]
        else:
            causes = [*zip(each[TS], repeat(0), each[ARRIVAL])]
        if not self._program.uniform:
            types = self._tellers(told, matches[kernel.DUE]).spelled()
            for row, due in enumerate(matches[kernel.DUE].tolist()):
                if due >= 0:
                    causes[row] = self.place(due, -1, codes[row], -1)
                    seen[row] = max(self._outputs.path.reaches(due), seen[row])
        return self._outputs.make_few(
            events, causes, types, seen, self._keys.values, codes, identities
        )

    # Many

    def _many(self, matches: Ints, handled: Ints) -> Outputs:
        told = handled.take(matches[kernel.TOLD], axis=1)
        events, types = self._events(matches[kernel.EVENTS :])
        due, at = matches[kernel.DUE], matches[kernel.NEWEST]
        if not self._program.uniform:
            types = self._tellers(told, due)
        timed = np.flatnonzero(due >= 0)
        causes = told.take(_CAUSE, axis=0)
        if len(timed):
            when = due[timed]
            at[timed] = np.maximum(self._outputs.path.reaches_all(when), at[timed])
            causes[0, timed], causes[1, timed], causes[3, timed] = when, -1, -1
        arrivals = None if self._store.mixed or len(timed) else told[ARRIVAL]
        values, codes = self._keys.values, told[KEY]
        return self._outputs.make_columns(
            events, causes, self._places(causes), types, at, values, codes, arrivals
        )

    def _events(self, numbers: Ints) -> tuple[EventBatch, Coded]:
        """Matches as events, and the types of their last ones."""
        kind, code = (self._type,), np.zeros(numbers.shape[1], np.int32)
        block = self._store.block(numbers)
        plan = None if block is None else self._shaper.plan(block.schema)
        if block is not None and plan is not None:
            arrays, ts = plan.arrays(plan.values(block.rows)), block.rows[SHELF_TS, -1]
            types = Coded(block.rows[SHELF_TYPE, -1], [*block.types])
            return ArrayBatch(ts, code, kind, arrays, plan.schema), types
        bound = self._bound(numbers)
        payload = self._shaper.payloads(bound)
        last = bound[-1]
        types = Coded(last.codes.astype(np.int64), [*last.types])
        return EventBatch(last.ts, code, kind, payload), types

    def _bound(self, numbers: Ints) -> list[EventBatch]:
        """The events that are bound to each step."""
        if self._store.mixed and not self._store.alike(numbers):
            return [self._store.find(step) for step in numbers]
        every, count = self._store.find(numbers.ravel()), numbers.shape[1]
        return [every.part(low, low + count) for low in range(0, len(every), count)]

    def _places(self, causes: Ints) -> Places:
        if not self._store.mixed:
            return lambda: [self.place(*cause) for cause in zip(*causes.tolist(), strict=True)]
        derived = self._store.derived.among(causes[1])

        def spelled() -> list[Place]:
            times, numbers, keys, arrivals = causes.tolist()
            values, known = self._keys.values, derived.places_of(numbers)
            return [
                made or ((ts, 0, at) if number >= 0 else (ts, TIME, encode(values[key])))
                for ts, number, key, at, made in zip(times, numbers, keys, arrivals, known)  # noqa: B905
            ]

        return spelled

    def _tellers(self, told: Ints, due: Ints) -> Coded:
        """The types of what completed matches: an event, or time."""
        rows, codes = np.flatnonzero(due < 0), np.zeros(len(due), np.int64)
        types: tuple[str, ...] = ()
        if len(rows):
            numbers = told[NUMBER, rows]
            block = self._store.block(numbers)
            if block is None:
                events = self._store.find(numbers)
                types, codes[rows] = events.types, events.codes + 1
            else:
                types, codes[rows] = block.types, block.rows[SHELF_TYPE] + 1
        return Coded(codes, ["time", *types])
