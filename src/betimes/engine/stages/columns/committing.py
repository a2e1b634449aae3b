"""Committing matches: what a compiled pattern has found becomes outputs.

Few matches become rows, many become columns; both say the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from betimes.engine.news.digests import encode
from betimes.engine.news.making import FEW
from betimes.engine.news.outputs import NO_OUTPUTS, TIME, Outputs, Place, Places
from betimes.engine.reading.keys import Keys
from betimes.engine.stages.columns.below import Known
from betimes.engine.stages.columns.shaper import Shaper
from betimes.engine.stages.tactic import Ints, Setting
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.patterns import kernel
from betimes.patterns.compiled import Program
from betimes.patterns.kernel import ARRIVAL, KEY, NUMBER, TS


class Committing:
    """Makes the outputs of one pattern from its matches."""

    def __init__(self, setting: Setting, program: Program, store: Known, keys: Keys) -> None:
        pattern = setting.node.pattern
        assert pattern is not None
        self._type, _ = pattern.shapes()["match"]
        self._outputs = setting.outputs
        self._program = program
        self._store = store
        self._keys = keys
        self._shaper = Shaper(pattern, program)

    def commit(self, matches: Ints, handled: Ints) -> Outputs:
        """The outputs of matches that these events completed."""
        count = matches.shape[1]
        if not count:
            return NO_OUTPUTS
        return (self._rows if count < FEW else self._columns)(matches, handled)

    def payloads(self, matches: Ints) -> list[dict[str, Any]] | pa.Table:
        """The payloads of matches."""
        return self._shaper.payloads(self._bound(matches[kernel.EVENTS :]))

    def place(self, ts: int, number: int, key: int, arrival: int) -> Place:
        """The place of a cause: an input event, an output of another stage, or time."""
        if number < 0:
            return ts, TIME, encode(self._keys.values[key])
        made = self._store.derived(number) if self._store.mixed else None
        return (ts, 0, arrival) if made is None else made[1]

    # Many

    def _columns(self, matches: Ints, handled: Ints) -> Outputs:
        count, told = matches.shape[1], handled.take(matches[kernel.TOLD], axis=1)
        bound = self._bound(matches[kernel.EVENTS :])
        last, due, at = bound[-1], matches[kernel.DUE], matches[kernel.NEWEST]
        types = last.type_names() if self._program.uniform else self._tellers(told, due)
        timed = due >= 0
        causes = told[[TS, NUMBER, KEY, ARRIVAL]]
        if timed.any():
            for number in np.flatnonzero(timed).tolist():
                at[number] = max(self._outputs.path.reaches(int(due[number])), int(at[number]))
            nobody = np.full(count, -1)
            causes = np.where(timed, np.stack((due, nobody, told[KEY], nobody)), causes)
        places = self._places(causes)
        payload = self._shaper.payloads(bound)
        events = EventBatch(last.ts, np.zeros(count, np.int32), (self._type,), payload)
        arrivals = None if self._store.mixed or timed.any() else told[ARRIVAL]
        values, codes = self._keys.values, told[KEY]
        return self._outputs.make_columns(
            events, causes, places, types, at, values, codes, arrivals
        )

    def _bound(self, numbers: Ints) -> list[EventBatch]:
        """The events that are bound to each step."""
        if self._store.mixed and not self._store.alike(numbers):
            return [self._store.find(step) for step in numbers]
        every, count = self._store.find(numbers.ravel()), numbers.shape[1]
        return [every.part(low, low + count) for low in range(0, len(every), count)]

    def _places(self, causes: Ints) -> Places:
        def spelled() -> list[Place]:
            return [self.place(*cause) for cause in zip(*causes.tolist(), strict=True)]

        # With other stages, at once: what is taken back later has no place any more.
        return spelled() if self._store.mixed else spelled

    def _tellers(self, told: Ints, due: Ints) -> list[str]:
        """The types of what completed matches: an event, or time."""
        found = ["time"] * len(due)
        rows = np.flatnonzero(due < 0)
        if len(rows):
            names = self._store.find(told[NUMBER, rows]).type_names()
            for row, name in zip(rows.tolist(), names, strict=True):
                found[row] = name
        return found

    # Few

    def _rows(self, matches: Ints, handled: Ints) -> Outputs:
        steps, store = len(self._program.steps), self._store
        every = store.rows(matches[kernel.EVENTS :].T.ravel())
        causes, types, seen, codes, events = [], [], [], [], []
        rows = zip(
            matches[: kernel.EVENTS].T.tolist(),
            handled[:, matches[kernel.TOLD]].T.tolist(),
            strict=True,
        )
        for n, ((_, due, at), told) in enumerate(rows):
            bound = every[n * steps : (n + 1) * steps]
            ts, number, key, arrival = told[TS], told[NUMBER], told[KEY], told[ARRIVAL]
            last = bound[-1]
            if due >= 0:
                ts, number, kind = due, -1, "time"
                at = max(self._outputs.path.reaches(due), at)
            elif self._program.uniform:
                kind = last.type
            else:
                kind = store.rows(np.array([number]))[0].type
            causes.append(self.place(ts, number, key, arrival))
            types.append(kind)
            seen.append(at)
            codes.append(key)
            events.append(Event(self._type, last.ts, self._shaper.payload(bound)))
        return self._outputs.make_few(events, causes, types, seen, self._keys.values, codes)
