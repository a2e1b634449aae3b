"""Which events move the clock, and by how much.

The clock of a unit is the largest time seen on its clock types (paper *slack*, section II-E.1). The
user names these types. This module answers two questions that the paper leaves open. Both answers
come from blocks of arrivals whose borders depend only on how many events have arrived, never on
how the stream was cut into batches:

* If no clock type is given, `ClockLearner` picks the type whose newest event is, on average, least
  out of date: the mean gap between its events plus their mean lag behind each other. Frequent types
  have small gaps; types with steady delays stay in order. Until the first choice, every event moves
  the clock. Then the clock and the slack are learned again as if the chosen type had been the clock
  from the beginning. The choice is reviewed, and changes when the type falls silent or another one
  would be twice as good.
* If several clock types have different delays, `OffsetLearner` measures the minimum lag of each
  type's newest event behind the leading type. An event of a slower type then tells that the time
  of the leader is at least `ts + offset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.model.duration import readable
from betimes.model.errors import OptionError

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_NONE: Ints = np.empty(0, np.int64)

EVERY = "*"
"""As a clock type: every event moves the clock (textbook K-slack)."""

FIRST_CHOICE, REVIEW, OFFSETS = 256, 4096, 1024
FEWEST = 16
"""A type is judged only if a block has at least this many of its events."""


def parse_clock(clock: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Clock types as a tuple; None means "learn it", `("*",)` means every type.

    >>> parse_clock("A"), parse_clock(["A", "B"]), parse_clock(None)
    (('A',), ('A', 'B'), None)
    """
    if clock is None:
        return None
    several: Iterable[str] = (clock,) if isinstance(clock, str) else clock
    types = tuple(several) if isinstance(several, Iterable) else ()
    if not types or not all(isinstance(name, str) and name for name in types):
        raise OptionError(
            f"expected clock to be one or more event types, {EVERY!r} for every type, or None to "
            f"learn it from the stream, got clock={clock!r}"
        )
    return tuple(dict.fromkeys(types))


class BlockOfArrivals:
    """Collects arrivals until a block is full."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.missing = size
        self._parts: list[tuple[Any, ...]] = []

    def note(self, ts: Ints, codes: Codes, *more: Ints) -> None:
        self._parts.append((ts, codes, *more))
        self.missing -= len(ts)

    def sources(self) -> Ints:
        """The sources of the arrivals of this block, if they have any."""
        return np.unique(np.concatenate([_NONE, *(part[3] for part in self._parts if part[3:])]))

    def state_of(self) -> dict[str, Any]:
        """Everything that `resume` needs."""
        kept = {name: value for name, value in vars(self).items() if name != "_parts"}
        return {**kept, "parts": [list(part) for part in self._parts]}

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` returned."""
        for name, value in kept.items():
            if name != "parts":
                setattr(self, name, value)
        self._parts = [tuple(part) for part in kept["parts"]]

    def drain(self, size: int) -> list[Any]:
        """Return the block's columns, and begin a new block of the given size."""
        columns = [np.concatenate(part) for part in zip(*self._parts, strict=True)]
        self.size = self.missing = size
        self._parts = []
        return columns


class ClockLearner(BlockOfArrivals):
    """Chooses the clock type. `chosen` is its code, `reason` explains the choice."""

    def __init__(self, max_skew: int) -> None:
        super().__init__(FIRST_CHOICE)
        self.max_skew = max_skew
        self.chosen: int | None = None
        self.reason = f"every type, until {FIRST_CHOICE} events have arrived"

    def begin_with(self, code: int, name: str) -> None:
        """Start with the type that an earlier run chose; it is still reviewed."""
        self.chosen = code
        self.reason = f"{name!r}: chosen when the stream was calibrated"

    def choose(self, ts: Ints, codes: Codes, types: Sequence[str]) -> bool:
        """Judge the types of a block; return whether the choice changed."""
        scores = {}
        for code in np.unique(codes).tolist():
            times = ts[codes == code]
            if len(times) >= FEWEST:
                scores[code] = self._staleness(times)
        if not scores:
            return False
        best = min(scores, key=lambda code: (sum(scores[code]), code))
        current = self.chosen
        if current in scores and sum(scores[current]) <= 2 * sum(scores[best]):
            best = current
        gap, behind = scores[best]
        share = np.count_nonzero(codes == best) / len(codes)
        self.reason = (
            f"{types[best]!r}: {share:.0%} of the events, {readable(gap)} apart, "
            f"{readable(behind)} out of order on average"
        )
        if current is not None and best != current:
            silent = "fell silent" if current not in scores else "became unsteady"
            self.reason += f" (before: {types[current]!r}, which {silent})"
        self.chosen = best
        return bool(best != current)

    def _staleness(self, times: Ints) -> tuple[float, float]:
        """Mean gap and mean lag of a type's events, ignoring implausible times."""
        times = times[times - np.median(times) <= self.max_skew]
        low, high = np.quantile(times, (0.1, 0.9))
        gap = float(high - low) / (0.8 * len(times))
        return gap, float(np.mean(np.maximum.accumulate(times) - times))


class OffsetLearner(BlockOfArrivals):
    """Measures how far the clock types lag behind the leading one."""

    def __init__(self, max_skew: int) -> None:
        super().__init__(OFFSETS)
        self.max_skew = max_skew

    def measure(self, ts: Ints, codes: Codes, clock: Sequence[int]) -> dict[int, int]:
        """The offset of each clock type that has enough events in the block."""
        counts = {code: int(np.count_nonzero(codes == code)) for code in clock}
        judge = max(clock, key=lambda code: counts[code])
        if counts[judge] < FEWEST:
            return {}
        by_judge = np.flatnonzero(codes == judge)
        lags = {judge: 0}
        for code in clock:
            if code == judge or counts[code] < FEWEST:
                continue
            sound = (codes == code) & (ts - np.median(ts[codes == code]) <= self.max_skew)
            newest = np.maximum.accumulate(np.where(sound, ts, np.iinfo(np.int64).min))
            seen = by_judge[by_judge > np.flatnonzero(sound)[0]]
            if len(seen) >= FEWEST:
                lags[code] = int(np.min(np.maximum.accumulate(ts[seen]) - newest[seen]))
        leader = min(lags.values())
        return {code: lag - leader for code, lag in lags.items()}
