"""When something could be made from an event: with it, all earlier ones of its key were known.

Few events make anything, so this is looked up for those that do. Only events that arrived later
count, and these are after the first place at which anything known had arrived later. If so many are
looked at that a list for all events would have taken less time, there is such a list from then on.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from betimes.engine.stages.rows.history import EventRows

Ints = npt.NDArray[np.int64]


class When:
    """The arrivals with which events, and all earlier ones of their keys, were known."""

    def __init__(self, events: EventRows) -> None:
        self._at, self._keys = events.at, events.keys
        self._left = len(self._at)
        """How many events may be looked at before a list takes less time."""

    @cached_property
    def _newest(self) -> Ints:
        return np.maximum.accumulate(self._at)

    def made(self, rows: list[int]) -> list[int]:
        """When something could be made from each of these events."""
        index = np.array(rows, np.int64)
        if self._keys is None:
            newest: list[int] = self._newest.take(index).tolist()
            return newest
        arrived = self._at.take(index)
        made: list[int] = arrived.tolist()
        first = self._newest.searchsorted(arrived, side="right").tolist()
        for n, (row, low) in enumerate(zip(rows, first, strict=True)):
            if low < row:
                made[n] = self._made(row, low, made[n])
        return made

    def _made(self, row: int, first: int, at: int) -> int:
        """The same for one event, which arrived at `at`; nothing before `first` arrived later."""
        if self._left < 0:
            return max(at, self._before[row])
        assert self._keys is not None
        later = (self._at[first:row] > at).nonzero()[0].tolist()
        self._left -= len(later)
        keys, key = self._keys, self._keys[row]
        mine = [other for other in later if keys[first + other] == key]
        return max([self._at.item(first + other) for other in mine]) if mine else at

    def known(self, row: int) -> int:
        """When all earlier events of its key were known; -1 if there is none."""
        if self._keys is None:
            return self._newest.item(row - 1) if row else -1
        return self._before[row]

    @cached_property
    def _before(self) -> list[int]:
        """With which arrival all earlier events of its key were known, for each event."""
        assert self._keys is not None
        newest: dict[object, int] = {}
        found = []
        for key, at in zip(self._keys, self._at.tolist(), strict=True):
            before = newest.get(key, -1)
            found.append(before)
            if at > before:
                newest[key] = at
        return found
