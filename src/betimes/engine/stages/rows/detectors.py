"""The detectors of a stage, by key, and the snapshots of their states in undo logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from betimes.engine.snapshots.spacing import Costs
from betimes.engine.snapshots.states import ABSENT, Snapshot
from betimes.engine.stages.execution import Execution
from betimes.engine.stages.rows.history import RowSegment
from betimes.engine.stats import StageCounts

_SAMPLE = 8
"""One in this many snapshots is timed: reading the clock takes as long as a small snapshot."""


class Ready(dict[Any, Any]):
    """The function to call for an event, by key, of those that the last segment has touched."""

    def __init__(self, touch: Callable[[Any], Any]) -> None:
        self._touch = touch

    def __missing__(self, key: Any) -> Any:
        method = self[key] = self._touch(key)
        return method


class Detectors:
    """A detector for each key, made when the key is first touched."""

    def __init__(
        self,
        execution: Execution,
        costs: Costs,
        counts: StageCounts,
        time: Callable[[], float],
        segments: Sequence[RowSegment],
    ) -> None:
        self._execution = execution
        self._states = execution.states
        self._costs = costs
        self._counts = counts
        self._time = time
        self.by_key: dict[Any, Any] = {}
        self._methods: dict[Any, Any] = {}
        """The function to call for an event, by key: looking it up costs more than calling it."""
        self.ready = Ready(partial(self.touch, segments))
        """The same where nothing has to be saved before."""

    def install(self, key: Any, detector: Any) -> None:
        """Make this the detector of a key; None removes it."""
        self.ready.pop(key, None)
        if detector is None:
            self.by_key.pop(key, None)
            self._methods.pop(key, None)
        else:
            self.by_key[key] = detector
            self._methods[key] = self._execution.runner.method(detector)

    def touch(self, segments: Sequence[RowSegment], key: Any) -> Any:
        """Save the state of a key before the last segment first changes it; return its method."""
        segment = segments[-1]
        if key in segment.undo:
            return self._methods[key]
        segment.kept = None
        detector = self.by_key.get(key)
        if detector is None:
            segment.undo[key] = ABSENT
            self.install(key, self._states.make())
        elif self._states.stateless:
            segment.undo[key] = None
        else:
            # A key that has not changed since the last snapshot shares its storage.
            before = segments[-2].undo.get(key) if len(segments) > 1 else None
            like = None if before is ABSENT else before
            timed = self._counts.snapshots % _SAMPLE == 0
            began = self._time() if timed else 0.0
            segment.undo[key] = self._states.take(detector, like)
            if timed:
                self._costs.note_snapshot(self._time() - began)
            self._counts.snapshots += 1
        return self._methods[key]

    def before(self, key: Any, affected: Sequence[RowSegment]) -> Snapshot:
        """The state that the key had before these segments."""
        for segment in affected:
            if key in segment.undo:
                return segment.undo[key]
        known = self.by_key.get(key)
        return ABSENT if known is None else self._states.take(known)

    def is_at(self, detector: Any, saved: Snapshot) -> bool:
        """Whether a detector is in the saved state; None is a detector that does not exist."""
        if detector is None or saved is ABSENT:
            return detector is None and saved is ABSENT
        return self._states.is_at(detector, saved)

    def state_of(self) -> dict[Any, Snapshot]:
        """The current state of every key."""
        return {key: self._states.take(detector) for key, detector in self.by_key.items()}

    def resume(self, snapshots: dict[Any, Snapshot]) -> None:
        """Resume from the states that `state_of` returned."""
        for key, snapshot in snapshots.items():
            self.install(key, self._states.restore(snapshot))
