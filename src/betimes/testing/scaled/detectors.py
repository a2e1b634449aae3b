"""The detectors of the scaled hierarchy: the first fields are options, the others are state.

They are small, but each does something that engines find hard: types of its own, outputs that are
dated back, states that carry on for ever, deadlines, batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from betimes.model import Derived, Event, EventBatch

REACH = 1.0
"""How near a player must be to the ball, in metres."""
KICK = 55.0
"""From which acceleration on a ball has been kicked, in m/s2."""
CONTACT = 20_000
"""A ball is not kicked twice within this time, in microseconds."""


@dataclass
class Nearness:
    """A player comes near the ball, or leaves it: `near_A1`, `not_near_A1`."""

    player: str
    near: bool = False

    def on_event(self, event: Event) -> Event | None:
        near = event["d"] <= REACH
        if near == self.near:
            return None
        self.near = near
        return Event(f"{'near' if near else 'not_near'}_{self.player}", event.ts)


@dataclass
class Kicks:
    """The ball is kicked: `kick`."""

    last: int = -CONTACT

    def on_event(self, event: Event) -> Event | None:
        if event["a"] < KICK or event.ts - self.last < CONTACT:
            return None
        self.last = event.ts
        return Event("kick", event.ts, {"a": event["a"]})


@dataclass
class Passes:
    """Where the ball goes from one player: `pass_A1_A2`, `lost_A1_B3`; dated back to the kick."""

    player: str
    kicked: int | None = None

    def on_event(self, event: Event) -> Event | None:
        hitter = event.type.removeprefix("hit_")
        if hitter == self.player:
            self.kicked = event.ts
            return None
        kicked, self.kicked = self.kicked, None
        if kicked is None:
            return None
        kind = "pass" if hitter[0] == self.player[0] else "lost"
        return Event(f"{kind}_{self.player}_{hitter}", kicked, {"took": event.ts - kicked})


@dataclass
class Numbered:
    """Events of many types under one, and numbered: one more or less changes all after it."""

    emits: str
    count: int = 0

    def on_event(self, event: Event) -> Event:
        self.count += 1
        return Event(self.emits, event.ts, {"n": self.count, "of": event.type})


@dataclass
class Tempo:
    """The mean time between the last four events."""

    emits: str
    times: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Event:
        self.times = [*self.times[-3:], event.ts]
        mean = (self.times[-1] - self.times[0]) // max(1, len(self.times) - 1)
        return Event(self.emits, event.ts, {"mean": mean})


@dataclass
class Spells:
    """Events that follow each other within a pause; told when the pause has passed."""

    emits: str
    pause: int
    began: int = 0
    count: int = 0
    deadline: int | None = None

    def on_event(self, event: Event) -> None:
        if self.count == 0:
            self.began = event.ts
        self.count += 1
        self.deadline = event.ts + self.pause

    def on_time(self, ts: int) -> Event:
        self.deadline = None
        count, self.count = self.count, 0
        return Event(self.emits, ts, {"began": self.began, "count": count})


class Totals:
    """Running totals of a column, per batch."""

    columns = ("count",)

    def __init__(self, emits: str) -> None:
        self.emits = emits
        self.total = 0

    def on_batch(self, batch: EventBatch) -> Derived:
        totals = self.total + np.cumsum(batch.numbers("count"))
        self.total = int(totals[-1])
        payload = {"total": totals, "odd": totals % 2}
        return Derived(self.emits, rows=np.arange(len(batch)), payload=payload)


@dataclass
class Longest:
    """The longest time between two events so far."""

    emits: str
    last: int | None = None
    longest: int = 0

    def on_event(self, event: Event) -> Event:
        if self.last is not None:
            self.longest = max(self.longest, event.ts - self.last)
        self.last = event.ts
        return Event(self.emits, event.ts, {"longest": self.longest})


@dataclass(frozen=True)
class Earlier:
    """The same events, dated back."""

    emits: str
    by: int

    def on_event(self, event: Event) -> Event:
        return Event(self.emits, event.ts - self.by, event.payload)
