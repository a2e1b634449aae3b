"""What calls of a per-batch detector cost: a fixed cost per call, and a cost per event.

A line through the times of calls of different lengths separates the two. The fixed cost counts as
part of the snapshot: it is the price of cutting a slice in two.
"""

from __future__ import annotations

from betimes.engine.snapshots.spacing import FADE, OUTLIER, Costs

_SPREAD = 0.01
"""The least spread of lengths, as variance over squared mean, that determines a line."""


class SliceCosts(Costs):
    """Running means of the costs that a stage of a per-batch detector measures."""

    def __init__(self) -> None:
        super().__init__(apart=True)
        self._weight = self._mean = self._seconds = 0.0
        self._variance = self._covariance = 0.0

    def note_call(self, seconds: float, events: int) -> None:
        """A slice was handled."""
        if self._weight:
            # If the process had to wait for the processor, the measured time means nothing.
            seconds = min(seconds, OUTLIER * (self.overhead + self.process * events))
        self._weight += 1 - FADE * self._weight
        share = 1 / self._weight
        ahead = events - self._mean
        self._mean += share * ahead
        self._variance += share * (ahead * (events - self._mean) - self._variance)
        self._covariance += share * (ahead * (seconds - self._seconds) - self._covariance)
        self._seconds += share * (seconds - self._seconds)
        self._handled += events

    @property
    def process(self) -> float:
        """Seconds to handle an event."""
        if not self._mean:
            return 0.0
        mean = self._seconds / self._mean
        if self._variance <= _SPREAD * self._mean**2:
            return mean
        return min(max(self._covariance / self._variance, mean / 10), mean)

    @property
    def overhead(self) -> float:
        """Seconds per call, whatever its length."""
        return max(self._seconds - self.process * self._mean, 0.0)

    @property
    def snapshot(self) -> float:
        """Seconds that a snapshot costs, including the extra call."""
        return super().snapshot + self.overhead
