"""A column that grows at its end: what is added is copied, what was there mostly stays in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]


class Growing:
    """Joins columns, of which the first is the end of what it has joined before."""

    __slots__ = ("_end", "_room")

    def __init__(self) -> None:
        self._room: Column | None = None
        """The column, with room for more behind it."""
        self._end = 0
        """Where the column ends there."""

    def join(self, parts: Sequence[Column]) -> Column:
        """The first part with the others behind it; nobody else may join anything to it."""
        first, *others = parts
        count, more = len(first), sum(map(len, others))
        room, end = self._room, self._end
        if room is None or first.base is not room or end + more > len(room):
            room, end = np.empty(2 * (count + more), first.dtype), count
            self._room = room
            room[:count] = first
        start = end - count
        for part in others:
            room[end : end + len(part)] = part
            end += len(part)
        self._end = end
        return room[start:end]
