"""Segments of handled events, in order: where late events land, and what is forgotten."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Generic, Protocol, TypeVar

from betimes.engine.news.outputs import Place
from betimes.model.volumes import Kept, Ref, VolumeReader, VolumeWriter


class Weighed:
    """A part of the history that is weighed again only after it has changed."""

    __slots__ = ("_kept", "_weight")

    def __init__(self) -> None:
        self.kept = None

    @property
    def kept(self) -> Kept | None:
        """Where it was written to a checkpoint; set to None by whoever changes it."""
        return self._kept

    @kept.setter
    def kept(self, kept: Kept | None) -> None:
        self._kept = kept
        if kept is None:
            self._weight = -1

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        if self._weight < 0:
            self._weight = self._weigh()
        return self._weight

    def _weigh(self) -> int:
        raise NotImplementedError


class Segment(Protocol):
    """Events between two snapshots."""

    start: Place
    last: Place
    size: int
    kept: Kept | None
    """Where it was written to a checkpoint; None if it has changed since."""

    def insert(self, events: Any) -> None:
        """Add events that land among the handled ones."""


S = TypeVar("S", bound=Segment)


class Begins(Protocol):
    """A piece of history."""

    start: Place
    kept: Kept | None


B = TypeVar("B", bound=Begins)


def write_segments(
    segments: Sequence[B],
    volumes: VolumeWriter,
    settled: int,
    state: Callable[[B], Any],
    what: str,
) -> list[Ref]:
    """Write the segments of a history; those up to a settled time should not change any more."""
    written = []
    for segment, after in zip_longest(segments, segments[1:]):
        done = after is not None and after.start[0] <= settled
        written.append(volumes.put(segment, partial(state, segment), what, done=done))
    return written


def read_segments(
    written: Iterable[Ref], volumes: VolumeReader, segment: Callable[[Any], B], what: str
) -> list[B]:
    """The segments that `write_segments` has written."""
    found = []
    for at in written:
        state, kept = volumes.get(at, what)
        found.append(segment(state))
        found[-1].kept = kept
    return found


class Segments(Generic[S]):
    """Segments in order."""

    def __init__(self) -> None:
        self.segments: list[S] = []
        self.last: Place = (-1, 0, 0)
        """The place of the last event handled."""

    def find(self, place: Place) -> int:
        """The segment that a place belongs to; 0 also for places before the first."""
        at = bisect_right(self.segments, place, key=lambda segment: segment.start) - 1
        return max(at, 0)

    def insert(self, events: Any) -> list[int]:
        """Add events, in order, that land among the handled ones; return their segments.

        An event that comes after all events of its segment becomes the first of the next one, so
        that the nearest snapshot is used.
        """
        found: list[int] = []
        low = 0
        while low < len(events):
            place = events.place(low)
            at = self.find(place)
            segment = self.segments[at]
            if at + 1 < len(self.segments) and segment.last < place:
                at += 1
                segment = self.segments[at]
                segment.start, segment.kept = place, None
            high = len(events)
            if at + 1 < len(self.segments):
                # Places are never equal: an event that is not before the last one comes after it.
                high = max(low + 1, events.count_before(segment.last))
            segment.insert(events.part(low, high))
            found += [at] * (high - low)
            low = high
        return found

    def forget(self, before: int) -> list[S]:
        """Drop the segments whose events are all older than `before`, but never the last."""
        count = 0
        # The next segment begins after everything in this one.
        while count < len(self.segments) - 1 and self.segments[count + 1].start[0] < before:
            count += 1
        if not count:
            return []
        gone = self.segments[:count]
        del self.segments[:count]
        return gone

    @property
    def size(self) -> int:
        """How many events are remembered."""
        return sum(segment.size for segment in self.segments)
