"""Looks after the memory that the history of an engine takes.

Sizes are estimates from what is kept, never from the process, so a restart forgets what the first
run forgot.
"""

from __future__ import annotations

from collections.abc import Iterable

from betimes.engine.stages.driver import Stage

_BYTES_PER_ARRIVAL = 8192
"""There is an arrival between two looks at what is kept for this much of the budget: looking takes
time in proportion to what is kept, and few events are as large."""
_LEFT = 0.75
"""The share of the budget that is left after forgetting, so that it need not happen often."""


class Budget:
    """Looks after the memory of the orders that share an engine."""

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self.sharers = 1
        """How many orders share it: with order="key", one for each key."""
        self.decided: list[int] | None = None
        """What it decides, if somebody wants to know: the time before which to forget, or -1."""
        self.told: list[int] | None = None
        """What to decide, in order, if somebody else says so."""

    def due(self, before: int, now: int) -> bool:
        """Whether it is time to look, when arrivals with these numbers come in."""
        if self._budget is None:
            return False
        every = max(self._budget // self.sharers // _BYTES_PER_ARRIVAL, 1)
        return before // every != now // every

    def look_after(self, stages: Iterable[Stage], before: int, now: int) -> bool:
        """Arrivals with these numbers came in: if too much is kept, the oldest has to go.

        Returns whether it has to; it goes when the next event comes.
        """
        stages = list(stages)
        start = self._too_old(stages, before, now) if self.told is None else self.told.pop(0)
        if self.decided is not None:
            self.decided.append(start)
        for stage in stages if start >= 0 else ():
            stage.finality.forget_before(start)
        return start >= 0

    def _too_old(self, stages: list[Stage], before: int, now: int) -> int:
        """What begins before this time has to go; -1 if nothing has to."""
        if self._budget is None or not self.due(before, now):
            return -1
        budget = self._budget // self.sharers
        pieces = [piece for stage in stages for piece in stage.tactic.history()]
        if sum([size for _, size in pieces]) <= budget:
            return -1
        left = budget * _LEFT
        for start, size in sorted(pieces, reverse=True):
            left -= size
            if left < 0:
                return start
        return -1
