"""Executing user code on an ordered slice: a state goes in, outputs and the new state come out.

Nothing here knows about history, identity or time: committing the outputs is a separate step. So an
execution can happen anywhere that has the detector's code, a snapshot and the events.

If a detector fails, it gets the slice again in halves, and these in halves, until the events at
which it fails are found. It then continues as if it had never seen them. One that fails when its
deadline has passed continues as if it had done nothing but set its next deadline.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from betimes.engine.node import Node
from betimes.engine.snapshots.states import Snapshot, Snapshotter
from betimes.engine.stages.runner import DetectorFailed, Due, Made, Runner, Slice
from betimes.model.detector import DetectorError
from betimes.patterns.detector import PartlyFailed


class Done(NamedTuple):
    """The result of an execution."""

    made: Made
    detector: Any
    """In the state after it; it may be another object than the one that was passed in."""
    failures: list[tuple[int, DetectorFailed]]
    """The rows at which it fails."""
    overdue: list[tuple[int, DetectorFailed]] = []  # noqa: RUF012 - nobody changes it
    """The deadlines at which it fails."""


class Passed(NamedTuple):
    """The result of letting time pass."""

    made: list[Due]
    detector: Any
    last: int
    """The last deadline that has passed."""
    overdue: list[tuple[int, DetectorFailed]]


class Execution:
    """Runs the detectors of one node."""

    def __init__(self, node: Node) -> None:
        self.states = Snapshotter(node.maker, node.name)
        self.runner = Runner(node)
        self._tried = self.states.stateless
        self._timed = node.maker.timed

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
                return self._run_one(saved, events, failure)
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
            first.overdue + second.overdue,
        )

    def _run_one(self, saved: Snapshot, events: Slice, failure: DetectorFailed) -> Done:
        """Find out whether it fails at an event, or at a deadline that passes before it."""
        if self._timed:
            passed = self.pass_time(saved, int(events[0].ts))
            if passed.overdue:
                after = self.states.take(passed.detector)
                done = self.run_with_care(after, events)
                if not done.failures:
                    made = [*passed.made, *done.made.events]
                    return Done(Made([0] * len(made), made), done.detector, [], passed.overdue)
                failure = done.failures[0][1]
        return Done(Made([], []), self.states.restored(saved), [(0, failure)])

    def pass_time(self, saved: Snapshot, ts: int) -> Passed:
        """Let time pass up to `ts` for a detector in a saved state, deadline by deadline."""
        detector, states = self.states.restored(saved), self.states
        made: list[Due] = []
        overdue: list[tuple[int, DetectorFailed]] = []
        last = -1
        while detector.deadline is not None and detector.deadline <= ts:
            last, before = detector.deadline, states.take(detector)
            try:
                made += self.runner.run_until(self.runner.method(detector), last)
            except DetectorFailed as failure:
                if isinstance(failure.__cause__, PartlyFailed):
                    made += [Due(last, event) for event in failure.__cause__.made]
                overdue.append((last, failure))
                detector = _after_failure(detector, states.restore(before), last, failure)
        return Passed(made, detector, last, overdue)


def _after_failure(detector: Any, before: Any, deadline: int, failure: DetectorFailed) -> Any:
    """The detector as it was before its deadline, with the next one that it has set."""
    following = detector.deadline
    moved = following is None or following > deadline
    try:
        before.deadline = following if moved else None
    except AttributeError:
        # It derives its deadline from its state.
        if not moved:
            raise DetectorError(
                f"{failure}; its deadline is still {following} and cannot be set, so this is not "
                "skipped: catch the error in on_time(), or make `deadline` an attribute"
            ) from failure
        return detector
    return before


def part(events: Slice, low: int, high: int) -> Slice:
    """A range of the events."""
    return events[low:high] if isinstance(events, list) else events.part(low, high)
