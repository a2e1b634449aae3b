"""How far the order is certain where the clock alone does not tell.

*At the stages below*, if each source of the stream has its own clock: then the slack of a stage
changes with every event, and a stage above could only learn its largest value. So stages tell each
other instead how far their order was certain, arrival by arrival: what they make after an arrival
is later than what was certain before it.

*Beyond the newest event*, if there are several clock types: one that stays behind the others counts
as later than it is, so the clock can be ahead of every event. No time has passed there: the stream
may end with its newest event, and then nothing may have been found at a deadline after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from betimes.engine.reading.arrivals import Arrivals
from betimes.model.event import TICK

Ints = npt.NDArray[np.int64]

_NOBODY: Ints = np.empty(0, np.int64)


def rises(at: Ints, certain: Ints, before: int) -> Ints | None:
    """The arrivals at which the largest value so far rises, and these values; None if it does not.

    >>> rises(np.array([5, 6, 7]), np.array([10, 8, 12]), 10).tolist()
    [[7], [12]]
    """
    largest = np.maximum.accumulate(certain)
    rising = np.flatnonzero(np.diff(np.maximum(largest, before), prepend=before) > 0)
    return np.stack((at[rising], largest[rising])) if len(rising) else None


class CertainBelow:
    """What a stage has been told by those below."""

    def __init__(self) -> None:
        self.known: list[int] = []
        """How far each of them is certain."""

    def hear(self, at: Ints, told: Sequence[Ints | None]) -> Ints:
        """How far all of them were certain before each arrival; empty if there are none."""
        if not told:
            return _NOBODY
        self.known = self.known or [-1] * len(told)
        columns = [np.full(len(at), before) for before in self.known]
        for n, risen in enumerate(told):
            if risen is not None:
                values = np.concatenate(([self.known[n]], risen[1]))
                columns[n] = values[risen[0].searchsorted(at)]
                self.known[n] = int(risen[1, -1])
        least: Ints = np.minimum.reduce(columns)
        return least


class Newest:
    """How far the events of the clock types have come, if the clock can be ahead of them."""

    def __init__(self, clock: Sequence[str] | None) -> None:
        self._types = (*(clock or ()), TICK)
        self.matters = len(self._types) > 2
        self.ts = -1
        self._along = _NOBODY

    def follow(self, arrivals: Arrivals, clock: Ints) -> None:
        """Note how far they come with each arrival; `clock` is that of the unit after it."""
        if not self.matters:
            return
        batch = arrivals.batch
        counts = np.array([name in self._types for name in batch.types], bool)[batch.codes]
        if arrivals.below is not None:
            counts[arrivals.below[0]] = False  # it may be dated ahead
        # An event ahead of the clock is in doubt.
        times = np.where(counts & (batch.ts <= clock), batch.ts, -1)
        self._along = np.maximum(np.maximum.accumulate(times), self.ts)
        self.ts = int(self._along[-1]) if len(times) else self.ts

    def limit(self, times: Ints) -> Ints:
        """Times along the arrivals, none of them beyond the newest event."""
        return np.minimum(times, self._along) if self.matters else times
