"""The arrivals of one stage in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import Outputs
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.model.unmade import Events

Ints = npt.NDArray[np.int64]


class Arrivals:
    """What arrives at a stage, in order: columns for the ordering unit, events for the detector.

    Clock events that the detector does not take are only columns.
    """

    __slots__ = ("_newest", "at", "batch", "below", "event", "events", "keys", "wanted")

    def __init__(
        self,
        batch: EventBatch,
        at: Ints,
        wanted: Ints,
        events: Events,
        keys: list[Any] | None,
        event: Callable[[int], Event],
        below: tuple[Ints, Outputs] | None = None,
    ) -> None:
        self.batch = batch
        self.at = at
        """The number of the input event that each came with."""
        self.wanted = wanted
        """Which of them the detector takes."""
        self.events = events
        """The ones that it takes."""
        self.keys = keys
        """The key of each of these; None if the detector has a single state."""
        self.event = event
        """Turns any of the arrivals into an event."""
        self.below = below
        """Where outputs of other stages are among them, and these outputs."""
        self._newest: int | None = None

    @property
    def newest(self) -> int:
        """The largest time of any; stages that only need the clock share what arrives."""
        if self._newest is None:
            ts = self.batch.ts
            self._newest = ts.item(0) if len(ts) == 1 else int(ts.max())
        return self._newest

    @property
    def clock_only(self) -> bool:
        """Whether none of them is of a type that the detector takes."""
        return not len(self.wanted)

    def one(self, index: int) -> tuple[Event, int]:
        """An arrival as an event, and its number."""
        return self.event(index), int(self.at[index])
