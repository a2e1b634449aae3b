"""Arrivals as rows: which events arrive, what waits, what is handed out, by key.

Tactics whose detectors get events one by one share this; they differ in how events are handled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.engine.news.outputs import Output
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.from_below import FromBelow
from betimes.engine.stages.rows.history import EventRows
from betimes.engine.stages.tactic import Ints, Joined, Setting
from betimes.engine.stages.waiting import WaitingRoom
from betimes.model.batch import pick
from betimes.model.coded import keys_of
from betimes.model.event import Event
from betimes.model.stored import shaped
from betimes.model.unmade import Events, payloads_of
from betimes.ordering.clock import EVERY


class RowArrivals:
    """What arrives at a stage whose detectors get events as objects, until it is handed out."""

    reads_rows = True

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._waiting = WaitingRoom(EventRows.nothing(), EventRows.join)
        self._below = FromBelow()
        self._has_keys = setting.node.by is not None or setting.grouped

    def read(self, inputs: Inputs) -> Arrivals:
        on, sees = self._setting.masks(inputs.batch.types)
        if True not in on:
            return inputs.clock_only(sees)
        part, at = inputs.columns(sees)
        events, groups = inputs.events(on), inputs.groups_of(on)
        keys = self._keys(events, None if groups is None else groups.spelled())
        return Arrivals(part, at, inputs.among(on, sees), events, keys, inputs.event_at(at))

    def join(self, arrivals: Arrivals, joined: Joined) -> Arrivals:
        made = dict(zip(joined.now.tolist(), joined.outputs.rows, strict=True))
        mine, events = list(made), [output.event for output in made.values()]
        keys = [self._key(output) for output in made.values()] if self._has_keys else None
        if len(arrivals.events):
            mine = joined.was[arrivals.wanted].tolist() + mine
            events = [*arrivals.events, *events]
            keys = None if keys is None or arrivals.keys is None else arrivals.keys + keys
        order = sorted(range(len(mine)), key=mine.__getitem__)

        def event(index: int) -> Event:
            known = made.get(index)
            return known.event if known else arrivals.event(int(joined.was.searchsorted(index)))

        return Arrivals(
            joined.batch, joined.at, np.array(pick(mine, order), np.int64), pick(events, order),
            None if keys is None else pick(keys, order), event, (joined.now, joined.outputs),
        )  # fmt: skip

    def _keys(self, events: Events, groups: list[Any] | None) -> list[Any] | None:
        """The keys of events that the detector takes; `groups` are the engine's keys."""
        node = self._setting.node
        by = node.by
        if by is None:
            return groups
        if not len(events):
            return []
        if EVERY in node.on:
            keys = [payload.get(by) for payload in payloads_of(events)]
        elif node.keyless:
            lacking = {by: None}
            keys = keys_of(
                [Event(e.type, e.ts, lacking | e.payload) if node.may_lack_key(e.type) else e
                 for e in events],
                by, f"detector {node.name!r}",
            )  # fmt: skip
        else:
            keys = keys_of(events, by, f"detector {node.name!r}")
        return keys if groups is None else list(zip(groups, keys, strict=True))

    def _key(self, output: Output) -> Any:
        """The key that an output of another stage belongs to."""
        keys = self._keys([output.event], [output.group] if self._setting.grouped else None)
        return None if keys is None else keys[0]

    def put(self, row: int, arrivals: Arrivals) -> None:
        wanted, at = arrivals.wanted, arrivals.at
        if not len(wanted):
            return
        ts = arrivals.batch.ts
        if len(wanted) < len(ts):
            ts, at = ts[wanted], at[wanted]
        waiting = EventRows(ts, None, at, arrivals.events, at, arrivals.keys)
        self._waiting.put(row + wanted, waiting)
        if arrivals.below is not None:
            now, outputs = arrivals.below
            self._below.put(row + now, outputs)

    def take(self, rows: Ints, ts: Ints, at: Ints) -> tuple[EventRows, Ints]:  # noqa: ARG002
        taken = self._waiting.take(rows)
        taken.at = at
        for index, (match, place) in self._below.hand_out(rows).items():
            # It has its own place.
            rank, tie = taken.with_ranks().rank, taken.tie
            assert isinstance(rank, list)
            assert isinstance(tie, list)
            _, rank[index], tie[index] = place
            taken.outputs[index] = match
        return taken, rows

    def tidy(self, held: Ints) -> None:
        self._waiting.trim(held)

    def parts(self) -> dict[str, dict[str, float]]:
        return {}

    def _arrivals_kept(self) -> dict[str, Any]:
        """What waits, as data."""
        return {"waiting": self._waiting.state_of(), "below": self._below.state_of()}

    def _resume_arrivals(self, kept: dict[str, Any]) -> None:
        rows, events = shaped(kept["waiting"], tuple[Any, Any], "what waits")
        self._waiting.resume(rows, None if events is None else EventRows.resumed(events))
        self._below.resume(kept["below"])
