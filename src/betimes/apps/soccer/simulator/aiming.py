"""A player at the ball: what he sees, and when someone can reach the ball that he plays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from betimes.apps.soccer.simulator.physics import CONTACT, TICK, TICKS, Floats
from betimes.apps.soccer.simulator.restarts import Restarts
from betimes.apps.soccer.simulator.scene import Contact, Path, Plan, Scene, sent
from betimes.apps.soccer.simulator.tactics import Tactics
from betimes.apps.soccer.stadium import Goal

REACH = 0.3
"""Metres between body and ball at a contact."""
LOW = 0.065
"""Height up to which a foot can play the ball; from there it drops without a bounce."""


@dataclass
class AtBall:
    """The person at the ball and everyone around."""

    scene: Scene
    person: int
    tactics: Tactics
    restarts: Restarts
    box: Floats
    rng: np.random.Generator

    def __post_init__(self) -> None:
        teams = self.tactics.teams
        self.team = int(teams[self.person])
        self.mates = (teams == self.team) & (np.arange(len(teams)) != self.person)
        self.opponents = (teams > 0) & (teams != self.team)
        self.goal = self.tactics.attacked(self.team)
        self.at = self.scene.ball[:2]
        self.ahead = 1.0 if self.goal.y > 0 else -1.0

    def mate(self, low: float, high: float) -> int | None:
        """A team mate at a distance, preferably one who is ahead."""
        offset = self.scene.place - self.at
        away = np.hypot(*offset.T)
        fit = self.mates & (away > low) & (away < high)
        fit &= self.tactics.field | (self.rng.random() < 0.05)
        if not fit.any():
            return None
        weights = np.where(fit, np.exp(offset[:, 1] * self.ahead / 6.0), 0.0)
        return int(self.rng.choice(len(weights), p=weights / weights.sum()))

    def sent(self, velocity: Floats) -> Path:
        """The path of the ball if it leaves with a velocity."""
        return sent(self.scene, velocity, self.box)

    def meet(
        self,
        path: Path,
        person: int,
        window: tuple[int, int],
        *,
        low: float = LOW,
        apart: float = 0.0,
        behind: bool = False,
        drift: float = 0.4,
    ) -> Plan | None:
        """The first moment in a window at which the person can reach the ball."""
        last = min(window[1], path.ticks - 1, (path.crossing or path.ticks) - 100)
        ticks = np.arange(-(-window[0] // TICKS) * TICKS, last, TICKS)
        if not len(ticks):
            return None
        places, time = path.places[ticks], np.asarray(ticks * TICK, np.float64)
        drifting = np.minimum(time, drift)[:, None] * self.scene.velocity[person]
        away = np.hypot(*(places[:, :2] - self.scene.place[person] - drifting).T)
        fit = (places[:, 2] < low) & (away < 0.4 + _run(time))
        fit &= np.hypot(*(places[:, :2] - self.at).T) >= apart
        for bounce in path.bounces:
            near = np.hypot(*(places[:, :2] - path.places[bounce, :2]).T) < 2.2
            # A contact just before a bounce prevents it; one just after is too close to it.
            fit &= ~((ticks > bounce - CONTACT) & near)
        if not fit.any():
            return None
        tick = int(ticks[np.argmax(fit)])
        meeting, motion = path.places[tick], path.velocities[tick]
        flat = math.hypot(motion[0], motion[1])
        away_from = motion[:2] / flat if flat > 0.3 else np.array([0.0, -self.ahead])
        body = meeting[:2] + away_from * (-REACH if behind else REACH)
        return Plan(path.first(tick), Contact(person, "play"), body, meeting, motion)

    def dead(self, path: Path) -> Plan | None:
        """A ball that crosses a line, until play restarts."""
        if path.crossing is None or path.crossing > 5000:
            return None
        return self.restarts.after(self.scene, path, self.team, self.rng)

    def wants_shot(self) -> bool:
        """Whether this is a position to shoot from."""
        return shooting_place(self.at, self.goal)


def _run(time: Floats) -> Floats:
    """How far a person gets in a time, starting from rest, without hurry."""
    return np.where(time < 1.0, 2.2 * time**2, 2.2 + 4.5 * (time - 1.0))


def shooting_place(at: Floats, goal: Goal) -> bool:
    """Whether a player would shoot at a goal from a position."""
    x, y = float(at[0]), float(at[1])
    return 5.0 < abs(goal.y - y) < 21.0 and abs(x - goal.centre) < 13.0
