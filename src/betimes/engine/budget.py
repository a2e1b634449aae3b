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
        if self._budget is None or not self.due(before, now):
            return False
        budget = self._budget // self.sharers
        stages = list(stages)
        pieces = sorted((p for stage in stages for p in stage.tactic.history()), reverse=True)
        if sum(size for _, size in pieces) <= budget:
            return False
        left = budget * _LEFT
        for start, size in pieces:
            left -= size
            if left < 0:
                for stage in stages:
                    stage.finality.forget_before(start)
                return True
        return False
