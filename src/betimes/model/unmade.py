"""Events that are not made yet: columns, from which each event is made when somebody gets it.

Most events are handed to a detector once, and then only kept so that it could go back. An object
for each would be made in the order of arrival, handed out in another, and freed much later, each
time far from the others in memory. Made when it is handed out, it is freed right after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.model.batch import EventBatch, in_rows, pick
from betimes.model.event import Event

Ints = npt.NDArray[np.int64]
Names = npt.NDArray[np.object_]
Joined = Callable[[list[Names]], Names]


class Unmade:
    """Types, times and payloads of events.

    >>> events = Unmade.of(EventBatch.from_rows([Event("A", 3, {"v": 1}), Event("B", 1, {"v": 2})]))
    >>> events[1], len(events)
    (Event(type='B', ts=1, payload={'v': 2}), 2)
    """

    __slots__ = ("names", "payloads", "ts")

    def __init__(self, names: Names, ts: Ints, payloads: list[dict[str, Any]] | None) -> None:
        self.names = names
        self.ts = ts
        self.payloads = payloads
        """None if all of them are empty."""

    @classmethod
    def of(cls, batch: EventBatch) -> Unmade:
        """The events of a batch."""
        payloads: Any = in_rows(batch).payload
        return cls(np.array(batch.types, object).take(batch.codes), batch.ts, payloads)

    def __len__(self) -> int:
        return len(self.ts)

    def __iter__(self) -> Iterator[Event]:
        names, ts = self.names.tolist(), self.ts.tolist()
        return (
            map(Event, names, ts) if self.payloads is None else map(Event, names, ts, self.payloads)
        )

    def __getitem__(self, row: int) -> Event:
        if self.payloads is None:
            return Event(self.names[row], self.ts.item(row))
        return Event(self.names[row], self.ts.item(row), self.payloads[row])

    def part(self, low: int, high: int) -> Unmade:
        payloads = None if self.payloads is None else self.payloads[low:high]
        return Unmade(self.names[low:high], self.ts[low:high], payloads)

    def pick(self, rows: Ints, numbers: list[int], ts: Ints | None = None) -> Unmade:
        """Some of them; `numbers` are the rows as a list, `ts` their times if somebody has them."""
        payloads = None if self.payloads is None else pick(self.payloads, numbers)
        return Unmade(self.names.take(rows), self.ts.take(rows) if ts is None else ts, payloads)

    def own(self) -> Unmade:
        """The same events; more can be added to them."""
        payloads = None if self.payloads is None else list(self.payloads)
        return Unmade(self.names, self.ts, payloads)

    def followed_by(self, others: list[Unmade], ts: Ints, joined: Joined) -> Unmade:
        """These, which may be changed, and others; `ts` are the times of all."""
        parts = [self, *others]
        names = joined([part.names for part in parts])
        payloads = self.payloads
        if any(part.payloads is not None for part in parts):
            payloads = [{} for _ in range(len(self))] if payloads is None else payloads
            for part in others:
                payloads += [{} for _ in part.ts] if part.payloads is None else part.payloads
        return Unmade(names, ts, payloads)


Events = list[Event] | Unmade
"""Events as objects or as columns."""


def own(events: Events) -> Events:
    """The same events; more can be added to them."""
    return list(events) if isinstance(events, list) else events.own()


def join(parts: list[Events], ts: Ints, joined: Joined = np.concatenate) -> Events:
    """Events that follow each other, with their times; the first part absorbs the others.

    `joined` joins columns of types.
    """
    first, *others = parts
    if isinstance(first, Unmade):
        columns = [part for part in others if isinstance(part, Unmade)]
        if len(columns) == len(others):
            return first.followed_by(columns, ts, joined)
        first = list(first)
    for part in others:
        first += part
    return first


def payloads_of(events: Events) -> list[dict[str, Any]]:
    """The payload of each event."""
    if isinstance(events, Unmade):
        return [{}] * len(events) if events.payloads is None else events.payloads
    return [event.payload for event in events]
