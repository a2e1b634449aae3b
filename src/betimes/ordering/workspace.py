"""What the compiled loop writes to while it handles a batch; nothing in it outlives the call.

It is as wide as the widest batch so far, and as long as the longest buffer: for a unit that holds
little and sees many clock events, far more than its buffer. Units that take turns, as those of an
engine do, share one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.ordering import kernel

Ints = npt.NDArray[np.int64]


class Workspace:
    """Arrays that the loop fills and its caller reads; they only grow."""

    def __init__(self) -> None:
        self.out: Ints = np.empty((kernel.LINKS, 4, 0), np.int64)
        """The released, the replayed and the settled events; where events are compared with those
        that arrived before them, also places in the buffer."""
        self.work: Ints = np.empty((kernel.SIDE + 2, 0), np.int64)
        """The path of clock and slack along the arrivals, and what leads to it; then the rows of
        rejected and of late events."""
        self._no_heads: Ints = np.zeros(0, np.int64)

    def fit(self, room: int, width: int, *, linked: bool) -> None:
        """Make room for a buffer of this many events, and a batch of this many."""
        tables, _, known = self.out.shape
        more = max(tables, kernel.LINKS + linked)
        if room > known or more > tables:
            self.out = np.empty((more, 4, max(room, known)), np.int64)
        if width + kernel.CONFIRM > self.work.shape[1]:
            self.work = np.empty((kernel.SIDE + 2, width + kernel.CONFIRM), np.int64)

    def no_heads(self, n: int) -> Ints:
        """The head starts of events that have none."""
        if len(self._no_heads) < n:
            self._no_heads = np.zeros(n, np.int64)
        return self._no_heads[:n]
