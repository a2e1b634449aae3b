"""What a stage did between two readings."""

from __future__ import annotations

from betimes.engine.attenuation import Load
from betimes.engine.stats import StageCounts


class Meter:
    """Measures what a stage does between two readings."""

    def __init__(self, counts: StageCounts) -> None:
        self._counts = counts
        self._before = (0.0, 0.0, 0)
        self.last: Load | None = None

    def read(self, slack: int) -> Load:
        counts, before = self._counts, self._before
        self._before = (counts.busy, counts.replaying, counts.handled)
        self.last = Load(
            busy=counts.busy - before[0],
            replaying=counts.replaying - before[1],
            released=counts.handled - before[2],
            slack=slack,
        )
        return self.last
