"""What a job has done so far: totals that survive restarts, and how long results took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from betimes.engine.stats import DetectorStats
from betimes.model.change import LATE, REJECTED, Change


class Totals(msgspec.Struct):
    """Counts since the beginning of the stream, over all runs of a job."""

    rows: int = 0
    batches: int = 0
    found: int = 0
    """Results announced, provisional or final."""
    confirmed: int = 0
    deleted: int = 0
    final: int = 0
    """Results that became final, minus those that a repair took back."""
    late: int = 0
    """Events that came after their place had settled, whatever `late` says to do with them."""
    rejected: int = 0
    early: int = 0
    """Sum of the times between a result and its announcement, in microseconds."""
    finals: dict[str, tuple[int, float]] = {}
    """For each detector, how many results became final, and their mean latency."""

    @property
    def standing(self) -> int:
        return self.found - self.deleted

    @property
    def latency_provisional(self) -> float | None:
        return self.early / self.found if self.found else None


class Meter:
    """Counts changes and measures how long results took to become final."""

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self._before = dict(totals.finals)
        self._late_before = totals.late
        self._here: Counter[str] = Counter()

    def count(self, rows: int, changes: Iterable[Change], rejected: int) -> None:
        totals = self.totals
        totals.rows += rows
        totals.batches += 1
        totals.rejected += rejected
        for change in changes:
            if change.type in (LATE, REJECTED):
                totals.rejected += change.type == REJECTED
                continue
            if change.change_type == "delete":
                totals.deleted += 1
                totals.final -= change.status == "final"
                continue
            if change.change_type == "insert":
                totals.found += 1
                totals.early += max(0, change.detected_at - change.ts)
            else:
                totals.confirmed += 1
            if change.status == "final":
                totals.final += 1
                self._here[change.detector] += 1

    def read(self, stats: dict[str, DetectorStats]) -> None:
        """Add what the engine has counted in this process."""
        self.totals.late = self._late_before + sum(reading.late for reading in stats.values())
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
