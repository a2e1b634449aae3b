"""What the readers of a detector remember of it, so that one message can take back a lot.

On-demand retraction names the outputs that it takes back. Full retraction says only "everything
after number i is void" (paper *speculation*, section 4.3), and whoever reads the detector looks up
what that is. What a detector publishes for a key is numbered by the places of the events that
caused it: they are in the reader's hands already, and go on counting where the paper's counter
would have to be set back after a replay.
"""

from __future__ import annotations

from bisect import bisect_left, insort_right
from collections import deque
from operator import attrgetter
from typing import Any

from betimes.engine.messages import News, Output, Void

_cause = attrgetter("cause")


class Ledger:
    """The outputs of one detector that may still be taken back: by key, in order of cause."""

    def __init__(self) -> None:
        self._published: dict[Any, list[Output]] = {}
        self._ages: deque[tuple[int, Any]] = deque()

    def read(self, news: News, horizon: int) -> None:
        """Look up what news takes back; causes before the horizon will not be gone back to."""
        for output in news.deleted:
            self._remove(output)
        for void in news.voids:
            news.deleted += self._void(void)
        self.note(news.inserted)
        while self._ages and self._ages[0][0] < horizon:
            self._forget(self._ages.popleft()[1], horizon)

    def note(self, outputs: list[Output]) -> None:
        """These were published."""
        for output in outputs:
            mine = self._published.setdefault(output.key, [])
            insort_right(mine, output, key=_cause)
            self._ages.append((output.cause[0], output.key))

    def _void(self, void: Void) -> list[Output]:
        mine = self._published.get(void.key, [])
        at = bisect_left(mine, void.since, key=_cause)
        gone = mine[at:]
        del mine[at:]
        for output in gone:
            output.why = void.why
        return gone

    def _remove(self, output: Output) -> None:
        mine = self._published[output.key]
        at = bisect_left(mine, output.cause, key=_cause)
        while mine[at] is not output:
            at += 1
        del mine[at]

    def _forget(self, key: Any, horizon: int) -> None:
        mine = self._published.get(key)
        if mine is not None:
            del mine[: bisect_left(mine, (horizon,), key=_cause)]
            if not mine:
                del self._published[key]
