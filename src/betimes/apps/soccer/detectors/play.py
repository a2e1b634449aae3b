"""Who has the ball, and where it goes: possession and passes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from betimes.apps.soccer.stadium import NUREMBERG, Stadium
from betimes.model import Event

SHORTEST = 3.0
"""How far a ball must travel to count as a pass, in metres."""
PRESSED = 5.0
"""How near an opponent must be to put a player under pressure, in metres."""


@dataclass
class Possession:
    """Who has the ball, as the challenge defines it: from his hit to another player's, or out.

    `holder` is published as soon as a player wins the ball. `possession` is published when it ends,
    dated back to the first hit.
    """

    first: Event | None = None
    hits: int = 0

    def on_event(self, event: Event) -> Iterator[Event]:
        first = self.first
        hit = event.type == "hit"
        if hit and first is not None and event["player"] == first["player"]:
            self.hits += 1
            return
        if first is not None:
            payload = {"player": first["player"], "team": first["team"]}
            yield Event("possession", first.ts, payload | {"until": event.ts, "hits": self.hits})
        self.first, self.hits = (event, 1) if hit else (None, 0)
        if hit:
            place = {name: event[name] for name in ("player", "team", "x", "y")}
            yield Event("holder", event.ts, place)


@dataclass
class Pass:
    """A hit that is not a shot, followed by a hit of another player at least 3 m away.

    If that player is in the other team, the pass was unsuccessful. Both are dated back to the kick.
    `since` is when the kicking player got the ball.
    """

    last: Event | None = None
    since: int = 0
    shot: bool = False

    def on_event(self, event: Event) -> Event | None:
        if event.type == "shot":
            self.shot = True
            return None
        if event.type != "hit":
            self.last = None
            return None
        last, since, shot = self.last, self.since, self.shot
        self.last, self.shot = event, False
        if last is not None and last["player"] == event["player"]:
            return None
        self.since = event.ts
        if last is None or shot:
            return None
        if math.dist((last["x"], last["y"]), (event["x"], event["y"])) < SHORTEST:
            return None
        payload = {
            "player": last["player"],
            "team": last["team"],
            "to": event["player"],
            "to_team": event["team"],
            "since": since,
            "received": event.ts,
        }
        mates = last["team"] == event["team"]
        return Event("pass" if mates else "unsuccessful_pass", last.ts, payload)


def dribble(event: Event) -> Event | None:
    """A player has hit the ball three times or more in a row."""
    return Event("dribble", event.ts, event.payload) if event["hits"] >= 3 else None


def interception(event: Event) -> Event:
    """A player wins the ball from the other team; dated at his hit."""
    payload = {"player": event["to"], "team": event["to_team"], "from": event["player"]}
    return Event("interception", event["received"], payload)


@dataclass
class Duels:
    """Players of both teams are near a ball at the same time."""

    stadium: ClassVar[Stadium] = NUREMBERG

    near: dict[str, int] = field(default_factory=dict)

    def on_event(self, event: Event) -> Iterator[Event]:
        player, ball = event["player"], event["ball"]
        if event.type == "leaves":
            if self.near.get(player) == ball:
                del self.near[player]
            return
        teams = self.stadium.teams
        there = (other for other, its in self.near.items() if its == ball)
        others = sorted(other for other in there if teams[other] != teams[player])
        self.near[player] = ball
        if others:
            yield Event("duel", event.ts, {"player": player, "with": others})


@dataclass
class TeamPossession:
    """Which team has the ball, published when it changes, with both teams' times so far."""

    team: str | None = None
    since: int = 0
    seconds_a: float = 0.0
    seconds_b: float = 0.0

    def on_event(self, event: Event) -> Iterator[Event]:
        team = event["team"] if event.type == "holder" else None
        if team == self.team:
            return
        if self.team is not None:
            seconds = (event.ts - self.since) * 1e-6
            if self.team == "A":
                self.seconds_a += seconds
            else:
                self.seconds_b += seconds
        before, self.team, self.since = self.team, team, event.ts
        if team is not None:
            payload = {"team": team, "before": before, "x": event["x"], "y": event["y"]}
            shares = {"A": round(self.seconds_a, 3), "B": round(self.seconds_b, 3)}
            yield Event("team_possession", event.ts, payload | {"seconds": shares})


@dataclass
class Pressing:
    """At least two opponents are within 5 m of the player who has the ball."""

    stadium: ClassVar[Stadium] = NUREMBERG

    holder: str | None = None
    pressed: bool = False

    def on_event(self, event: Event) -> Iterator[Event]:
        if event.type != "frame":
            self.holder = event["player"] if event.type == "holder" else None
            self.pressed = False
            return
        if self.holder is None or self.holder not in event["player"]:
            return
        here = event["player"].index(self.holder)
        x0, y0 = event["x"][here], event["y"][here]
        there = [
            player
            for player, x, y in zip(event["player"], event["x"], event["y"], strict=True)
            if (x - x0) ** 2 + (y - y0) ** 2 <= PRESSED**2
        ]
        teams = self.stadium.teams
        there = [player for player in there if teams[player] != teams[self.holder]]
        pressed = len(there) >= 2
        if pressed and not self.pressed:
            yield Event("pressing", event.ts, {"player": self.holder, "by": sorted(there)})
        self.pressed = pressed


@dataclass
class Attack:
    """A team brings the ball into the last third; a counter-attack if it was quick.

    Quick means within 8 s of winning the ball in its own half.
    """

    stadium: ClassVar[Stadium] = NUREMBERG
    quick: ClassVar[int] = 8_000_000

    won: Event | None = None
    told: bool = False

    def on_event(self, event: Event) -> Event | None:
        if event.type != "ball_track":
            self.won, self.told = (event if event.type == "team_possession" else None), False
            return None
        if self.won is None or self.told or self._forward(self.won, event["y"]) < 2 / 3:
            return None
        self.told = True
        own_half = self._forward(self.won, self.won["y"]) < 1 / 2
        counter = own_half and event.ts - self.won.ts <= self.quick
        payload = {"team": self.won["team"], "won": self.won.ts, "counter": counter}
        return Event("attack", event.ts, payload)

    def _forward(self, won: Event, y: float) -> float:
        """How far along the pitch a position is, seen from the team's own goal: from 0 to 1."""
        own = self.stadium.defended(won["team"], won.ts).y
        other = self.stadium.attacked(won["team"], won.ts).y
        return (y - own) / (other - own)


def counter_attack(event: Event) -> Event | None:
    """An attack that came quickly out of the team's own half."""
    if not event["counter"]:
        return None
    return Event("counter_attack", event.ts, {"team": event["team"], "won": event["won"]})
