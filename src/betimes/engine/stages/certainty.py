"""How far the order is certain at the stages below, if each source of the stream has its own clock.

Then the slack of a stage changes with every event, and a stage above could only learn its largest
value. So stages tell each other instead how far their order was certain, arrival by arrival: what
they make after an arrival is later than what was certain before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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
