"""What a run has done so far: counts that survive a restart, and readings of the moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from betimes.engine.stats import DetectorStats
from betimes.model.change import LATE, REJECTED, Change


class Tally(msgspec.Struct):
    """Counts since the beginning of the stream."""

    rows: int = 0
    batches: int = 0
    found: int = 0
    """Results that were announced, provisional or final."""
    confirmed: int = 0
    deleted: int = 0
    final: int = 0
    """Results that became final, less those that were repaired."""
    late: int = 0
    """Events that came after their place had settled, whatever was done about it."""
    rejected: int = 0
    early: int = 0
    """Microseconds between results and their announcement, all together."""
    finals: dict[str, tuple[int, float]] = {}
    """For each detector, results that became final before this process began, and their mean
    latency."""

    @property
    def standing(self) -> int:
        return self.found - self.deleted

    @property
    def latency_provisional(self) -> float | None:
        return self.early / self.found if self.found else None


class Meter:
    """Counts changes, and knows how late results became final."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._before = dict(tally.finals)
        self._late_before = tally.late
        self._here: Counter[str] = Counter()

    def count(self, rows: int, changes: Iterable[Change], rejected: int) -> None:
        tally = self.tally
        tally.rows += rows
        tally.batches += 1
        tally.rejected += rejected
        for change in changes:
            if change.type in (LATE, REJECTED):
                tally.rejected += change.type == REJECTED
                continue
            if change.change_type == "delete":
                tally.deleted += 1
                tally.final -= change.status == "final"
                continue
            if change.change_type == "insert":
                tally.found += 1
                tally.early += max(0, change.detected_at - change.ts)
            else:
                tally.confirmed += 1
            if change.status == "final":
                tally.final += 1
                self._here[change.detector] += 1

    def read(self, stats: dict[str, DetectorStats]) -> None:
        """Take over what the engine has counted in this process."""
        self.tally.late = self._late_before + sum(reading.late for reading in stats.values())
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
        self.tally.finals = merged

    @property
    def latency_final(self) -> float | None:
        count = sum(n for n, _ in self.tally.finals.values())
        total = sum(n * mean for n, mean in self.tally.finals.values())
        return total / count if count else None
