"""When something could be made from an event: with it, all earlier ones of its key were known."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.stages.rows.history import EventRows

Ints = npt.NDArray[np.int64]

_NEAR = 64
"""Within so many events, looking at each of them takes less time than a list for all keys."""


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
        if row - low > _NEAR:
            return max(at, self._before[row])
        when, key = self._at, keys[row]
        later = (when[low:row] > at).nonzero()[0].tolist()
        return max([at, *(when.item(low + n) for n in later if keys[low + n] == key)])

    def known(self, row: int) -> int:
        """When all earlier events of its key were known; -1 if there is none."""
        if self._keys is None:
            return self._newest.item(row - 1) if row else -1
        return self._before[row]

    @cached_property
    def _before(self) -> list[int]:
        """With which arrival all earlier events of its key were known, for each event."""
        assert self._keys is not None
        newest: dict[Any, int] = {}
        found = []
        for key, at in zip(self._keys, self._at.tolist(), strict=True):
            before = newest.get(key, -1)
            found.append(before)
            if at > before:
                newest[key] = at
        return found
