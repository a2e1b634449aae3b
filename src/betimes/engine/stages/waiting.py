"""The waiting room: arrivals that a detector takes, until the ordering unit hands them out.

The unit knows events by row numbers, which increase. Waiting events are kept in the order of
arrival, in the form in which the tactic will handle them, and looked up by these numbers. Events
that the unit no longer holds are dropped once they are the larger part, so each event is moved only
a few times.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_SPARE = 4096
"""Up to this many rows more than needed are kept, so that dropping them is rare."""


class Waits(Protocol):
    """Events that can wait."""

    def pick(self, rows: Ints) -> Self:
        """Some of them, in this order."""

    def joined(self, more: Self) -> Self:
        """These, which may be changed, followed by others."""

    def own(self) -> Self:
        """The same events, which may be changed."""

    def state_of(self) -> Any:
        """Everything needed to resume elsewhere."""


W = TypeVar("W", bound=Waits)


class WaitingRoom(Generic[W]):
    """Events by row number."""

    def __init__(self, nothing: W) -> None:
        self._rows: Ints = np.empty(0, np.int64)
        self._nothing = nothing
        self.events = nothing

    def put(self, rows: Ints, events: W) -> None:
        """Keep events under these numbers."""
        if not len(self._rows):
            self._rows, self.events = rows, events.own() if len(rows) else self._nothing
        elif len(rows):
            self._rows = np.concatenate((self._rows, rows))
            self.events = self.events.joined(events)

    def take(self, rows: Ints) -> W:
        """The events of these rows, all of which wait here."""
        events, mine = self.take_some(rows)
        if mine is not None:
            raise LookupError(f"of {len(rows)} events {np.count_nonzero(mine)} wait: some are lost")
        return events

    def take_some(self, rows: Ints) -> tuple[W, npt.NDArray[np.bool_] | None]:
        """The events of these rows that wait here, and which rows those are; None for all."""
        known = self._rows
        if not len(known) or not len(rows):
            return self._nothing, np.zeros(len(rows), np.bool_) if len(rows) else None
        index = known.searchsorted(rows)
        index[index == len(known)] = 0
        mine = known[index] == rows
        if mine.all():
            return self.events.pick(index), None
        return self.events.pick(index[mine]), mine

    def trim(self, held: Ints, *, at_once: bool = False) -> None:
        """Drop what the unit no longer holds, once it is the larger part, or at once."""
        if at_once or len(self._rows) > 2 * len(held) + _SPARE:
            held = np.sort(held)
            index = self._rows.searchsorted(held)
            # Clock events are held too, but do not wait here.
            index = index[self._rows.take(index, mode="clip") == held]
            self._rows = self._rows[index]
            self.events = self.events.pick(index) if len(index) else self._nothing

    def state_of(self) -> Any:
        """Everything needed to resume elsewhere."""
        return self._rows, self.events.state_of() if len(self._rows) else None

    def resume(self, rows: Ints, events: W | None) -> None:
        """Resume with these events."""
        self._rows, self.events = rows, self._nothing if events is None else events
