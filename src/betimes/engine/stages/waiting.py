"""The waiting room: arrivals that a detector takes, until the ordering unit hands them out.

The unit knows events by row numbers, which increase. Waiting events are kept in the order of
arrival, in the form in which the tactic will handle them, and looked up by these numbers. Arrivals
are joined with the others when something is handed out, and events that the unit no longer holds
are dropped once they are the larger part, so each event is moved only a few times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from betimes.model import stored

Ints = npt.NDArray[np.int64]

_SPARSE = 32
"""If known rows span more than this many times those asked for, a search is faster."""
_FEW = 64
"""Also if there are no more than this many rows."""
_SPARE = 4096
"""Up to this many rows more than needed are kept, so that dropping them is rare."""


class Waits(Protocol):
    """Events that can wait."""

    def pick(self, rows: Ints) -> Self:
        """Some of them, in this order."""

    def part(self, low: int, high: int) -> Self:
        """A range of them."""

    def rest(self, low: int) -> Self:
        """These, which may be changed, without the first ones."""

    def joined(self, more: Self) -> Self:
        """These, which may be changed, followed by others."""

    def own(self) -> Self:
        """The same events, which may be changed."""

    def state_of(self) -> Any:
        """Everything needed to resume elsewhere."""

    def __len__(self) -> int: ...


W = TypeVar("W", bound=Waits)


def _one_by_one(parts: list[W]) -> W:
    whole, *others = parts
    for part in others:
        whole = whole.joined(part)
    return whole


class WaitingRoom(Generic[W]):
    """Events by row number."""

    def __init__(
        self, nothing: W, join: Callable[[list[W]], W] | None = None, *, views: bool = False
    ) -> None:
        self._rows: Ints = np.empty(0, np.int64)
        self._nothing = nothing
        self._events = nothing
        self._join_all = join or _one_by_one
        self._views = views
        """Whether a range of events is a view, so that it costs nothing to drop the oldest."""
        self._new: list[tuple[Ints, W]] = []
        """Arrivals since something was last handed out."""
        self._size = 0
        """How many events wait, joined or not."""

    def put(self, rows: Ints, events: W) -> None:
        """Keep events under these numbers."""
        if len(rows):
            self._new.append((rows, events))
            self._size += len(rows)

    @property
    def events(self) -> W:
        """All events that wait."""
        self._join()
        return self._events

    def _join(self) -> None:
        if not self._new:
            return
        rows, events = zip(*self._new, strict=True)
        self._new.clear()
        if not len(self._rows):
            self._rows, self._events = rows[0], events[0].own()
            rows, events = rows[1:], events[1:]
        if rows:
            self._rows = np.concatenate((self._rows, *rows))
            self._events = self._join_all([self._events, *events])

    def take(self, rows: Ints) -> W:
        """The events of these rows, all of which wait here."""
        events, mine = self.take_some(rows)
        if mine is not None:
            raise LookupError(f"of {len(rows)} events {np.count_nonzero(mine)} wait: some are lost")
        return events

    def take_some(self, rows: Ints) -> tuple[W, npt.NDArray[np.bool_] | None]:
        """The events of these rows that wait here, and which rows those are; None for all."""
        if not len(rows):
            return self._nothing, None
        events, known = self.events, self._rows
        if not len(known):
            return self._nothing, np.zeros(len(rows), np.bool_)
        if known[-1] - known[0] == len(known) - 1:
            # The detector takes whatever arrives: numbers are positions.
            index = rows - known[0]
            if index.view(np.uint64).max() < len(known):  # what is negative is large there
                return events.pick(index), None
        index = _positions(known, rows)
        mine = index >= 0
        if np.count_nonzero(mine) == len(mine):
            return events.pick(index), None
        return events.pick(index[mine]), mine

    def trim(self, held: Ints, *, at_once: bool = False) -> None:
        """Drop what the unit no longer holds, once it is the larger part, or at once."""
        most = 2 * len(held) + _SPARE
        if not at_once and self._size <= most and (self._new or not self._views):
            return
        events, known = self.events, self._rows
        oldest = int(known.searchsorted(held.min())) if len(held) else len(known)
        if oldest == len(known):
            self._rows, self._events = known[oldest:], self._nothing
        elif not at_once and len(known) - oldest <= most:
            # What arrived since the oldest event that is held stays in one piece.
            self._rows, self._events = known[oldest:], events.rest(oldest)
        else:
            held = np.sort(held)
            index = known.searchsorted(held)
            # Clock events are held too, but do not wait here.
            index = index[known.take(index, mode="clip") == held]
            self._rows = known[index]
            self._events = events.pick(index) if len(index) else self._nothing
        self._size = len(self._rows)

    def state_of(self) -> Any:
        """Everything needed to resume elsewhere."""
        self._join()
        return self._rows, self._events.state_of() if len(self._rows) else None

    def resume(self, rows: Ints, events: W | None) -> None:
        """Resume with these events."""
        stored.increasing(rows, "the rows of what waits")
        count = 0 if events is None else len(events)
        stored.require(count == len(rows), "some of what waits is missing")
        self._rows, self._events = rows, self._nothing if events is None else events
        self._size = len(rows)


def _positions(known: Ints, rows: Ints) -> Ints:
    """Where rows are among the known ones, which are sorted; -1 for those that are not."""
    first, last = int(known[0]), int(known[-1])
    if len(rows) > _FEW and last - first < _SPARSE * len(rows):
        # Most rows that are handed out are near each other: a table is faster than a search.
        where = np.full(last - first + 2, -1)
        where[known - first] = np.arange(len(known))
        return where[np.where((rows >= first) & (rows <= last), rows - first, -1)]
    index = known.searchsorted(rows)
    return np.where(known.take(index, mode="clip") == rows, index, -1)
