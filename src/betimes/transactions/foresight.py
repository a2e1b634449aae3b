"""Transactions that others run ahead of an engine: rounds over a cluster.

An operator whose transactions take milliseconds is worth more cores than one process has. So where
the events of a batch are read, by many tasks at once, a **scout** in each task runs them on a copy
of the state as it was after the batch before (`scouts.py`). That is the first round. What came of
it travels with the events, as **memos**: an event, and what its transaction read, wrote and made.

A transaction is a function of its event and of what it reads. So a memo whose reads find the same
values at the place of its event *is* its record, and every other transaction runs in the engine,
in its turn: the second round. Nothing depends on whether memos come, how old the copy was, or who
died on the way; only the time does.

Whether it pays is measured: seconds per transaction in the engine alone, against those in the
engine and the slowest task. As long as it pays, the engine publishes what has changed in the state
after each batch; scouts that find nothing published run nothing.

Only operators without keys have scouts: where the stream is split, there are slots for its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from betimes.model.codec import loads
from betimes.transactions.book import Book, Entry
from betimes.transactions.contest import Contest
from betimes.transactions.copies import Known, Ran, news, watch
from betimes.transactions.effects import same
from betimes.transactions.tracked import Record, View

WORTH = 1e-3
"""Seconds. Shorter transactions are not worth the way."""
MOST = 1 << 16
"""Times for which an operator keeps memos, until their events are run."""
WHAT = "what was run ahead"
_PUBLISHED = "published"

Memo = tuple[str, int, dict[str, Any], Ran]
"""The type, time and payload of an event, and what came of it."""


class Memos:
    """What was run ahead for one operator, and whether that pays."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], list[tuple[dict[str, Any], Ran]]] = {}
        self._contest = Contest()
        self._watched: Book | None = None
        self._ran, self._seconds = 0, 0.0
        self._ahead: float | None = None
        self._worked = 0.0, 0.0
        self.book: Book | None = None
        """The transactions of the operator, as soon as there are any."""
        self.came = self.held = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    def put(self, memos: Iterable[Memo], seconds: Iterable[float]) -> None:
        """Memos of a batch, and the seconds that each scout took."""
        took = list(seconds)
        self._ahead = max(took)
        self._worked = self._worked[0] + max(took), self._worked[1] + sum(took)
        for type, ts, payload, ran in memos:
            self._kept.setdefault((type, ts), []).append((payload, ran))
            self.came += 1
        while len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]

    def take(self, entry: Entry, view: View) -> Record | None:
        """The record of a transaction, if it was run ahead and its reads find the same here."""
        event = entry.event
        known = self._kept.get((event.type, event.ts))
        for payload, ran in known or ():
            if same((payload,), (event.payload,)):
                record = Record(*ran)
                if record.broken(view) is None:
                    self.held += 1
                    return record
        return None

    def drop(self, entry: Entry) -> None:
        """The event was run, so nobody needs its memo any more."""
        self._kept.pop((entry.event.type, entry.event.ts), None)

    # Whether it pays

    def ran(self, count: int, seconds: float) -> None:
        """The engine has run this many transactions in this time."""
        self._ran += count
        self._seconds += seconds

    def worked(self) -> tuple[float, float]:
        """Since this was last asked: the seconds that scouts took, and that all of them worked."""
        seconds, self._worked = self._worked, (0.0, 0.0)
        return seconds

    def judge(self) -> bool:
        """After a batch: whether scouts should run the next one."""
        contest, ahead = self._contest, self._ahead
        if self._ran:
            contest.note(ahead is not None, self._seconds + (ahead or 0.0), self._ran)
            self._ran, self._seconds, self._ahead = 0, 0.0, None
        alone = contest.costs.get(False, 0.0)
        return alone >= WORTH and (True not in contest.costs or contest.chooses())

    # What scouts have to know

    @property
    def watched(self) -> bool:
        """Whether it is known what has changed since the last time."""
        return self.book is not None and self._watched is self.book

    def news(self, *, whole: bool) -> Known:
        """What has changed since the last time, or everything."""
        if self.book is None:
            return []
        if whole:
            self._watched = self.book
            watch(self.book, _PUBLISHED)
        return news(self.book, _PUBLISHED)

    def unwatch(self) -> None:
        """Nobody wants to know."""
        if self._watched is not None:
            self._watched.watchers.pop(_PUBLISHED, None)
            self._watched = None

    def explain(self) -> str:
        """How many were run ahead."""
        return f"{self.held} of {self.came} that ran ahead on the cluster held"


class Published(NamedTuple):
    """What scouts have to know after a batch."""

    whole: bool
    """Whether it is everything, not only what has changed since the batch before."""
    states: dict[str, Known]
    """By the name of the operator."""


class Foresight:
    """What is run ahead for all operators of one engine."""

    def __init__(self) -> None:
        self._operators: dict[str, Memos] = {}

    def of(self, name: str) -> Memos:
        """The memos of an operator, which wants some."""
        return self._operators.setdefault(name, Memos())

    def take(self, foreseen: Iterable[tuple[int, bytes]]) -> None:
        """What scouts have made of the next batch, and which task each of them was."""
        seconds: dict[str, dict[int, float]] = {}
        memos: dict[str, list[Memo]] = {}
        for task, data in foreseen:
            for name, (took, some) in loads(data, WHAT).items():
                times = seconds.setdefault(name, {})
                times[task] = times.get(task, 0.0) + took
                memos.setdefault(name, []).extend(some)
        for name, some in memos.items():
            if name in self._operators:
                self._operators[name].put(some, seconds[name].values())

    def publish(self, *, whole: bool) -> Published | None:
        """After a batch: what scouts have to know; None if they should not run."""
        wanted: Mapping[str, Memos] = {
            name: memos for name, memos in self._operators.items() if memos.judge()
        }
        for name, memos in self._operators.items():
            if name not in wanted:
                memos.unwatch()
        if not wanted:
            return None
        whole = whole or not all(memos.watched for memos in wanted.values())
        return Published(whole, {name: memos.news(whole=whole) for name, memos in wanted.items()})
