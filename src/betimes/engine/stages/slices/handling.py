"""Handing slices to detectors per batch, and going back.

Events that follow all others of their key are handled in slices; a segment of one or more slices
begins with a snapshot. Events that land earlier are put into their segments; the key's detector is
restored from the snapshot before the first of these and handed whole segments again. On demand,
that ends at the first later segment before which the state is what it was.

Where a detector fails, the slice is handed over again in halves, and these in halves, until the
events are found at which it fails; it goes on as if not asked about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from betimes.engine.hierarchy import Node
from betimes.engine.news.news import Output, Place
from betimes.engine.news.outputs import OutputMaker
from betimes.engine.snapshots.spacing import LONGEST, SnapshotModel
from betimes.engine.snapshots.states import Snapshot, Snapshotter
from betimes.engine.stages.driver import Ints
from betimes.engine.stages.handling import Disturbance, Replay
from betimes.engine.stages.runner import DetectorFailed, Runner
from betimes.engine.stages.slices.costs import SliceCosts
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.slices.history import History, Segment
from betimes.engine.stats import StageCounts
from betimes.model.event import Event

Made = tuple[list[int], list[Event]]
"""Rows of a slice, in order, and the events that were made from them."""


class SliceHandling:
    """The detectors of one stage, their histories, and the way back."""

    def __init__(
        self,
        node: Node,
        outputs: OutputMaker,
        counts: StageCounts,
        *,
        snapshots: SnapshotModel,
        time: Callable[[], float],
    ) -> None:
        self.histories: dict[Any, History] = {}
        """By key; a detector without keys has one, None."""
        self.costs = SliceCosts()
        self.failures: dict[tuple[Any, Place], DetectorFailed] = {}
        self.judged: set[tuple[Any, Place]] = set()
        self._outputs = outputs
        self._counts = counts
        self._spacing = snapshots
        self._time = time
        self._snapshotter = Snapshotter(node.maker, node.name)
        self._runner = Runner(node)
        self._tried = False

    def history(self, key: Any) -> History:
        """What was handled of a key."""
        if key not in self.histories:
            self.histories[key] = History(key, self._snapshotter.make())
        return self.histories[key]

    def snapshot(self, history: History) -> Snapshot:
        """The state of a key as it is now."""
        return self._snapshotter.take(history.detector)

    def resume(self, key: Any, snapshot: Snapshot) -> History:
        """A key goes on from a snapshot."""
        self.histories[key] = History(key, self._snapshotter.restore(snapshot))
        return self.histories[key]

    # Forward

    def append(
        self, history: History, events: Slice, start: int, certain: int, reach: int
    ) -> Iterator[list[Output]]:
        """Handle the events from `start` on, which follow all others; yield what is made.

        The first `certain` events can only be disturbed by one that breaks the slack. A segment
        that began before `reach` is not continued: it can be forgotten then.
        """
        newest = np.maximum.accumulate(events.at)
        segments = history.segments
        while start < len(events):
            speculative = start >= certain
            length = self._spacing.length(self.costs, speculative=speculative)
            room = length - segments[-1].size if segments else 0
            if room <= 0 or segments[-1].start[0] < reach:
                segments.append(Segment(events.place(start), self._save(history)))
                room = length
            border = len(events) if speculative else certain
            # Snapshots that nobody asks for need not cut slices.
            end = border if length >= LONGEST else min(start + room, border)
            yield self._handle(history, events.part(start, end), newest[start:end])
            start = end

    def _handle(self, history: History, events: Slice, newest: Ints) -> list[Output]:
        """Handle events as part of the last segment."""
        segment = history.segments[-1]
        made = self._run_forward(history, events, segment)
        segment.extend(events)
        history.last = events.place(len(events) - 1)
        self._counts.handled += len(events)
        outputs = self._make(history, made, events, newest)
        segment.outputs += outputs
        return outputs

    def _save(self, history: History) -> Snapshot:
        like = history.segments[-1].saved if history.segments else None
        began = self._time()
        saved = self._snapshotter.take(history.detector, like)
        self.costs.note_snapshot(self._time() - began)
        self._counts.snapshots += 1
        return saved

    def _run_forward(self, history: History, events: Slice, segment: Segment) -> Made:
        try:
            made = self._run(history.detector, events)
            if not self._tried:
                # A state that cannot be saved is better known now than when it must be.
                self.snapshot(history)
                self._tried = True
            return made
        except DetectorFailed:
            history.detector, saved = self._snapshotter.restore(segment.saved), segment.saved
            if segment.size:
                self._with_care(history, saved, segment.events)
                saved = self.snapshot(history)
            return self._with_care(history, saved, events)

    def _run(self, detector: Any, events: Slice) -> Made:
        began = self._time()
        made = self._runner.run_batch(detector.on_batch, events.batch)
        self.costs.note_call(self._time() - began, len(events))
        return made

    def _with_care(self, history: History, saved: Snapshot, events: Slice) -> Made:
        """Hand events to a detector in the saved state; it may fail and be replaced.

        A failure is noted: it may be the fault of an event that has not arrived yet, and only
        counts if it still stands when the place is final.
        """
        try:
            made = self._run(history.detector, events)
            self._mend(history.key, events)
            return made
        except DetectorFailed as failure:
            history.detector = self._snapshotter.restore(saved)
            if len(events) == 1:
                place = (history.key, events.place(0))
                if place not in self.judged:
                    self.failures[place] = failure
                return [], []
        half = len(events) // 2
        first = self._with_care(history, saved, events.part(0, half))
        saved = self.snapshot(history)
        second = self._with_care(history, saved, events.part(half, len(events)))
        return [*first[0], *(half + row for row in second[0])], first[1] + second[1]

    def _mend(self, key: Any, events: Slice) -> None:
        """These events are no failures any more."""
        if self.failures:
            low, high = events.place(0), events.place(len(events) - 1)
            mine = [place for place in self.failures if place[0] == key]
            for place in mine:
                if low <= place[1] <= high:
                    del self.failures[place]

    def _make(self, history: History, made: Made, events: Slice, newest: Ints) -> list[Output]:
        """Outputs of what was made; `newest` are the arrivals with which each event was known."""
        rows, derived = made
        if not rows:
            return []
        return self._outputs.make_slice(
            derived, events.places(rows), events.causes(rows), newest[rows], history.key
        )

    # Back

    def replay(self, history: History, disturbance: Disturbance, *, on_demand: bool) -> Replay:
        """Handle events of a key again, from the snapshot before the first disturbance."""
        replay = Replay(disturbance.at)
        affected = history.segments[disturbance.first :]
        for segment in affected:
            self._outputs.unmake(segment.outputs)
        known, history.detector = history.detector, self._snapshotter.restore(affected[0].saved)
        for index, segment in enumerate(affected):
            if index:
                if on_demand and disturbance.first + index > disturbance.last:
                    began = self._time()
                    same = self._snapshotter.is_at(history.detector, segment.saved)
                    replay.comparing += self._time() - began
                    if same:
                        history.detector = known
                        self._spare(affected[index:], replay)
                        return replay
                segment.saved = self._snapshotter.take(history.detector, affected[index - 1].saved)
            self._again(history, replay, segment)
        return replay

    def _spare(self, segments: list[Segment], replay: Replay) -> None:
        """These need not be handled again: what they made still holds."""
        for segment in segments:
            replay.spared += segment.size
            self._outputs.keep(segment.outputs, replay.new)

    def _again(self, history: History, replay: Replay, segment: Segment) -> None:
        """Handle the events of one segment again; outputs that come again stay."""
        events, old = segment.events, segment.outputs
        made = self._with_care(history, segment.saved, events)
        newest = np.maximum(np.maximum.accumulate(events.at), replay.at)
        known = {(output.id, output.place): output for output in old}
        after = [
            known.get((output.id, output.place), output)
            for output in self._make(history, made, events, newest)
        ]
        segment.outputs = after
        replay.handled += len(events)
        replay.old += old
        replay.new += after
        replay.at = int(newest[-1])
