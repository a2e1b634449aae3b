"""What the readers of a detector remember of it, so that one message can take back a lot.

On-demand retraction lists the outputs that it takes back. Full retraction only says "everything
after number i is void" (paper *speculation*, section 4.3), and the readers look up what that is.
What a detector publishes for a key is numbered by the places of the events that caused it. Readers
have these anyway, and they stay valid after a replay, where the paper's counter has to be reset.
"""

from __future__ import annotations

from bisect import bisect_left, insort_right
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec

from betimes.engine.news.news import News, Void
from betimes.engine.news.outputs import Output, Outputs

_cause = attrgetter("cause")


class Ledger:
    """The outputs of one detector that may still be taken back.

    Most detectors never send such a message. Until the first one arrives, outputs are only put
    aside; then they are sorted by key and cause.
    """

    def __init__(self) -> None:
        self._aside: dict[str, Output] = {}
        self._published: dict[Any, list[Output]] | None = None
        self._ages: deque[tuple[int, list[Output]]] = deque()
        """What was noted together, with the newest cause."""
        self._horizon = -1

    def read(self, news: News) -> News:
        """The news with what it takes back."""
        if news.quiet and not news.voids:
            self._horizon = news.reach
            self._forget()
            return news
        if news.voids:
            self._sort()
        for output in news.deleted:
            self._remove(output)
        if news.voids:
            gone = [(output, void.why) for void in news.voids for output in self._void(void)]
            news = msgspec.structs.replace(
                news,
                deleted=Outputs.concat([news.deleted, Outputs.of([output for output, _ in gone])]),
                whys=(*news.whys, *(why for _, why in gone)),
                voids=(),
            )
        self.note(news.inserted)
        # What this news takes back may be older: it was sent before the horizon moved.
        self._horizon = news.reach
        self._forget()
        return news

    def note(self, outputs: Iterable[Output]) -> None:
        """Note outputs that were published."""
        noted = list(outputs)
        if not noted:
            return
        self._ages.append((max(output.cause[0] for output in noted), noted))
        if self._published is None:
            self._aside.update((output.id, output) for output in noted)
        else:
            self._publish(noted)

    def _publish(self, outputs: Iterable[Output]) -> None:
        assert self._published is not None
        for output in outputs:
            insort_right(self._published.setdefault(output.key, []), output, key=_cause)

    def _sort(self) -> None:
        if self._published is None:
            self._published = {}
            self._publish(o for o in self._aside.values() if o.cause[0] >= self._horizon)
            self._aside.clear()

    def _void(self, void: Void) -> list[Output]:
        assert self._published is not None
        mine = self._published.get(void.key, [])
        at = bisect_left(mine, void.since, key=_cause)
        gone = mine[at:]
        del mine[at:]
        return gone

    def _remove(self, output: Output) -> None:
        if self._published is None:
            self._aside.pop(output.id, None)
            return
        mine = self._published[output.key]
        at = bisect_left(mine, output.cause, key=_cause)
        while mine[at].id != output.id:
            at += 1
        del mine[at]

    def _forget(self) -> None:
        horizon = self._horizon
        while self._ages and self._ages[0][0] < horizon:
            _, noted = self._ages.popleft()
            if self._published is None:
                for output in noted:
                    known = self._aside.get(output.id)
                    if known is not None and known.cause[0] < horizon:
                        del self._aside[output.id]
                continue
            for key in {output.key for output in noted}:
                mine = self._published.get(key)
                if mine is not None:
                    del mine[: bisect_left(mine, (horizon,), key=_cause)]
                    if not mine:
                        del self._published[key]
