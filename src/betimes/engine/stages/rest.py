"""Rest: a stage at which nothing happens except that its clock moves.

Most upper stages wait for something to be found below. Until then, only clock events arrive, in a
live stream one by one. If the unit holds nothing, waits to measure nothing and doubts nothing, and
no output of the stage is open, a clock event moves the clock, and with it how far order is certain,
and does nothing else. Such events are put aside, and the unit gets them in one batch before anybody
looks at it: where a stream is cut makes no difference to a unit.
"""

from __future__ import annotations

from betimes.model.batch import EventBatch
from betimes.model.event import TICK
from betimes.ordering import NEVER

_MOST = 256
"""The unit gets what was put aside at the latest after this many batches."""


class Rest:
    """Clock events that were put aside, and how far the clock has come with them."""

    __slots__ = ("_slack", "_until", "aside", "clock")

    def __init__(self) -> None:
        self.aside: list[EventBatch] = []
        self.clock = NEVER
        self._slack = 0
        self._until = NEVER

    def begin(self, until: int, clock: int, slack: int) -> None:
        """Up to the time `until`, clock events will only move the clock; NEVER if they do more."""
        self._until, self.clock, self._slack = until, clock, slack

    def takes(self, batch: EventBatch) -> bool:
        """Whether clock events can be put aside; if so, they are."""
        if self._until == NEVER or len(self.aside) == _MOST or TICK in batch.types:
            return False
        ts = batch.ts
        newest = ts.item(0) if len(ts) == 1 else int(ts.max())
        if newest > self._until:
            return False
        self.aside.append(batch)
        self.clock = max(self.clock, newest)
        return True

    @property
    def settled(self) -> int:
        """Up to where order is certain; until something was learned, the newest instant is open."""
        return self.clock - max(self._slack, 1)

    @property
    def end(self) -> tuple[int, int]:
        """Clock and slack now."""
        return self.clock, self._slack

    def wake(self) -> EventBatch:
        """What was put aside."""
        aside, self.aside = self.aside, []
        return EventBatch.concat(aside)
