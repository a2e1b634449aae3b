"""Executing user code on an ordered slice: a state in, what was made and the state after it out.

Nothing here knows about history, identity or time: that is for those who commit what was made. So
an execution may happen anywhere that has the detector's code, a snapshot and the events.

Where a detector fails, the slice is handed over again in halves, and these in halves, until the
events at which it fails are found; the detector continues as if it had not been asked about them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from betimes.engine.node import Node
from betimes.engine.snapshots.states import Snapshot, Snapshotter
from betimes.engine.stages.runner import DetectorFailed, Made, Runner, Slice


class Done(NamedTuple):
    """What came of an execution."""

    made: Made
    detector: Any
    """In the state after it; perhaps not the one that was handed in."""
    failures: list[tuple[int, DetectorFailed]]
    """The rows at which it fails."""


class Execution:
    """Runs the detectors of one node."""

    def __init__(self, node: Node) -> None:
        self.states = Snapshotter(node.maker, node.name)
        self.runner = Runner(node)
        self._tried = self.states.stateless

    def run(self, detector: Any, events: Slice) -> Made:
        """Hand a slice to a detector; if it fails, nobody knows its state."""
        return self.runner.run(self.runner.method(detector), events)

    def execute(self, detector: Any, saved: Snapshot, events: Slice) -> Done:
        """Hand a slice to a detector, which is in the saved state."""
        try:
            return Done(self.run(detector, events), detector, [])
        except DetectorFailed:
            return self.run_with_care(saved, events)

    def try_state(self, detector: Any) -> None:
        """Save a state once: one that cannot be saved is better known now than when it must be."""
        if not self._tried:
            self.states.take(detector)
            self._tried = True

    def run_with_care(self, saved: Snapshot, events: Slice) -> Done:
        """Hand a slice to a detector in a saved state; where it fails, it is not asked."""
        detector = self.states.restored(saved)
        try:
            return Done(self.run(detector, events), detector, [])
        except DetectorFailed as failure:
            if len(events) == 1:
                return Done(Made([], []), self.states.restored(saved), [(0, failure)])
        half = len(events) // 2
        first = self.run_with_care(saved, part(events, 0, half))
        between = self.states.take(first.detector)
        second = self.run_with_care(between, part(events, half, len(events)))
        return Done(
            Made(
                [*first.made.rows, *(half + row for row in second.made.rows)],
                first.made.events + second.made.events,
            ),
            second.detector,
            first.failures + [(half + row, failure) for row, failure in second.failures],
        )


def part(events: Slice, low: int, high: int) -> Slice:
    """Some of the events that follow each other."""
    return events[low:high] if isinstance(events, list) else events.part(low, high)
