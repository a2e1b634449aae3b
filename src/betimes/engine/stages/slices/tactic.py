"""The tactic of slices: per-batch detectors, over columns.

A per-batch detector gets events as they came, as columns: no input event becomes a Python object on
the way. Waiting events are looked up by number when the ordering unit hands them out, and handled
events stay in the slices in which they were handed over. Every key has its own detector and
history; without keys there is one.

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

from betimes.engine.news.outputs import Output, Outputs
from betimes.engine.snapshots.segments import read_segments, write_segments
from betimes.engine.stages.slices.arriving import SlicesArriving
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.slices.handling import SliceHandling
from betimes.engine.stages.slices.history import KeyHistory, SliceSegment
from betimes.engine.stages.tactic import END, Disturbance, Moment, Replay, Setting, Told
from betimes.model.event import Event
from betimes.model.stored import Place, shaped
from betimes.model.volumes import Ref, VolumeReader, VolumeWriter


class SliceTactic(SlicesArriving):
    """Hands slices of events to per-batch detectors, by key."""

    weighs = True
    passed = None
    next_due = END

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._handling = SliceHandling(setting)
        self._disturbed: dict[Any, Disturbance] = {}
        """The keys that have to go back in this batch."""
        self._swept = 0
        """How many events had been handled when the keys were last swept."""

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:
        row = self._below.withdraw(output.id)
        if row is not None:
            return row
        codes = self._codes(Outputs.of([output])).tolist()
        key = self._keys.values[codes[0]] if self._has_keys else None
        history, place = self._handling.history(key), output.place
        segment = history.find(place)
        history.segments[segment].remove(place)
        self._setting.failures.mend(key, place, place)
        breach, cause = place[0] <= final_to, ("retracted", output.event)
        self._disturb(key, Disturbance(segment, segment, place, cause, at, breach))
        return None

    def _disturb(self, key: Any, disturbance: Disturbance) -> None:
        known = self._disturbed.setdefault(key, disturbance)
        if known is not disturbance:
            known.add(disturbance)

    # Handling events

    def handle(self, events: Slice, moment: Moment) -> Iterator[Told]:
        if self._mixed:
            events = events.sorted()
        made: list[Output] = []
        parts = self._by_key(events)
        for key, mine in parts:
            history = self._handling.history(key)
            behind = mine.count_before(history.last)
            if behind:
                self._setting.counts.handled += behind
                self._land(history, mine.part(0, behind), moment)
            if key in self._disturbed:
                yield self._go_back(history, self._disturbed[key])
            certain = int(mine.batch.ts.searchsorted(moment.certain, side="right"))
            for outputs in self._handling.append(history, mine, behind, certain, moment.reach):
                made += outputs
        touched = {key for key, _ in parts}
        for key, disturbance in self._disturbed.items():
            if key not in touched:
                yield self._go_back(self._handling.history(key), disturbance)
        if len(parts) > 1:
            made.sort(key=attrgetter("cause"))
        yield Outputs.of(made)
        breaches = sum(disturbance.breach for disturbance in self._disturbed.values())
        touched.update(self._disturbed)
        self._handling.costs.note_batch(len(self._disturbed), breaches, max(len(touched), 1))
        self._disturbed = {}

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

    def _land(self, history: KeyHistory, late: Slice, moment: Moment) -> None:
        """Put late events in their places."""
        landed, place = history.insert(late), late.place(0)
        cause = Event(late.types([0])[0], int(late.ts[0]))
        breach = place[0] <= moment.final_to
        disturbance = Disturbance(landed[0], landed[-1], place, ("late", cause), -1, breach)
        self._disturb(history.key, disturbance)

    def _go_back(self, history: KeyHistory, disturbance: Disturbance) -> Replay:
        """Let a key handle its events again."""
        began = self._setting.time()
        replay = self._handling.replay(history, disturbance)
        counts = self._setting.counts
        counts.replays += 1
        counts.replayed += replay.handled
        counts.replaying += self._setting.time() - began
        return replay

    def let_pass(self, time: int) -> None:
        """Time makes no difference."""

    # Memory

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

    def history(self) -> list[tuple[int, int]]:
        return [(segment.start[0], segment.weight) for segment in self._segments]

    @property
    def remembered(self) -> int:
        return sum(segment.size for segment in self._segments)

    def snapshots(self) -> tuple[int, int]:
        saved = [segment.saved for segment in self._segments]
        return len(saved), self._handling.execution.states.size(saved)

    # Checkpoints

    def outputs(self) -> Outputs:
        return Outputs.of([output for segment in self._segments for output in segment.outputs])

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        handling, what = self._handling, self._setting.what

        def written(segments: list[SliceSegment]) -> list[Ref]:
            return write_segments(segments, volumes, settled, _written, what)

        return self._arrivals_kept() | {
            "histories": [
                (key, handling.snapshot(history), history.last, written(history.segments))
                for key, history in handling.histories.items()
            ],
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self._resume_arrivals(kept)
        shape = list[tuple[Any, Any, Place, list[Any]]]
        for key, snapshot, last, segments in shaped(kept["histories"], shape, "history"):
            history = self._handling.resume(key, snapshot)
            history.last = last
            history.segments = read_segments(segments, volumes, _read, self._setting.what)


def _written(segment: SliceSegment) -> tuple[Any, ...]:
    outputs = Outputs.of(segment.outputs).state_of()
    return segment.start, segment.saved, segment.events.state_of(), outputs


def _read(state: tuple[Any, ...]) -> SliceSegment:
    start, saved, events, outputs = shaped(state, tuple[Place, Any, Any, list[Any]], "history")
    segment = SliceSegment(start, saved)
    segment.extend(Slice.resumed(events))
    segment.outputs = list(Outputs.resumed(outputs))
    return segment
