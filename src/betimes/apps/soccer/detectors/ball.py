"""What happens to the ball: hits, shots, out, goals, and how play restarts after that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from betimes.apps.soccer.detectors.flight import arrival, is_on_goal, is_shot
from betimes.apps.soccer.stadium import NUREMBERG, Stadium
from betimes.model import Event

CENTRE = 1.0
"""How near the centre of the pitch the first kick-off must be, in metres."""


@dataclass
class Bounces:
    """A ball is kicked while nobody is near: it bounced.

    Unless somebody comes near before that is over: then he has hit it. It happens where the stream
    begins in the middle of a contact.
    """

    near: set[int] = field(default_factory=set)
    kicks: dict[int, Event] = field(default_factory=dict)

    def on_event(self, event: Event) -> Event | None:
        ball = event["ball"]
        if event.type == "kick":
            if ball not in self.near:
                self.kicks[ball] = event
            return None
        if event.type == "not_near":
            self.near.discard(ball)
            return None
        if event.type == "near":
            self.near.add(ball)
        kick = self.kicks.pop(ball, None)
        if kick is None:
            return None
        if event.type == "near":
            return Event("hit", event.ts, {**event.payload, **kick.payload})
        return Event("bounce", kick.ts, kick.payload)


@dataclass
class Shots:
    """A hit after which the ball flies towards the other team's goal: a shot, maybe on goal.

    Its path is known when the peak of acceleration has ended, a few milliseconds later.
    """

    stadium: ClassVar[Stadium] = NUREMBERG

    hits: dict[int, Event] = field(default_factory=dict)

    def on_event(self, event: Event) -> Iterator[Event]:
        if event.type == "hit":
            self.hits[event["ball"]] = event
            return
        hit = self.hits.pop(event["ball"], None)
        if hit is None or hit.ts < event["start"]:
            return
        goal = self.stadium.attacked(hit["team"], hit.ts)
        velocity = event["vx1"], event["vy1"], event["vz1"]
        there = arrival(goal, (event["x1"], event["y1"], event["z1"]), velocity)
        if there is None or not is_shot(goal, there, velocity):
            return
        after, x, height = (round(value, 3) for value in there)
        who = {"player": hit["player"], "team": hit["team"]}
        payload = who | {"after": after, "at": x, "height": height}
        yield Event("shot", hit.ts, payload)
        if is_on_goal(goal, there):
            yield Event("shot_on_goal", hit.ts, payload)


@dataclass
class Whistle:
    """The ball in play leaves the pitch: out, or a goal.

    The ball in play is the one that was hit last. After it has left the pitch, nothing counts until
    a ball is hit again.
    """

    stadium: ClassVar[Stadium] = NUREMBERG

    hit: Event | None = None

    def on_event(self, event: Event) -> Event | None:
        if event.type == "hit":
            self.hit = event
            return None
        if self.hit is None or self.hit["ball"] != event["ball"]:
            return None
        hit, self.hit = self.hit, None
        place = {name: event[name] for name in ("line", "end", "x", "y")}
        if not event["goal"]:
            by = {"player": hit["player"], "team": hit["team"]}
            return Event("out", event.ts, by | place)
        goal = self.stadium.pitch.goals[event["end"]]
        team = "A" if self.stadium.attacked("A", event.ts) == goal else "B"
        return Event("goal", event.ts, {"player": hit["player"], "team": team} | place)


@dataclass
class Restarts:
    """How play restarts after out or a goal: with the next hit. The first hit may be a kick-off."""

    stadium: ClassVar[Stadium] = NUREMBERG

    stopped: Event | None = None
    begun: bool = False

    def on_event(self, event: Event) -> Event | None:
        if event.type != "hit":
            self.stopped = event
            return None
        first, self.begun = not self.begun, True
        stopped, self.stopped = self.stopped, None
        payload = {"player": event["player"], "team": event["team"]}
        if stopped is not None:
            return Event(self._kind(stopped), event.ts, payload | {"stopped": stopped.ts})
        if first and math.dist((event["x"], event["y"]), self.stadium.pitch.centre) <= CENTRE:
            return Event("kick_off", event.ts, payload | {"stopped": event.ts})
        return None

    def _kind(self, stopped: Event) -> str:
        if stopped.type == "goal":
            return "kick_off"
        if stopped["line"] == "touch":
            return "throw_in"
        goal = self.stadium.pitch.goals[stopped["end"]]
        defended = self.stadium.defended(stopped["team"], stopped.ts) == goal
        return "corner" if defended else "goal_kick"


def interruption(event: Event) -> Event:
    """How long the ball was not in play, dated back to when it left the pitch."""
    payload = {"until": event.ts, "ended": event.type}
    return Event("interruption", event["stopped"], payload)


@dataclass
class Score:
    """The score."""

    a: int = 0
    b: int = 0

    def on_event(self, event: Event) -> Event:
        if event["team"] == "A":
            self.a += 1
        else:
            self.b += 1
        return Event("score", event.ts, {"A": self.a, "B": self.b})
