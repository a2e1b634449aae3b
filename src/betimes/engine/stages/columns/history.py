"""What compiled patterns have handled: segments of events in order, with undo logs."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.news.news import Output
from betimes.engine.stages.driver import Ints
from betimes.patterns.kernel import ARRIVAL, TS

Floats = npt.NDArray[np.float64]


class Segment(msgspec.Struct):
    """Events in order, what they made, and the states of the keys before they touched them."""

    stamp: int
    events: Ints
    own: Floats
    undo: Ints
    outputs: list[Output] = []

    @property
    def first(self) -> tuple[int, int]:
        return int(self.events[TS, 0]), int(self.events[ARRIVAL, 0])

    def insert(self, events: Ints, own: Floats) -> None:
        """Add events at their places."""
        self.events = np.concatenate((self.events, events), axis=1)
        self.own = np.concatenate((self.own, own), axis=1)
        order = np.lexsort((self.events[ARRIVAL], self.events[TS]))
        self.events, self.own = self.events[:, order], self.own[:, order]
