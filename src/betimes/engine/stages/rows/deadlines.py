"""Deadlines: detectors that want to be called at a certain time, even if no event comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from betimes.engine.news.digests import encode
from betimes.engine.stages.rows.detectors import Detectors
from betimes.engine.stages.tactic import END


class Deadlines:
    """When each key wants to be called, earliest first."""

    def __init__(self, detectors: Detectors) -> None:
        self._detectors = detectors.by_key
        self._armed: dict[Any, int] = {}
        self._heap: list[tuple[int, bytes, Any]] = []
        """Equal deadlines are in the order of their keys, so that a restart does not show."""

    def arm(self, keys: Iterable[Any]) -> None:
        """These keys were touched: note when they want to be called."""
        for key in keys:
            detector = self._detectors.get(key)
            deadline = None if detector is None else detector.deadline
            if deadline is not None and self._armed.get(key) != deadline:
                self._armed[key] = deadline
                heappush(self._heap, (deadline, encode(key), key))

    @property
    def next(self) -> int:
        """When the first of them wants to be called, or earlier."""
        return self._heap[0][0] if self._heap else END

    def due(self, ts: int) -> Iterator[tuple[int, Any]]:
        """The keys whose deadlines have passed at a time, in order.

        A key that went back may have past deadlines again, and is then due again.
        """
        while self._heap and self._heap[0][0] <= ts:
            deadline, _, key = heappop(self._heap)
            if self._armed.get(key) == deadline:
                del self._armed[key]
            detector = self._detectors.get(key)
            if detector is None or detector.deadline is None:
                continue
            if detector.deadline == deadline:
                yield deadline, key
            else:
                self.arm([key])  # it was moved since
