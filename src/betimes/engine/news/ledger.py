"""What the readers of a detector remember of it, so that one message can take back a lot.

On-demand retraction lists the outputs that it takes back. Full retraction only says "everything
after number i is void" (paper *speculation*, section 4.3), and the readers look up what that is.
What a detector publishes for a key is numbered by the places of the events that caused it. Readers
have these anyway, and they stay valid after a replay, where the paper's counter has to be reset.
"""

from __future__ import annotations

from bisect import bisect_left, insort_right
from collections import deque
from operator import attrgetter
from typing import Any

from betimes.engine.news.news import News, Output, Void

_cause = attrgetter("cause")


class Ledger:
    """The outputs of one detector that may still be taken back.

    Most detectors never send such a message. Until the first one arrives, news is only put aside;
    then it is sorted by key and cause.
    """

    def __init__(self) -> None:
        self._aside: deque[tuple[int, list[Output]]] = deque()
        self._gone: set[int] = set()
        """Outputs that were taken back one by one while they were put aside."""
        self._published: dict[Any, list[Output]] | None = None
        self._ages: deque[tuple[int, Any]] = deque()
        self._horizon = -1

    def read(self, news: News, horizon: int) -> None:
        """Look up what news takes back; nothing goes back to causes before the horizon."""
        if self._published is None and not news.voids:
            self._gone.update(map(id, news.deleted))
            self.note(news.inserted)
        else:
            self._sort()
            for output in news.deleted:
                self._remove(output)
            for void in news.voids:
                news.deleted += self._void(void)
            self.note(news.inserted)
        # What this news takes back may be older: it was sent before the horizon moved.
        self._horizon = horizon
        self._forget(horizon)

    def note(self, outputs: list[Output]) -> None:
        """Note outputs that were published."""
        if self._published is None:
            if outputs:
                self._aside.append((max(output.cause[0] for output in outputs), list(outputs)))
            return
        for output in outputs:
            insort_right(self._published.setdefault(output.key, []), output, key=_cause)
            self._ages.append((output.cause[0], output.key))

    def _sort(self) -> None:
        if self._published is None:
            self._published = {}
            for _, outputs in self._aside:
                self.note([
                    output
                    for output in outputs
                    if output.cause[0] >= self._horizon and id(output) not in self._gone
                ])  # fmt: skip
            self._aside.clear()
            self._gone.clear()

    def _void(self, void: Void) -> list[Output]:
        assert self._published is not None
        mine = self._published.get(void.key, [])
        at = bisect_left(mine, void.since, key=_cause)
        gone = mine[at:]
        del mine[at:]
        for output in gone:
            output.why = void.why
        return gone

    def _remove(self, output: Output) -> None:
        assert self._published is not None
        mine = self._published[output.key]
        at = bisect_left(mine, output.cause, key=_cause)
        while mine[at] is not output:
            at += 1
        del mine[at]

    def _forget(self, horizon: int) -> None:
        while self._aside and self._aside[0][0] < horizon:
            self._gone.difference_update(map(id, self._aside.popleft()[1]))
        while self._ages and self._ages[0][0] < horizon:
            _, key = self._ages.popleft()
            mine = self._published.get(key) if self._published is not None else None
            if mine is not None and self._published is not None:
                del mine[: bisect_left(mine, (horizon,), key=_cause)]
                if not mine:
                    del self._published[key]
