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

    def look_after(self, stages: Iterable[Stage], before: int, now: int) -> None:
        """Arrivals with these numbers came in: if too much is kept, the oldest has to go."""
        if self._budget is None:
            return
        budget = self._budget // self.sharers
        every = max(budget // _BYTES_PER_ARRIVAL, 1)
        if before // every == now // every:
            return
        stages = list(stages)
        pieces = sorted((p for stage in stages for p in stage.tactic.history()), reverse=True)
        if sum(size for _, size in pieces) <= budget:
            return
        left = budget * _LEFT
        for start, size in pieces:
            left -= size
            if left < 0:
                for stage in stages:
                    stage.finality.forget_before(start)
                return
