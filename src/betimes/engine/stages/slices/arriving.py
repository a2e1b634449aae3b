"""Arrivals as slices of columns: which events arrive, what waits, what is handed out, by key.

Tactics that handle events as columns of their payload share this; they differ in how they do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from betimes.engine.news.outputs import Outputs
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs, selected
from betimes.engine.reading.keys import Keys, has_column, key_codes
from betimes.engine.stages.from_below import FromBelow, Made
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.tactic import NOTHING, Ints, Joined, Setting
from betimes.engine.stages.waiting import WaitingRoom
from betimes.model.arrays import concat, in_arrays
from betimes.model.batch import EventBatch
from betimes.model.coded import Coded
from betimes.model.event import Event
from betimes.model.stored import shaped


class SliceArrivals(Arrivals):
    """What arrives at a stage of a per-batch detector: columns for the unit and for it."""

    __slots__ = ("codes", "part")

    def __init__(
        self,
        batch: EventBatch,
        at: Ints,
        wanted: Ints,
        part: EventBatch,
        codes: Ints,
        event: Callable[[int], Event],
        below: tuple[Ints, Outputs] | None = None,
    ) -> None:
        super().__init__(batch, at, wanted, [], None, event, below)
        self.part = part
        """The events that the detector takes."""
        self.codes = codes
        """Their keys."""


class SlicesArriving:
    """What arrives at a stage whose detectors get events as columns, until it is handed out."""

    reads_rows = False

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._has_keys = setting.node.by is not None or setting.grouped
        self._keys = Keys()
        nothing = Slice(EventBatch.concat([]), NOTHING, NOTHING)
        self._waiting = WaitingRoom(nothing, Slice.wait, views=True)
        self._below = FromBelow()
        self._mixed = False
        """Whether there may be outputs of other stages among the events."""
        self._who = f"detector {setting.node.name!r}"

    def read(self, inputs: Inputs) -> Arrivals:
        node = self._setting.node
        on, sees = self._setting.masks(inputs.batch.types)
        part = in_arrays(inputs.part(on, node.maker.columns, self._who))
        batch, at = inputs.columns(sees)
        codes = NOTHING
        if self._has_keys:
            self._keys.drop()
            by = node.by
            whole = inputs.part(on) if by and not has_column(part, by) else part
            codes = key_codes(node, self._keys, whole, inputs.groups_of(on))

        among, event = inputs.among(on, sees), inputs.event_at(at)
        return SliceArrivals(batch, at, among, part, codes, event)

    def join(self, arrivals: Arrivals, joined: Joined) -> Arrivals:
        assert isinstance(arrivals, SliceArrivals)
        events, columns = joined.outputs.events, self._setting.node.maker.columns
        part = events if columns is None else selected(events, None, columns, self._who)
        wanted = np.concatenate((joined.was[arrivals.wanted], joined.now))
        order = np.argsort(wanted)
        codes = np.concatenate((arrivals.codes, self._codes(joined.outputs)))
        row = {index: n for n, index in enumerate(joined.now.tolist())}

        def event(index: int) -> Event:
            n = row.get(index)
            return arrivals.event(int(joined.was.searchsorted(index))) if n is None else events[n]

        both = concat([arrivals.part, part]).take(order)
        codes = codes[order] if self._has_keys else codes
        below = joined.now, joined.outputs
        return SliceArrivals(joined.batch, joined.at, wanted[order], both, codes, event, below)

    def _codes(self, outputs: Outputs) -> Ints:
        """The keys of outputs of other stages."""
        if not self._has_keys:
            return NOTHING
        groups = Coded.plain(outputs.groups or []) if self._setting.grouped else None
        return key_codes(self._setting.node, self._keys, outputs.events, groups)

    def put(self, row: int, arrivals: Arrivals) -> None:
        assert isinstance(arrivals, SliceArrivals)
        self._keys.keep()
        wanted = arrivals.wanted
        at = arrivals.at[wanted]
        made: list[Made | None] | None = None
        if arrivals.below is not None:
            now, outputs = arrivals.below
            self._below.put(row + now, outputs)
            self._mixed = True
            made = [None] * len(wanted)
            places = zip(
                wanted.searchsorted(now).tolist(), outputs.ids, outputs.places, strict=True
            )
            for n, match, place in places:
                made[n] = match, place
        self._waiting.put(row + wanted, Slice(arrivals.part, at, at, arrivals.codes, made))

    def take(self, rows: Ints, ts: Ints, at: Ints) -> tuple[Slice, Ints]:  # noqa: ARG002
        self._below.hand_out(rows)
        taken = self._waiting.take(rows)
        return Slice(taken.batch, taken.arrival, at, taken.codes, taken.made), rows

    def tidy(self, held: Ints) -> None:
        self._waiting.trim(held)

    def parts(self) -> dict[str, dict[str, float]]:
        return {}

    def _arrivals_kept(self) -> dict[str, Any]:
        """What a checkpoint needs of all this."""
        return {
            "waiting": self._waiting.state_of(),
            "below": (self._mixed, self._below.state_of()),
            "keys": self._keys.values,
        }

    def _resume_arrivals(self, kept: dict[str, Any]) -> None:
        """Resume from what `_arrivals_kept` kept."""
        rows, events = shaped(kept["waiting"], tuple[Any, Any], "what waits")
        self._waiting.resume(rows, None if events is None else Slice.resumed(events))
        self._keys.resume(kept["keys"])
        self._mixed, below = shaped(kept["below"], tuple[bool, Any], "what waits")
        self._below.resume(below)
