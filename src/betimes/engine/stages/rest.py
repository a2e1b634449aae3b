"""Rest: a stage at which nothing happens except that its clock moves.

Most upper stages wait for something to be found below. Until then, only clock events arrive, in a
live stream one by one. The unit says up to which time these release nothing, teach it nothing and
leave no doubt. They move the clock, and with it how far order is certain, and do nothing else. Such
events are put aside, and the unit gets them in one batch before anybody looks at it: where a stream
is cut makes no difference to a unit.

A detector with deadlines never rests, because time passes for it, nor does a stage with observers.
"""

from __future__ import annotations

from betimes.model.batch import EventBatch
from betimes.model.event import TICK
from betimes.ordering import NEVER, OrderingUnit

_MOST = 256
"""The unit gets what was put aside at the latest after this many batches."""


class Rest:
    """Clock events that were put aside, and how far the clock has come with them."""

    __slots__ = ("_allowed", "_slack", "_unit", "_until", "aside", "clock")

    def __init__(self, unit: OrderingUnit, *, allowed: bool) -> None:
        self._unit = unit
        self._allowed = allowed
        self.aside: list[EventBatch] = []
        self.clock = NEVER
        self._slack = 0
        self._until: int | None = None
        """Up to which time clock events can be put aside; None if the unit has to be asked."""

    def takes(self, batch: EventBatch, end: tuple[int, int]) -> bool:
        """Whether clock events can be put aside; if so, they are.

        `end` is clock and slack after what the unit got last.
        """
        if not self._allowed or len(self.aside) == _MOST or TICK in batch.types:
            return False
        ts = batch.ts
        if self._until is None:
            self._until, (self.clock, self._slack) = self._unit.still_until, end
        clock = max(self.clock, ts.item(0) if len(ts) == 1 else int(ts.max()))
        if clock > self._until:
            return False
        self.aside.append(batch)
        self.clock = clock
        return True

    @property
    def settled(self) -> int:
        """Up to where order is certain; until something was learned, the newest instant is open."""
        return self.clock - max(self._slack, 1)

    def wake(self) -> tuple[int, int]:
        """Give the unit what was put aside; return clock and slack."""
        aside, self.aside, self._until = self.aside, [], None
        self._unit.feed(EventBatch.concat(aside))
        return self.clock, self._slack

    def disturb(self) -> None:
        """Somebody may change the unit."""
        self._until = None
