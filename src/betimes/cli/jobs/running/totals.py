"""What a job has done so far: totals that survive restarts, and how long results took."""

from __future__ import annotations

from collections import Counter

import msgspec
import pyarrow as pa

from betimes.engine.stats import DetectorStats
from betimes.host.joining import together
from betimes.host.tally import Tally, finals_of


class Totals(msgspec.Struct):
    """Counts since the beginning of the stream, over all runs of a job."""

    rows: int = 0
    batches: int = 0
    tally: Tally = msgspec.field(default_factory=Tally)
    """Changes of each kind. Locally, `late` counts late events whatever `late` says to do."""
    finals: dict[str, tuple[int, float]] = {}
    """For each detector, how many results became final, and their mean latency."""

    @property
    def standing(self) -> int:
        """Results that were found and not taken back."""
        return self.tally.inserted - self.tally.deleted

    @property
    def latency_provisional(self) -> float | None:
        return self.tally.waited / self.tally.inserted if self.tally.inserted else None


class Meter:
    """Counts changes and measures how long results took to become final."""

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self._before = dict(totals.finals)
        self._late_before = totals.tally.late
        self._here: Counter[str] = Counter()

    def count(self, rows: int, changes: pa.Table) -> None:
        self.totals.rows += rows
        self.totals.batches += 1
        self.totals.tally += Tally.of(changes)
        self._here += finals_of(changes)

    def read(self, stats: dict[str, DetectorStats]) -> None:
        """Add what the engine has counted in this process."""
        self.totals.tally.late = self._late_before + sum(each.late for each in stats.values())
        self.totals.finals = dict(self._before)
        for reading in together(stats.values()):
            here = self._here[reading.detector]
            if reading.latency_final is not None and here:
                n, mean = self._before.get(reading.detector, (0, 0.0))
                total = n * mean + here * reading.latency_final
                self.totals.finals[reading.detector] = n + here, total / (n + here)

    @property
    def latency_final(self) -> float | None:
        count = sum(n for n, _ in self.totals.finals.values())
        total = sum(n * mean for n, mean in self.totals.finals.values())
        return total / count if count else None
