"""When the events of a batch became known, by arrival number."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from betimes.engine.news.making import FEW
from betimes.engine.stages.rows.history import EventRows

Ints = npt.NDArray[np.int64]


class When:
    """The arrivals with which events, and all earlier ones of their keys, were known."""

    def __init__(self, events: EventRows) -> None:
        self._at, self._keys = events.at, events.keys

    @cached_property
    def _newest(self) -> Ints:
        return np.maximum.accumulate(self._at)

    def made(self, row: int) -> int:
        """When something could be made from this event."""
        at, newest = self._at.item(row), self._newest.item(row)
        keys = self._keys
        if keys is None or newest == at:
            return newest
        # Few events have come later than one that they precede, and these are not far away.
        low = int(self._newest.searchsorted(at, side="right"))
        when, key = self._at, keys[row]
        later = (when[low:row] > at).nonzero()[0].tolist()
        return max([at, *(when.item(low + n) for n in later if keys[low + n] == key)])

    def made_all(self, rows: list[int]) -> list[int]:
        """The same for several events."""
        if len(rows) >= FEW:
            newest = self._newest[rows]
            if self._keys is None or (newest == self._at[rows]).all():
                found: list[int] = newest.tolist()
                return found
        return [self.made(row) for row in rows]

    def known(self, row: int) -> int:
        """When all earlier events of its key were known; -1 if there is none."""
        before = self._at[:row]
        if self._keys is None:
            return int(before.max(initial=-1))
        mine = [n for n in range(row) if self._keys[n] == self._keys[row]]
        return int(before[mine].max(initial=-1))
