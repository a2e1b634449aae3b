"""Detectors in plain Python, and hierarchies of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.streams import CLOCK
from betimes import Derived, Event, EventBatch, Hierarchy

LIMIT = 2.0
"""Above this a reading is a peak."""


@dataclass
class NotBetween:
    """`near !not_near hit`, for one key."""

    since: int | None = None

    def on_event(self, event: Event) -> Event | None:
        kind = event.type
        if kind == "near":
            self.since = event.ts
        elif kind == "not_near":
            self.since = None
        elif kind == "hit" and self.since is not None:
            since, self.since = self.since, None
            return Event("touch", event.ts, {"key": event["key"], "from": since})
        return None


@dataclass
class Burst:
    """Three phones that send within 200 ms."""

    last: dict[str, int] = field(default_factory=dict)

    def on_event(self, event: Event) -> Event | None:
        self.last[event["device"]] = event.ts
        recent = {device: ts for device, ts in self.last.items() if event.ts - ts <= 200_000}
        if len(recent) < 3:
            return None
        self.last.clear()
        return Event("burst", event.ts, {"devices": sorted(recent)})


def strong(event: Event) -> Event | None:
    return Event("kick", event.ts, event.payload) if event["force"] >= 20 else None


def approach(event: Event) -> Event:
    return Event("close" if event.type == "near" else "away", event.ts, event.payload)


@dataclass
class Touch:
    """`close !away kick`, for one key."""

    close: bool = False

    def on_event(self, event: Event) -> Event | None:
        touched = self.close and event.type == "kick"
        self.close = event.type == "close"
        payload = {"key": event["key"], "team": event["team"]}
        return Event("touch", event.ts, payload) if touched else None


@dataclass
class Pass:
    """Two touches by a team; a touch is part of at most one pair."""

    first: int | None = None

    def on_event(self, event: Event) -> Event | None:
        if self.first is None:
            self.first = event["key"]
            return None
        pair, self.first = [self.first, event["key"]], None
        return Event("pass", event.ts, {"team": event["team"], "players": pair})


@dataclass
class AnyPass:
    """Two consecutive touches by different players; a third may pair with the second."""

    last: int | None = None

    def on_event(self, event: Event) -> Event | None:
        last, self.last = self.last, event["key"]
        if last is None or last == event["key"]:
            return None
        return Event("pass", event.ts, {"team": event["team"], "players": [last, event["key"]]})


@dataclass
class Total:
    """All passes of a team so far."""

    count: int = 0

    def on_event(self, event: Event) -> Event:
        self.count += 1
        return Event("count", event.ts, {"team": event["team"], "n": self.count})


@dataclass
class Recent:
    """The passes of a team within 100 ms."""

    times: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Event:
        self.times = [*(ts for ts in self.times if event.ts - ts <= 100_000), event.ts]
        return Event("count", event.ts, {"team": event["team"], "n": len(self.times)})


@dataclass
class Alarm:
    """A team has passed much more often than another team."""

    counts: dict[int, int] = field(default_factory=dict)

    def on_event(self, event: Event) -> Event | None:
        self.counts[event["team"]] = event["n"]
        lead = max(self.counts.values()) - min(self.counts.values())
        payload = {"team": event["team"], "lead": lead}
        return Event("alarm", event.ts, payload) if lead >= 3 else None


class Numbered:
    """Numbers events and emits every n-th; its state is free to save but expensive to compare."""

    def __init__(self, emits: str, *, every: int = 1, remembers: int = 100) -> None:
        self.emits = emits
        self.every = every
        self.count = 0
        self.last: tuple[int, ...] = (0,) * remembers

    def snapshot(self) -> tuple[tuple[int, ...], int]:
        return self.last, self.count

    def restore(self, state: tuple[tuple[int, ...], int]) -> None:
        self.last, self.count = state

    def on_event(self, event: Event) -> Event | None:
        self.count += 1
        self.last = (*self.last[1:], event.ts)
        if self.count % self.every:
            return None
        return Event(self.emits, event.ts, {"n": self.count})


def all_change() -> Hierarchy:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(Numbered("n1", every=20, remembers=20_000), on="near", emits="n1", name="level 1")
    for level in range(2, 6):
        below = f"n{level - 1}"
        hierarchy.add(Numbered(f"n{level}"), on=below, emits=f"n{level}", name=f"level {level}")
    return hierarchy


def five_levels(*, forgets: bool) -> Hierarchy:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(strong, on="hit", emits="kick")
    hierarchy.add(approach, on=("near", "not_near"), emits=("close", "away"))
    hierarchy.add(Touch, on=("close", "away", "kick"), emits="touch", by="key")
    hierarchy.add(AnyPass if forgets else Pass, on="touch", emits="pass", by="team")
    hierarchy.add(Recent if forgets else Total, on="pass", emits="count", by="team")
    hierarchy.add(Alarm, on="count", emits="alarm")
    return hierarchy


@dataclass
class Ring:
    """A state of many numbers, one of which changes with every event."""

    numbers: list[int]
    place: int = 0

    def on_event(self, event: Event) -> Event | None:
        self.place = (self.place + 1) % len(self.numbers)
        before, self.numbers[self.place] = self.numbers[self.place], event["force"]
        return Event("rise", event.ts) if event.type == "hit" and event["force"] > before else None


@dataclass
class Peaks:
    """Where a reading rises above a limit, per batch."""

    columns = ("x", "y", "a")
    last: float = 0.0

    def on_batch(self, batch: EventBatch) -> Derived:
        a = batch.numbers("a")
        before = np.concatenate(([self.last], a[:-1]))
        self.last = float(a[-1])
        rows = np.flatnonzero((a > LIMIT) & (before <= LIMIT))
        payload = {"x": batch.numbers("x")[rows], "y": batch.numbers("y")[rows]}
        return Derived("peak", rows=rows, payload=payload)


@dataclass
class PeaksOneByOne:
    """The same per event."""

    last: float = 0.0

    def on_event(self, event: Event) -> Event | None:
        last, self.last = self.last, event["a"]
        if self.last <= LIMIT or last > LIMIT:
            return None
        return Event("peak", event.ts, {"x": event["x"], "y": event["y"]})
