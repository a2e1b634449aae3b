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
    finals: dict[str, int] = {}
    """For each detector, how many results became final."""

    @property
    def standing(self) -> int:
        """Results that were found and not taken back."""
        return self.tally.inserted - self.tally.deleted

    @property
    def latency_provisional(self) -> float | None:
        return self.tally.waited / self.tally.inserted if self.tally.inserted else None


class Meter:
    """Counts changes, and adds what the engine counts itself.

    The counts of an engine are part of its checkpoint: they cover all runs, like those here.
    """

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self._latencies: dict[str, float] = {}

    def count(self, rows: int, changes: pa.Table) -> None:
        self.totals.rows += rows
        self.totals.batches += 1
        self.totals.tally += Tally.of(changes)
        self.totals.finals = dict(Counter(self.totals.finals) + finals_of(changes))

    def read(self, stats: dict[str, DetectorStats]) -> None:
        """Take over the counts of the engine."""
        self.totals.tally.late = sum(each.late for each in stats.values())
        self._latencies = {
            reading.detector: reading.latency_final
            for reading in together(stats.values())
            if reading.latency_final is not None
        }

    @property
    def latency_final(self) -> float | None:
        """The mean of all results; those of a detector count as often as it has made some."""
        counts = self.totals.finals
        known = [(counts.get(name, 0), mean) for name, mean in self._latencies.items()]
        count = sum(n for n, _ in known)
        return sum(n * mean for n, mean in known) / count if count else None
