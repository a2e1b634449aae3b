"""Events of a compiled pattern that wait until the ordering unit hands them out.

The unit knows events by row numbers, which increase. Events are kept in the form that the compiled
loop takes, in arrays with room for more, and a compiled loop looks them up. What the unit no longer
holds is dropped once it is the larger part, so each event is moved only a few times.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.engine.stages.columns.history import CodedEvents, Knows
from betimes.engine.stages.tactic import Ints
from betimes.model import stored
from betimes.patterns.kernel import N_EVENT, hand_out

Floats = npt.NDArray[np.float64]

_ROOM = 256
SPARE = 4096
"""Up to this many rows more than needed are kept, so that dropping them is rare."""


class Promised(CodedEvents):
    """Events that were handed out, but are still where they wait until somebody looks at them.

    Most are not looked at: a compiled loop moves them to where they are handled. All rows wait.
    """

    __slots__ = ("at", "room", "rows", "times")

    def __init__(self, room: CodedRoom, rows: Ints, times: Ints, at: Ints) -> None:
        super().__init__(None, None, room.known)
        self.room = room
        self.rows = rows
        self.times = times
        self.at = at

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ts(self) -> Ints:
        return self.times

    def _look(self) -> tuple[Ints, Floats]:
        events, _ = self.room.take(self.rows, self.at)
        self._events, self._values = events.events, events.values
        return self._events, self._values


class CodedRoom:
    """Coded events by row number."""

    def __init__(self, columns: int, known: Knows) -> None:
        self.known = known
        self._rows: Ints = np.empty(_ROOM, np.int64)
        self._events: Ints = np.empty((N_EVENT, _ROOM), np.int64)
        self._values: Floats = np.empty((columns, _ROOM))
        self._low = self._high = 0
        """Where in the arrays those begin and end that wait."""
        self._widest = 0
        """As many events as came at once, when there was no room for them."""

    def __len__(self) -> int:
        return self._high - self._low

    @property
    def events(self) -> Ints:
        """All events that wait."""
        return self._events[:, self._low : self._high]

    def spare(self, count: int) -> Ints:
        """Room for this many events, behind those that wait: `put` finds them there."""
        self._fit(count)
        return self._events[:, self._high : self._high + count]

    def put(self, rows: Ints, first: int, events: Ints, values: Floats) -> None:
        """Keep events under these numbers, the first of which is 0 for the unit's number `first`.

        What was written to the spare room is here already.
        """
        count = len(rows)
        if events.base is not self._events:
            self._fit(count)
            self._events[:, self._high : self._high + count] = events
        low, high = self._high, self._high + count
        np.add(rows, first, out=self._rows[low:high])
        if len(values):
            self._values[:, low:high] = values
        self._high = high

    def _fit(self, count: int) -> None:
        """Make room for this many more."""
        if self._high + count > len(self._rows):
            self._widest = max(self._widest, count)
            self._keep(slice(self._low, self._high))

    def arrays(self) -> tuple[Ints, Ints, Floats, int, int]:
        """Rows, events and values, and where those begin and end that wait."""
        return self._rows, self._events, self._values, self._low, self._high

    def take(self, rows: Ints, at: Ints) -> tuple[CodedEvents, Ints]:
        """The events of these rows that wait here, handed out at these arrivals; and their rows."""
        count = len(rows)
        events = np.empty((N_EVENT, count), np.int64)
        values, which = np.empty((len(self._values), count)), np.empty(count, np.int64)
        found = hand_out(*self.arrays(), rows, at, events, values, 0, which)
        if found < count:
            events, values, rows = events[:, :found], values[:, :found], rows[which[:found]]
        return CodedEvents(events, values, self.known), rows

    def trim(self, held: Ints, *, at_once: bool = False) -> None:
        """Drop what the unit no longer holds, once it is the larger part, or at once."""
        most = 2 * len(held) + SPARE
        if not at_once and len(self) <= most:
            return
        known = self._rows[self._low : self._high]
        if not len(held):
            self._low = self._high = 0
            return
        self._low += int(known.searchsorted(held.min()))
        if at_once or len(self) > most:
            known = self._rows[self._low : self._high]
            held = np.sort(held)
            index = known.searchsorted(held)
            # Clock events are held too, but do not wait here.
            index = index[known.take(index, mode="clip") == held] if len(known) else index[:0]
            self._keep(self._low + index)

    def _keep(self, which: Ints | slice) -> None:
        """Keep only these; make room if there is too little for the widest batch, or far too much.

        Otherwise they move to the front: memory that nobody has touched before takes long to touch.
        """
        rows, events, values = self._rows[which], self._events[:, which], self._values[:, which]
        count = len(rows)
        room = 2 * (count + self._widest) + _ROOM
        if not room <= 2 * len(self._rows) <= 8 * room:
            self._rows = np.empty(room, np.int64)
            self._events = np.empty((N_EVENT, room), np.int64)
            self._values = np.empty((len(values), room))
        self._rows[:count], self._events[:, :count] = rows, events
        self._values[:, :count] = values
        self._low, self._high = 0, count

    def state_of(self) -> tuple[Ints, tuple[Ints, Floats] | None]:
        """Everything needed to resume elsewhere."""
        low, high = self._low, self._high
        events = self._events[:, low:high].copy(), self._values[:, low:high].copy()
        return self._rows[low:high].copy(), events if high > low else None

    def resume(self, rows: Ints, kept: tuple[Ints, Floats] | None) -> None:
        """Resume with these events."""
        stored.increasing(rows, "the rows of what waits")
        count = 0 if kept is None else kept[0].shape[1]
        stored.require(count == len(rows), "some of what waits is missing")
        self._low = self._high = 0
        if kept is not None:
            self.put(rows, 0, *kept)
