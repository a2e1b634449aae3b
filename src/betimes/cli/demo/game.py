"""The game that `betimes demo` watches: a simulated stream, and the detectors that follow it.

The ball reports a thousand times per second, almost without delay. Other sensors report that a
player is near the ball, or no longer is. These reports arrive later; one in twenty is a straggler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from betimes.engine import Hierarchy
from betimes.model import Event

MS = 1_000
STRAGGLERS = 0.05
_PLAYERS = 8
_KICK = 55
"""Only a kick explains an acceleration above this."""


@dataclass
class PlayerHitsBall:
    """The ball is kicked while a player is near."""

    near: set[str] = field(default_factory=set)

    def on_event(self, event: Event) -> Iterator[Event]:
        if event.type == "near":
            self.near.add(event["player"])
        elif event.type == "not_near":
            self.near.discard(event["player"])
        elif event["a"] > _KICK and self.near:
            yield Event("hit", event.ts, {"player": min(self.near)})


@dataclass
class DoubleHit:
    """Two hits by a player who stays near the ball: the pattern A !B C, per player."""

    before: int | None = None

    def on_event(self, event: Event) -> Iterator[Event]:
        if event.type == "not_near":
            self.before = None
            return
        if self.before is not None:
            payload = {"player": event["player"], "first": self.before}
            yield Event("double_hit", event.ts, payload)
        self.before = event.ts


@dataclass
class Pass:
    """Two players hit the ball one after the other."""

    last: str | None = None

    def on_event(self, event: Event) -> Iterator[Event]:
        player = event["player"]
        if self.last not in (None, player):
            yield Event("pass", event.ts, {"from": self.last, "to": player})
        self.last = player


@dataclass
class OneTwo:
    """A pass that comes straight back."""

    last: tuple[str, str] | None = None

    def on_event(self, event: Event) -> Iterator[Event]:
        way = event["from"], event["to"]
        if self.last == (way[1], way[0]):
            yield Event("one_two", event.ts, {"from": way[1], "to": way[0]})
        self.last = way


def soccer() -> Hierarchy:
    """The detectors, wired into a hierarchy."""
    hierarchy = Hierarchy(clock="ball", inputs=("near", "not_near", "ball"))
    hierarchy.add(PlayerHitsBall, on=("near", "not_near", "ball"), emits="hit")
    hierarchy.add(DoubleHit, on=("hit", "not_near"), emits="double_hit", by="player")
    hierarchy.add(Pass, on="hit", emits="pass")
    hierarchy.add(OneTwo, on="pass", emits="one_two")
    return hierarchy


@dataclass
class Game:
    """Events in order of arrival, and when each arrived."""

    events: list[Event]
    arrived: list[int]


def play(n: int, seed: int, *, slower: int = 1) -> Game:
    """A game of about n events; `slower` multiplies the delays."""
    rng = np.random.default_rng(seed)
    end = n * MS
    kicks: set[int] = set()
    reports = list(_possession(rng, end, kicks))
    accelerations = rng.integers(5, 40, end // MS).tolist()
    strengths = rng.integers(60, 120, end // MS).tolist()
    for number in range(end // MS):
        a = strengths[number] if number in kicks else accelerations[number]
        reports.append(Event("ball", number * MS, {"a": a}))
    size = len(reports)
    ball = np.array([event.type == "ball" for event in reports])
    delays = np.where(ball, rng.integers(0, 5 * MS, size), rng.integers(5 * MS, 45 * MS, size))
    straggler = ~ball & (rng.random(size) < STRAGGLERS)
    delays[straggler] = rng.integers(45 * MS, 150 * MS, int(straggler.sum()))
    arrived = np.array([event.ts for event in reports]) + slower * delays
    order = np.argsort(arrived, kind="stable")
    return Game([reports[i] for i in order.tolist()], arrived[order].tolist())


def _possession(rng: np.random.Generator, end: int, kicks: set[int]) -> Iterator[Event]:
    """Reports about who is near the ball; adds the milliseconds of hits to `kicks`."""
    now, player, before = 50 * MS, 0, 1
    while True:
        payload = {"player": f"P{player + 1}"}
        yield Event("near", now, payload)
        now += int(rng.integers(8, 45)) * MS
        for _ in range(int(rng.integers(1, 4))):
            if now >= end:
                return
            kicks.add(now // MS)
            now += int(rng.integers(80, 300)) * MS
        # The player leaves the ball shortly before or after the next one reaches it.
        yield Event("not_near", min(now, end), payload)
        now += int(rng.integers(-10, 30)) * MS
        if now >= end:
            return
        back = rng.random() < 0.3
        following = before if back else int(rng.integers(_PLAYERS))
        before, player = player, following if following != player else (player + 1) % _PLAYERS
