"""How play restarts after the ball has crossed a line.

The ball comes to rest, someone brings it, or one of the spare balls, to the place of the restart,
and a player takes it: a throw-in, a corner, a goal kick or a kick-off.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.apps.soccer.simulator.physics import (
    STEP,
    TICK,
    TICKS,
    Floats,
    carry,
    carry_ticks,
)
from betimes.apps.soccer.simulator.scene import Contact, Path, Plan, Scene, crossing_of
from betimes.apps.soccer.simulator.tactics import Tactics
from betimes.apps.soccer.stadium import Goal, Stadium

_REACH = 0.35
_REST = 0.05
"""Speed (m/s) below which a ball is at rest."""
_SPARE = 30.0
"""Metres from which a spare ball may be brought."""


class Restarts:
    """Plans from a crossing to the next contact."""

    def __init__(self, stadium: Stadium, tactics: Tactics) -> None:
        self._stadium = stadium
        self._tactics = tactics

    def after(self, scene: Scene, path: Path, team: int, rng: np.random.Generator) -> Plan | None:
        """The whole path from a team's contact over a line to the restart."""
        crossing = crossing_of(path, self._stadium, 0, 0)
        if crossing is None:
            return None
        if crossing.end is None:
            manner, taking = "throw_in", 3 - team
            spot, taker = self._throw_in(scene, crossing.at.x, crossing.at.y, taking)
        else:
            goal = self._stadium.pitch.goals[crossing.end]
            defends = 1 if self._tactics.defended(1) == goal else 2
            if crossing.goal:
                manner, taking = "kick_off", defends
                spot, taker = self._kick_off(scene, taking)
            elif team == defends:
                manner, taking = "corner", 3 - defends
                spot, taker = self._corner(scene, goal, crossing.at.x, taking)
            else:
                manner, taking = "goal_kick", defends
                spot, taker = self._goal_kick(goal, defends, crossing.at.x)
        return self._brought(scene, path, spot, Contact(taker, manner, _part(manner)), rng)

    def _brought(
        self, scene: Scene, path: Path, spot: Floats, contact: Contact, rng: np.random.Generator
    ) -> Plan | None:
        """The ball comes to rest and is brought to the spot."""
        speed = np.linalg.norm(path.velocities, axis=1)
        still = (speed < _REST) & (path.places[:, 2] <= 0.001)
        still[: path.crossing] = False
        if not still.any():
            return None
        rest = -(-int(np.argmax(still)) // TICKS) * TICKS
        lying = path.first(rest)
        lying.velocities[-1] = 0.0
        start, active = lying.places[-1], scene.active
        away = np.linalg.norm(scene.balls - spot, axis=1)
        away[active] = np.inf
        spare = int(np.argmin(away))
        if away[spare] < _SPARE and rng.random() < 0.5:
            start, active = scene.balls[spare], spare
        ticks = carry_ticks(start, spot)
        wait = self._waiting(scene, spot, contact, rest + ticks, rng)
        moved = joined(lying, *carry(start, spot, ticks))
        still_there = np.repeat(spot[None, :], wait, axis=0)
        whole = joined(moved, still_there, np.zeros((wait, 3)), np.zeros((wait, 3)))
        inward = np.array(self._stadium.pitch.centre) - spot[:2]
        if contact.manner == "kick_off":
            inward = np.array([0.0, self._tactics.attacked(self._team(contact)).y])
        body = spot[:2] - inward / math.hypot(*inward) * _REACH
        return Plan(
            whole, contact, body, spot, np.zeros(3),
            switch=rest if active != scene.active else None, active=active, restart=True,
        )  # fmt: skip

    def _waiting(
        self, scene: Scene, spot: Floats, contact: Contact, ticks: int, rng: np.random.Generator
    ) -> int:
        """Ticks until the player is there, and at a kick-off everyone else, too."""
        away = math.hypot(*(scene.place[contact.person] - spot[:2]))
        needed = away / 5.0 + 1.0
        if contact.manner == "kick_off":
            needed = max(needed, 7.0)
        elif contact.manner == "corner":
            needed = max(needed, 4.5)
        pause = max(needed - ticks * TICK, rng.uniform(0.4, 0.9))
        return math.ceil(pause / STEP) * TICKS

    def _throw_in(self, scene: Scene, x: float, y: float, team: int) -> tuple[Floats, int]:
        pitch = self._stadium.pitch
        side = pitch.left + 0.25 if x < pitch.centre[0] else pitch.right - 0.25
        spot = np.array([side, np.clip(y, pitch.bottom + 1.5, pitch.top - 1.5), 0.0])
        taker = self._nearest(scene, spot, team)
        # From above the head; lower if the hands have no sensors, to show who throws.
        spot[2] = 1.9 if ("arm", taker) in self._stadium.sensors.values() else 0.8
        return spot, taker

    def _corner(self, scene: Scene, goal: Goal, x: float, team: int) -> tuple[Floats, int]:
        pitch = self._stadium.pitch
        side = pitch.left + 0.5 if x < goal.centre else pitch.right - 0.5
        spot = np.array([side, goal.y - math.copysign(0.5, goal.y), 0.0])
        return spot, self._nearest(scene, spot, team)

    def _goal_kick(self, goal: Goal, team: int, x: float) -> tuple[Floats, int]:
        aside = 5.0 if x > goal.centre else -5.0
        spot = np.array([goal.centre + aside, goal.y - math.copysign(5.0, goal.y), 0.0])
        keeper = self._tactics.keepers & (self._tactics.teams == team)
        return spot, int(np.flatnonzero(keeper)[0])

    def _kick_off(self, scene: Scene, team: int) -> tuple[Floats, int]:
        spot = np.array([*self._stadium.pitch.centre, 0.0])
        return spot, self._nearest(scene, spot, team)

    def _nearest(self, scene: Scene, spot: Floats, team: int) -> int:
        tactics = self._tactics
        among = tactics.field & (tactics.teams == team)
        return tactics.nearest(scene.place, spot[:2], among)

    def _team(self, contact: Contact) -> int:
        return int(self._tactics.teams[contact.person])


def joined(path: Path, places: Floats, velocities: Floats, accelerations: Floats) -> Path:
    """The path, continued."""
    return Path(
        np.concatenate([path.places, places]),
        np.concatenate([path.velocities, velocities]),
        np.concatenate([path.accelerations, accelerations]),
        path.bounces,
        path.crossing,
    )


def _part(manner: str) -> str:
    return "arm" if manner == "throw_in" else "leg"
