"""The path of clock and slack through the arrivals of a batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_NONE: Ints = np.empty(0, np.int64)


class Path:
    """Clock and slack of a stage along the arrivals of a batch."""

    __slots__ = (
        "_arrivals", "_before", "_bounds", "_clocks", "_dense", "_increasing", "_slacks",
    )  # fmt: skip

    def __init__(
        self,
        before: tuple[int, int],
        arrivals: Ints = _NONE,
        clocks: Ints = _NONE,
        slacks: Ints = _NONE,
        bounds: Ints = _NONE,
        *,
        increasing: bool = False,
    ) -> None:
        self._before = before
        self._arrivals = arrivals
        self._clocks = clocks
        self._slacks = slacks
        self._bounds = bounds
        """How far time had come before the batch, then after each arrival; empty if unused."""
        self._increasing = increasing
        self._dense: bool | None = None
        """Whether the number of an arrival is its index; None if nobody has looked."""

    def _is_dense(self) -> bool:
        if self._dense is None:
            arrivals, count = self._arrivals, len(self._arrivals)
            dense = bool(count) and arrivals.item(-1) - arrivals.item(0) == count - 1
            if dense and not self._increasing:
                # Outputs from below carry the number of an input event, and others may be missing.
                dense = bool((np.diff(arrivals) == 1).all())
            self._dense = dense
        return self._dense

    def at(self, arrival: int) -> tuple[int, int]:
        """Clock and slack when the event with this number had arrived."""
        index = -1
        # Most stages see every arrival; then its number is its index.
        if self._is_dense():
            index = arrival - self._arrivals.item(0)
        if not 0 <= index < len(self._arrivals):
            index = int(self._arrivals.searchsorted(arrival, side="right")) - 1
        if index < 0:
            return self._before
        return self._clocks.item(index), self._slacks.item(index)

    def at_all(self, arrivals: Ints) -> tuple[Ints, Ints]:
        """Clock and slack when the events with these numbers had arrived."""
        if self._is_dense():
            index = arrivals - self._arrivals.item(0)
            if len(index) and index.min() >= 0 and index.max() < len(self._arrivals):
                return self._clocks.take(index), self._slacks.take(index)
        index = self._arrivals.searchsorted(arrivals, side="right") - 1
        if len(index) and index.min() >= 0:
            return self._clocks.take(index), self._slacks.take(index)
        clocks, slacks = (np.full(len(arrivals), value) for value in self._before)
        known = np.flatnonzero(index >= 0)
        clocks[known], slacks[known] = self._clocks[index[known]], self._slacks[index[known]]
        return clocks, slacks

    def reaches(self, ts: int) -> int:
        """The arrival of the batch with which time reaches `ts`; -1 if it was there before."""
        index = min(int(self._bounds.searchsorted(ts)), len(self._arrivals)) - 1
        return int(self._arrivals[index]) if index >= 0 else -1

    def reaches_all(self, ts: Ints) -> Ints:
        """The same for many times."""
        index = np.minimum(self._bounds.searchsorted(ts), len(self._arrivals))
        return np.concatenate(([-1], self._arrivals)).take(index)

    @property
    def time(self) -> int:
        """How far time has come; -1 if nobody asks."""
        return int(self._bounds[-1]) if len(self._bounds) else -1

    @property
    def end(self) -> tuple[int, int]:
        """Clock and slack now."""
        if not len(self._clocks):
            return self._before
        return self._clocks.item(-1), self._slacks.item(-1)
