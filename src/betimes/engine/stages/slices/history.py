"""What per-batch detectors have handled: segments of ordered events, each with a snapshot."""

from __future__ import annotations

from typing import Any

from betimes.engine.news.outputs import Output, Place
from betimes.engine.snapshots.segments import Segments
from betimes.engine.snapshots.states import Snapshot
from betimes.engine.snapshots.weights import (
    MADE,
    ROW,
    weight_of_batch,
    weight_of_state,
)
from betimes.engine.stages.slices.events import Slice
from betimes.model.volumes import Kept


class SliceSegment:
    """Events between two snapshots, with the state before them and what they made."""

    __slots__ = (
        "_in_order",
        "_parts",
        "_saved",
        "_state_weight",
        "_weight",
        "kept",
        "last",
        "outputs",
        "size",
        "start",
    )

    def __init__(self, start: Place, saved: Snapshot) -> None:
        self.start = self.last = start
        self.saved = saved
        self.size = 0
        self.outputs: list[Output] = []
        self.kept: Kept | None = None
        """Where it was written to a checkpoint."""
        self._parts: list[Slice] = []
        self._in_order = True
        self._weight = 0
        """About how many bytes the parts take: there may be one per batch."""

    @property
    def saved(self) -> Snapshot:
        """The state before them."""
        return self._saved

    @saved.setter
    def saved(self, saved: Snapshot) -> None:
        self._saved, self._state_weight = saved, -1

    @property
    def events(self) -> Slice:
        """All events, in order."""
        events = Slice.join(self._parts)
        if not self._in_order:
            events = events.sorted()
            self._in_order = True
        self._parts, self._weight = [events], _weight(events)
        return events

    def extend(self, events: Slice) -> None:
        """Add events that follow all others."""
        self.kept = None
        self._parts.append(events)
        self._weight += _weight(events)
        self.size += len(events)
        if len(events):  # a restart brings back segments whose events were all taken back
            self.last = max(self.last, events.place(len(events) - 1))

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        if self._state_weight < 0:
            self._state_weight = weight_of_state(self.saved)
        return self._weight + self._state_weight + MADE * len(self.outputs)

    def remove(self, place: Place) -> None:
        """Remove the event at a place."""
        events = self.events.without(place)
        self._parts, self._weight = [events], _weight(events)
        self.size -= 1
        self.kept = None

    def insert(self, events: Slice) -> None:
        """Add events that land among the handled ones."""
        self._in_order = False
        self.extend(events)


class KeyHistory(Segments[SliceSegment]):
    """What the detector of one key has handled, and the detector in its current state."""

    def __init__(self, key: Any, detector: Any) -> None:
        super().__init__()
        self.key = key
        self.detector = detector

    def forget(self, before: int) -> list[SliceSegment]:
        """Drop the segments whose events are all older than `before`."""
        gone = super().forget(before)
        if self.last[0] < before:
            gone += self.segments
            self.segments.clear()
        return gone


def _weight(events: Slice) -> int:
    return weight_of_batch(events.batch) + len(events) * ROW
