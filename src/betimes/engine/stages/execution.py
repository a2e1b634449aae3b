"""Executing user code on an ordered slice: a state goes in, outputs and the new state come out.

Nothing here knows about history, identity or time: committing the outputs is a separate step. So an
execution can happen anywhere that has the detector's code, a snapshot and the events.

If a detector fails, it gets the slice again in halves, and these in halves, until the events at
which it fails are found. It then continues as if it had never seen them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from betimes.engine.node import Node
from betimes.engine.snapshots.states import Snapshot, Snapshotter
from betimes.engine.stages.runner import DetectorFailed, Made, Runner, Slice


class Done(NamedTuple):
    """The result of an execution."""

    made: Made
    detector: Any
    """In the state after it; it may be another object than the one that was passed in."""
    failures: list[tuple[int, DetectorFailed]]
    """The rows at which it fails."""


class Execution:
    """Runs the detectors of one node."""

    def __init__(self, node: Node) -> None:
        self.states = Snapshotter(node.maker, node.name)
        self.runner = Runner(node)
        self._tried = self.states.stateless

    def run(self, detector: Any, events: Slice) -> Made:
        """Hand a slice to a detector; if it fails, its state is unknown."""
        return self.runner.run(self.runner.method(detector), events)

    def execute(self, detector: Any, saved: Snapshot, events: Slice) -> Done:
        """Hand a slice to a detector, which is in the saved state."""
        try:
            return Done(self.run(detector, events), detector, [])
        except DetectorFailed:
            return self.run_with_care(saved, events)

    def try_state(self, detector: Any) -> None:
        """Save a state once, so that a state that cannot be saved is found early."""
        if not self._tried:
            self.states.take(detector)
            self._tried = True

    def run_with_care(self, saved: Snapshot, events: Slice) -> Done:
        """Hand a slice to a detector in a saved state, without the events at which it fails."""
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
    """A range of the events."""
    return events[low:high] if isinstance(events, list) else events.part(low, high)
