"""Handing slices to per-batch detectors, and going back.

Events that follow all others of their key are handled in slices; a segment of one or more slices
begins with a snapshot. Events that land earlier are put into their segments; the key's detector is
restored from the snapshot before the first of these, and gets whole segments again. On demand, this
ends at the first later segment where the state is the same as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np

from betimes.engine.news.outputs import Output
from betimes.engine.snapshots.spacing import LONGEST, parse_snapshots
from betimes.engine.snapshots.states import Snapshot
from betimes.engine.stages.execution import Done, Execution
from betimes.engine.stages.runner import DetectorFailed, Made
from betimes.engine.stages.slices.costs import SliceCosts
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.slices.history import KeyHistory, SliceSegment
from betimes.engine.stages.tactic import Disturbance, Ints, Replay, Setting


class SliceHandling:
    """The detectors of one stage, their histories, and how they go back."""

    def __init__(self, setting: Setting) -> None:
        self.histories: dict[Any, KeyHistory] = {}
        """By key; without keys, the only key is None."""
        self.costs = SliceCosts()
        self.execution = Execution(setting.node)
        self._setting = setting
        self._outputs = setting.outputs
        self._failures = setting.failures
        self._spacing = parse_snapshots(setting.options.snapshots)

    def history(self, key: Any) -> KeyHistory:
        """The history of a key."""
        if key not in self.histories:
            self.histories[key] = KeyHistory(key, self.execution.states.make())
        return self.histories[key]

    def snapshot(self, history: KeyHistory) -> Snapshot:
        """The current state of a key."""
        return self.execution.states.take(history.detector)

    def resume(self, key: Any, snapshot: Snapshot) -> KeyHistory:
        """Let a key resume from a snapshot."""
        self.histories[key] = KeyHistory(key, self.execution.states.restore(snapshot))
        return self.histories[key]

    # Forward

    def append(
        self, history: KeyHistory, events: Slice, start: int, certain: int, reach: int
    ) -> Iterator[list[Output]]:
        """Handle the events from `start` on, which follow all others; yield the outputs.

        Only an event delayed by more than the slack can disturb the first `certain` events. A
        segment that began before `reach` is not continued, so that it can be forgotten.
        """
        newest = np.maximum.accumulate(events.at)
        segments = history.segments
        while start < len(events):
            speculative = start >= certain
            length = self._spacing.length(self.costs, speculative=speculative)
            room = length - segments[-1].size if segments else 0
            if room <= 0 or segments[-1].start[0] < reach:
                segments.append(SliceSegment(events.place(start), self._save(history)))
                room = length
            border = len(events) if speculative else certain
            # If snapshots do not pay, they need not cut slices.
            end = border if length >= LONGEST else min(start + room, border)
            yield self._handle(history, events.part(start, end), newest[start:end])
            start = end

    def _handle(self, history: KeyHistory, events: Slice, newest: Ints) -> list[Output]:
        """Handle events as part of the last segment."""
        segment = history.segments[-1]
        made = self._run_forward(history, events, segment)
        segment.extend(events)
        history.last = events.place(len(events) - 1)
        self._setting.counts.handled += len(events)
        outputs = self._commit(history, made, events, newest)
        segment.outputs += outputs
        return outputs

    def _save(self, history: KeyHistory) -> Snapshot:
        like = history.segments[-1].saved if history.segments else None
        began = self._setting.time()
        saved = self.execution.states.take(history.detector, like)
        self.costs.note_snapshot(self._setting.time() - began)
        self._setting.counts.snapshots += 1
        return saved

    def _run_forward(self, history: KeyHistory, events: Slice, segment: SliceSegment) -> Made:
        began = self._setting.time()
        try:
            made = self.execution.run(history.detector, events.batch)
            self.costs.note_call(self._setting.time() - began, len(events))
            self.execution.try_state(history.detector)
            return made
        except DetectorFailed:
            saved = segment.saved
            if segment.size:
                done = self.execution.run_with_care(saved, segment.events.batch)
                saved = self.execution.states.take(done.detector)
            done = self.execution.run_with_care(saved, events.batch)
            return self._note(history, events, done)

    def _note(self, history: KeyHistory, events: Slice, done: Done) -> Made:
        """Keep the detector after an execution, and note where it failed."""
        history.detector = done.detector
        last = events.place(len(events) - 1)
        self._failures.mend(history.key, events.place(0), last)
        for row, failure in done.failures:
            self._failures.note(history.key, events.place(row), failure)
        return done.made

    def _commit(self, history: KeyHistory, made: Made, events: Slice, newest: Ints) -> list[Output]:
        """The outputs; `newest` has the arrival with which each event was known."""
        rows, derived = made
        if not rows:
            return []
        places, types, at = events.places(rows), events.types(rows), newest[rows].tolist()
        return self._outputs.make_all(derived, places, types, at, repeat(history.key))

    # Back

    def replay(self, history: KeyHistory, disturbance: Disturbance) -> Replay:
        """Handle events of a key again, from the snapshot before the first disturbance."""
        time, states = self._setting.time, self.execution.states
        replay = Replay(
            history.key, disturbance.place, disturbance.at, self._setting.retraction.on_demand,
            disturbance.why,
        )  # fmt: skip
        affected = history.segments[disturbance.first :]
        for segment in affected:
            self._outputs.unmake(segment.outputs)
        known, history.detector = history.detector, states.restore(affected[0].saved)
        for index, segment in enumerate(affected):
            if index:
                if replay.on_demand and disturbance.first + index > disturbance.last:
                    began = time()
                    same = states.is_at(history.detector, segment.saved)
                    replay.comparing += time() - began
                    if same:
                        history.detector = known
                        self._spare(affected[index:], replay)
                        break
                segment.saved = states.take(history.detector, affected[index - 1].saved)
            segment.kept = None
            if segment.size:
                self._again(history, replay, segment)
            else:  # everything in it was taken back
                replay.old += segment.outputs
                segment.outputs = []
        replay.process = self.costs.process
        return replay

    def _spare(self, segments: list[SliceSegment], replay: Replay) -> None:
        """These segments need not be handled again: what they made still holds."""
        for segment in segments:
            replay.spared += segment.size
            self._outputs.keep(segment.outputs, replay.new)

    def _again(self, history: KeyHistory, replay: Replay, segment: SliceSegment) -> None:
        """Handle the events of one segment again; outputs that recur stay."""
        events, old = segment.events, segment.outputs
        began = self._setting.time()
        done = self.execution.execute(history.detector, segment.saved, events.batch)
        if not done.failures:
            self.costs.note_call(self._setting.time() - began, len(events))
        made = self._note(history, events, done)
        newest = np.maximum(np.maximum.accumulate(events.at), replay.at)
        now = self._commit(history, made, events, newest)
        after, stay = self._outputs.again(old, now)
        replay.stay |= stay
        segment.outputs = after
        replay.handled += len(events)
        replay.old += old
        replay.new += after
        replay.at = int(newest[-1])
