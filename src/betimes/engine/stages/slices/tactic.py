"""The tactic of slices: per-batch detectors on input events, over columns.

A per-batch detector that reads input events gets them as they came, as columns: no event becomes a
Python object on the way. Waiting events are looked up by number when the ordering unit hands them
out, and handled events stay in the slices in which they were handed over. Every key has its own
detector and history; without keys there is one.

Events that follow all handled ones of their key are handed over in slices, as long as the spacing
of snapshots allows; at attenuation 1, that is usually one slice per batch and key. Events that land
before handled ones are put into their segments, and the key's detector handles these segments and
all later ones again: once per batch, however many events were late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from betimes.engine.news.outputs import Output, Outputs, Remembered
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.reading.keys import Keys, has_column, key_codes
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.slices.handling import SliceHandling
from betimes.engine.stages.slices.history import KeyHistory, SliceSegment
from betimes.engine.stages.tactic import (
    NOTHING,
    Disturbance,
    Ints,
    Moment,
    Replay,
    Setting,
    Told,
)
from betimes.engine.stages.waiting import WaitingRoom
from betimes.model.batch import EventBatch
from betimes.model.event import Event


class SliceArrivals(Arrivals):
    """What arrives at a stage of a per-batch detector: columns for the unit and for it."""

    __slots__ = ("codes", "part")

    def __init__(
        self, inputs: Inputs, seen: tuple[EventBatch, Ints], wanted: Ints, part: EventBatch
    ) -> None:
        batch, at = seen

        def event(index: int) -> Event:
            return inputs.batch[int(at[index]) - inputs.first]

        super().__init__(batch, at, wanted, [], None, event)
        self.part = part
        """The events that the detector takes."""
        self.codes: Ints = np.zeros(len(part), np.int64)
        """Their keys."""


class SliceTactic:
    """Hands slices of input events to per-batch detectors, by key."""

    weighs = True
    passed = None

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._handling = SliceHandling(setting)
        self._has_keys = setting.node.by is not None or setting.grouped
        self._keys = Keys()
        self._waiting = WaitingRoom(Slice(EventBatch.concat([]), NOTHING, NOTHING))
        self._swept = 0
        """How many events had been handled when the keys were last swept."""

    # Arrivals

    def read(self, inputs: Inputs) -> Arrivals:
        node = self._setting.node
        on, sees = self._setting.masks(inputs.batch.types)
        part = inputs.part(on, node.maker.columns, f"detector {node.name!r}")
        arrivals = SliceArrivals(inputs, inputs.columns(sees), inputs.among(on, sees), part)
        if self._has_keys:
            self._keys.drop()
            by = node.by
            whole = inputs.part(on) if by and not has_column(part, by) else part
            arrivals.codes = key_codes(node, self._keys, whole, inputs.groups_of(on))
        return arrivals

    def put(self, row: int, arrivals: Arrivals) -> None:
        assert isinstance(arrivals, SliceArrivals)
        self._keys.keep()
        wanted = arrivals.wanted
        at = arrivals.at[wanted]
        self._waiting.put(row + wanted, Slice(arrivals.part, at, at, arrivals.codes))

    def take(self, rows: Ints, ts: Ints, at: Ints) -> tuple[Slice, Ints]:  # noqa: ARG002
        taken = self._waiting.take(rows)
        return Slice(taken.batch, taken.arrival, at, taken.codes), rows

    # Handling events

    def handle(self, events: Slice, moment: Moment) -> Iterator[Told]:
        disturbed = breaches = 0
        made: list[Output] = []
        parts = self._by_key(events)
        for key, mine in parts:
            history = self._handling.history(key)
            behind = mine.count_before(history.last)
            if behind:
                disturbed += 1
                breaches += bool(mine.batch.ts[0] <= moment.final_to)
                yield self._go_back(history, mine.part(0, behind), moment)
            certain = int(mine.batch.ts.searchsorted(moment.certain, side="right"))
            for outputs in self._handling.append(history, mine, behind, certain, moment.reach):
                made += outputs
        if len(parts) > 1:
            made.sort(key=attrgetter("cause"))
        yield Outputs.of(made)
        self._handling.costs.note_batch(disturbed, breaches, max(len(parts), 1))

    def _by_key(self, events: Slice) -> list[tuple[Any, Slice]]:
        """The events of each key."""
        if not len(events):
            return []
        if not self._has_keys:
            return [(None, events)]
        codes, values = events.codes, self._keys.values
        order = np.argsort(codes, kind="stable")
        borders = np.flatnonzero(np.diff(codes[order])) + 1
        if not len(borders):
            return [(values[codes[0]], events)]
        return [(values[codes[rows[0]]], events.take(rows)) for rows in np.split(order, borders)]

    def _go_back(self, history: KeyHistory, late: Slice, moment: Moment) -> Replay:
        """Put late events in their places, and replay."""
        began = self._setting.time()
        landed = history.insert(late)
        place, cause = late.place(0), Event(late.types([0])[0], int(late.ts[0]))
        disturbance = Disturbance(
            landed[0], landed[-1], place, ("late", cause), -1,
            breach=place[0] <= moment.final_to,
        )  # fmt: skip
        replay = self._handling.replay(history, disturbance)
        counts = self._setting.counts
        counts.replays += 1
        counts.replayed += replay.handled
        counts.replaying += self._setting.time() - began
        return replay

    # Memory

    def tidy(self, held: Ints) -> None:
        self._waiting.trim(held)

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        histories = self._handling.histories
        if self._setting.counts.handled - self._swept < len(histories) - 1:
            return  # many keys, few events: later
        self._swept = self._setting.counts.handled
        for history in histories.values():
            for segment in history.forget(before):
                yield segment.outputs

    @property
    def _segments(self) -> list[SliceSegment]:
        histories = self._handling.histories.values()
        return [segment for history in histories for segment in history.segments]

    @property
    def remembered(self) -> int:
        return sum(segment.size for segment in self._segments)

    def snapshots(self) -> tuple[int, int]:
        saved = [segment.saved for segment in self._segments]
        return len(saved), self._handling.execution.states.size(saved)

    # Checkpoints

    def outputs(self) -> Outputs:
        return Outputs.of([output for segment in self._segments for output in segment.outputs])

    def state_of(self) -> dict[str, Any]:
        handling = self._handling
        return {
            "waiting": self._waiting.state_of(),
            "keys": self._keys.values,
            "histories": [
                (key, handling.snapshot(history), history.last, _written(history.segments))
                for key, history in handling.histories.items()
            ],
        }

    def resume(self, kept: dict[str, Any], outputs: Remembered) -> None:
        rows, events = kept["waiting"]
        self._waiting.resume(rows, None if events is None else Slice.resumed(events))
        self._keys.resume(kept["keys"])
        for key, snapshot, last, segments in kept["histories"]:
            history = self._handling.resume(key, snapshot)
            history.last = last
            for start, saved, events, count in segments:
                segment = SliceSegment(start, saved)
                segment.extend(Slice.resumed(events))
                segment.outputs = outputs.rows(count)
                history.segments.append(segment)


def _written(segments: list[SliceSegment]) -> list[tuple[Any, ...]]:
    return [(s.start, s.saved, s.events.state_of(), len(s.outputs)) for s in segments]
