"""What detectors per batch have handled: segments of events in order, each with a snapshot."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from betimes.engine.messages import Output, Place
from betimes.engine.slices.events import Slice
from betimes.engine.snapshots import Snapshot


class Segment:
    """Events between two snapshots: the state before them, themselves, what was made of them."""

    __slots__ = ("_in_order", "_parts", "last", "outputs", "saved", "size", "start")

    def __init__(self, start: Place, saved: Snapshot) -> None:
        self.start = self.last = start
        self.saved = saved
        self.size = 0
        self.outputs: list[Output] = []
        self._parts: list[Slice] = []
        self._in_order = True

    @property
    def events(self) -> Slice:
        """All events, in order."""
        events = Slice.join(self._parts)
        if not self._in_order:
            events = events.sorted()
            self._in_order = True
        self._parts = [events]
        return events

    def extend(self, events: Slice) -> None:
        """Add events that follow all others."""
        self._parts.append(events)
        self.size += len(events)
        self.last = max(self.last, events.place(len(events) - 1))

    def insert(self, events: Slice) -> None:
        """Add events that land among those that were handled."""
        self._in_order = False
        self.extend(events)


class History:
    """What the detector of one key has handled, and the detector as it is now."""

    def __init__(self, key: Any, detector: Any) -> None:
        self.key = key
        self.detector = detector
        self.segments: list[Segment] = []
        self.last: Place = (-1, 0, 0)
        """The place of the last event handled."""

    def insert(self, events: Slice) -> tuple[int, int]:
        """Add events, in order, that land among those that were handled.

        Returns the first and the last segment that they land in. One that stands behind all events
        of its segment becomes the first of the next one, so that the nearest snapshot is gone back
        to.
        """
        found: list[int] = []
        low = 0
        while low < len(events):
            place = events.place(low)
            at = bisect_right(self.segments, place, key=lambda segment: segment.start) - 1
            at = max(at, 0)
            segment = self.segments[at]
            if at + 1 < len(self.segments) and segment.last < place:
                at += 1
                segment = self.segments[at]
                segment.start = place
            high = len(events)
            if at + 1 < len(self.segments):
                # Places are never equal: what is not before the last one comes after it.
                high = max(low + 1, events.count_before(segment.last))
            segment.insert(events.part(low, high))
            found.append(at)
            low = high
        return found[0], found[-1]

    def forget(self, before: int) -> list[Segment]:
        """Drop the segments whose events are all older than `before`."""
        count = 0
        # The next one begins after all that this one holds.
        while count < len(self.segments) - 1 and self.segments[count + 1].start[0] < before:
            count += 1
        if self.last[0] < before:
            count = len(self.segments)
        gone = self.segments[:count]
        del self.segments[:count]
        return gone

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)
