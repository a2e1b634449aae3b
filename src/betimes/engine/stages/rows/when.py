"""When something could be made from an event: with it, all earlier ones of its key were known."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.stages.rows.history import EventRows

Ints = npt.NDArray[np.int64]

_FEW = 8
"""If less than one event in so many was overtaken, a list for all of them takes longer."""
_NONE: tuple[list[int], list[int]] = [], []


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
        overtaken = self._overtaken
        if overtaken is None:
            return max(at, self._before[row])
        rows, known = overtaken.get(keys[row], _NONE)
        count = bisect_left(rows, row)
        return max(at, known[count - 1]) if count else at

    @cached_property
    def _overtaken(self) -> dict[Any, tuple[list[int], list[int]]] | None:
        """By key, the events that came later than one that they precede; None if they are many.

        With each, the arrival with which it and all of them before it were known.
        """
        at, keys = self._at, self._keys
        assert keys is not None
        least = np.minimum.accumulate(at[::-1])[::-1]
        late = (at[:-1] > least[1:]).nonzero()[0].tolist()
        if len(late) * _FEW > len(keys):
            return None
        found: dict[Any, tuple[list[int], list[int]]] = {}
        for row in late:
            rows, known = found.setdefault(keys[row], ([], []))
            rows.append(row)
            known.append(max(at.item(row), known[-1] if known else -1))
        return found

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
