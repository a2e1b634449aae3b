"""What a job has done so far: totals that survive restarts, and how long results took."""

from __future__ import annotations

from collections import Counter

import msgspec
import pyarrow as pa

from betimes.engine.stats import DetectorStats
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
        latest: dict[str, list[float]] = {}
        for reading in stats.values():
            if reading.latency_final is not None:
                latest.setdefault(reading.detector, []).append(reading.latency_final)
        merged = dict(self._before)
        for name, means in latest.items():
            n, mean = self._before.get(name, (0, 0.0))
            here = self._here[name]
            total = n * mean + here * sum(means) / len(means)
            merged[name] = (n + here, total / (n + here) if n + here else 0.0)
        self.totals.finals = merged

    @property
    def latency_final(self) -> float | None:
        count = sum(n for n, _ in self.totals.finals.values())
        total = sum(n * mean for n, mean in self.totals.finals.values())
        return total / count if count else None
