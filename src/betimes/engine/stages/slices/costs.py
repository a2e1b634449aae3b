"""What calls of a detector per batch cost: something for each call, and something an event.

The two are told apart by a line through the times of calls of different lengths. What a call costs
whatever its length counts as a part of the snapshot: it is what cutting a slice in two costs.
"""

from __future__ import annotations

from betimes.engine.snapshots.spacing import FADE, OUTLIER, Costs

_SPREAD = 0.01
"""Lengths must differ by so much, as variance over the square of the mean, to tell a line."""


class SliceCosts(Costs):
    """Running means of what a stage of a detector per batch measures about itself."""

    def __init__(self) -> None:
        super().__init__()
        self._weight = self._mean = self._seconds = 0.0
        self._variance = self._covariance = 0.0

    def note_call(self, seconds: float, events: int) -> None:
        """A slice was handled."""
        if self._weight:
            # A process that has to wait for the machine measures times that mean nothing.
            seconds = min(seconds, OUTLIER * (self.overhead + self.process * events))
        self._weight += 1 - FADE * self._weight
        share = 1 / self._weight
        ahead = events - self._mean
        self._mean += share * ahead
        self._variance += share * (ahead * (events - self._mean) - self._variance)
        self._covariance += share * (ahead * (seconds - self._seconds) - self._covariance)
        self._seconds += share * (seconds - self._seconds)

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
        """Seconds of a call whatever its length."""
        return max(self._seconds - self.process * self._mean, 0.0)

    @property
    def snapshot(self) -> float:
        """Seconds that a snapshot costs, with the call that it cuts off."""
        return super().snapshot + self.overhead

    def note_batch(self, disturbed: int, breaches: int, keys: int) -> None:
        """A batch is done: so many keys had to go back, so many of them further than expected."""
        super().note_batch(disturbed, breaches, keys)
        # Each key has segments of its own, in which no others come between.
        self.keys = 1.0
