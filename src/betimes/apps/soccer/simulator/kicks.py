"""What a player can do with the ball: drafts of plans, any of which may turn out not to work.

A draft chooses a velocity for the ball, follows it, and looks for the moment at which the next
player can reach it. Later checks decide whether everyone's movements fit.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.apps.soccer.simulator.aiming import REACH, AtBall
from betimes.apps.soccer.simulator.physics import TICK, TICKS, Floats, carry, carry_ticks
from betimes.apps.soccer.simulator.restarts import joined
from betimes.apps.soccer.simulator.scene import Contact, Path, Plan
from betimes.apps.soccer.simulator.truth import GRAVITY

_DIVE = 0.7
"""Metres between body and ball when a keeper dives."""
_BLOCK = 0.9
"""Height up to which a leg blocks a shot."""


class Kicks(AtBall):
    """Drafts for the person at the ball."""

    def dribble(self) -> Plan | None:
        """A short touch ahead; the same player follows."""
        rng = self.rng
        own = self.scene.velocity[self.person]
        pace = math.hypot(*own)
        to_goal = np.array([self.goal.centre, self.goal.y]) - self.at
        angle = math.atan2(to_goal[1], to_goal[0]) + rng.normal(0.0, 0.6)
        if pace > 1.5 and rng.random() < 0.7:
            angle = math.atan2(own[1], own[0]) + rng.normal(0.0, 0.35)
        speed = min(max(1.4, pace) + rng.uniform(0.3, 1.5), 6.5)
        path = self.sent(speed * np.array([math.cos(angle), math.sin(angle), 0.0]))
        earliest = int(rng.uniform(0.35, 0.7) / TICK)
        window = earliest, earliest + 2000
        return self.meet(path, self.person, window, behind=True, drift=1.2)

    def ground_pass(self) -> Plan | None:
        """Along the ground to a team mate."""
        mate = self.mate(4.5, 26.0)
        return None if mate is None else self._roll_to(mate, mate)

    def pass_back(self, mate: int) -> Plan | None:
        """Along the ground to a given team mate: the second half of a double pass."""
        return self._roll_to(mate, mate)

    def lofted_pass(self, low: float = 12.0, high: float = 38.0) -> Plan | None:
        """Through the air to a team mate."""
        mate = self.mate(low, high)
        if mate is None:
            return None
        aim = self.scene.place[mate] + self.rng.normal(0.0, 2.0, 2) + [0.0, 2.0 * self.ahead]
        return self._lob_to(aim, mate)

    def cross(self) -> Plan | None:
        """Through the air to where a team mate can shoot."""
        rng = self.rng
        aim = np.array([self.goal.centre, self.goal.y - self.ahead * 9.0])
        aim = aim + rng.normal(0.0, 1.0, 2) * [4.0, 2.5]
        away = np.hypot(*(self.scene.place - aim).T)
        order = np.argsort(np.where(self.mates & self.tactics.field, away, np.inf))
        return self._lob_to(aim, int(order[rng.integers(0, 3)]))

    def throw(self) -> Plan | None:
        """A throw-in to a team mate."""
        mate = self.mate(4.0, 16.0)
        if mate is None:
            return None
        way = self.scene.place[mate] + self.rng.normal(0.0, 1.0, 2) - self.at
        away = math.hypot(*way)
        speed = float(np.clip(5.0 + 0.35 * away + self.rng.normal(0.0, 0.5), 5.5, 11.0))
        velocity = np.array([*(way / away * speed), self.rng.uniform(0.0, 2.5)])
        return self.meet(self.sent(velocity), mate, (500, 5000), apart=3.5)

    def intercepted(self) -> Plan | None:
        """A pass to a team mate that an opponent reaches first."""
        mate = self.mate(8.0, 26.0)
        if mate is None:
            return None
        way = self.scene.place[mate] - self.at
        offset = self.scene.place - self.at
        along = offset @ way / (way @ way)
        beside = np.abs(offset[:, 0] * way[1] - offset[:, 1] * way[0]) / math.hypot(*way)
        fit = self.opponents & self.tactics.field & (along > 0.35) & (along < 0.95) & (beside < 4.0)
        if not fit.any():
            return None
        return self._roll_to(mate, int(self.rng.choice(np.flatnonzero(fit))))

    def tackled(self) -> Plan | None:
        """A touch that an opponent takes away at once."""
        rivals = self.opponents & self.tactics.field
        rival = self.tactics.nearest(self.scene.place, self.at, rivals)
        way = self.scene.place[rival] - self.at
        if math.hypot(*way) > 3.0:
            return None
        velocity = np.array([*(way / math.hypot(*way) * self.rng.uniform(1.5, 2.5)), 0.0])
        plan = self.meet(self.sent(velocity), rival, (400, 1400))
        near = plan is not None and math.hypot(*(plan.meeting[:2] - self.at)) < 2.5
        return plan if near else None

    def loose(self) -> Plan | None:
        """The ball bounces off someone and goes to anyone who is there."""
        rng = self.rng
        angle = math.atan2(-self.scene.motion[1], -self.scene.motion[0]) + rng.normal(0.0, 0.9)
        speed = rng.uniform(4.0, 9.0)
        rise = rng.uniform(0.0, 2.0)
        path = self.sent(np.array([speed * math.cos(angle), speed * math.sin(angle), rise]))
        others = np.flatnonzero((self.mates | self.opponents) & self.tactics.field)
        away = np.hypot(*(self.scene.place[others] - path.places[2000, :2]).T)
        person = int(others[np.argsort(away)[rng.integers(0, 4)]])
        return self.meet(path, person, (700, 5000), apart=3.5)

    def out(self, *, end: bool = False) -> Plan | None:
        """Cleared over the nearest line, or over the player's own end line."""
        rng = self.rng
        left, right, bottom, top = self.box
        if end:
            line = bottom if self.ahead > 0 else top
            # Beside the goal, on the side where the ball is.
            aside = rng.uniform(5.5, 14.0) * (1.0 if self.at[0] > self.goal.centre else -1.0)
            aim = np.array([self.goal.centre + aside, line])
        else:
            side = left if self.at[0] < (left + right) / 2 else right
            aim = np.array([side, np.clip(self.at[1] + rng.normal(2.0, 5.0) * self.ahead,
                                          bottom + 2.0, top - 2.0)])  # fmt: skip
        way = aim - self.at
        away = math.hypot(*way)
        speed = min(18.0, 6.0 + 0.7 * away + rng.uniform(0.0, 3.0))
        rise = rng.uniform(0.0, 3.0) if away > 5.0 else 0.0
        return self.dead(self.sent(np.array([*(way / away * speed), rise])))

    def goal_shot(self) -> Plan | None:
        """A shot that goes in."""
        plan = self.dead(self._shot(0.5, (0.0, 2.0)))
        return plan if plan is not None and plan.next.manner == "kick_off" else None

    def wide_shot(self) -> Plan | None:
        """A shot past the goal."""
        if self.rng.random() < 0.3:
            return self.dead(self._shot(0.5, (3.2, 4.4)))
        return self.dead(self._shot(-2.8, (0.0, 2.5)))

    def saved_shot(self) -> Plan | None:
        """A shot that the keeper gets."""
        keeper = int(np.flatnonzero(self.opponents & self.tactics.keepers)[0])
        path = self._shot(0.5, (0.1, 1.9))
        if path.crossing is None:
            return None
        reach = self.scene.place[keeper]
        away = np.hypot(*(path.places[: path.crossing : TICKS, :2] - reach).T)
        before = np.abs(path.places[: path.crossing : TICKS, 1] - self.goal.y)
        fit = (before > 0.4) & (np.arange(len(away)) >= 12)
        tick = int(np.argmin(np.where(fit, away, np.inf))) * TICKS
        if tick == 0:
            return None
        manner = "catch" if self.rng.random() < 0.5 else "parry"
        meeting = path.places[tick]
        back = reach - meeting[:2]
        body = meeting[:2] + back * min(1.0, _DIVE / max(math.hypot(*back), 1e-9))
        contact = Contact(keeper, manner, "arm")
        return Plan(
            path.first(tick), contact, body, meeting, path.velocities[tick], slack=0.95
        )  # fmt: skip

    def blocked_shot(self) -> Plan | None:
        """A shot that a defender stops."""
        speed = self.rng.uniform(17.0, 24.0)
        away = np.hypot(*(self.scene.place - self.at).T)
        aims = self.scene.place + self.scene.velocity * (away / speed)[:, None]
        way = aims - self.at
        # Where the line from the ball through a rival meets the goal line.
        line = (self.goal.y - self.at[1]) / np.where(way[:, 1] == 0.0, 1e-9, way[:, 1])
        x = self.at[0] + way[:, 0] * line
        fit = self.opponents & self.tactics.field & (line > 1.1) & (away > 1.3) & (away < 10.0)
        fit &= (x > self.goal.left + 0.6) & (x < self.goal.right - 0.6)
        if not fit.any():
            return None
        rival = int(self.rng.choice(np.flatnonzero(fit)))
        toward = way[rival] / math.hypot(*way[rival])
        rise = self.rng.uniform(0.3, 1.2) + GRAVITY / 2 * away[rival] / speed
        path = self.sent(np.array([*(toward * speed), rise]))
        plan = self.meet(path, rival, (120, 1600), low=_BLOCK)
        if plan is None:
            return None
        plan.next = Contact(rival, "deflect")
        return plan

    def hold(self) -> Plan:
        """The keeper holds the ball and carries it to where he will kick it."""
        rng = self.rng
        caught = self.sent(np.zeros(3)).first(TICKS)
        own = self.tactics.defended(self.team)
        start = caught.places[-1]
        stop = np.array([
            np.clip(start[0] + rng.normal(0.0, 1.0), own.left, own.right),
            own.y + self.ahead * rng.uniform(4.0, 7.0), 0.4,
        ])  # fmt: skip
        ticks = max(carry_ticks(start, stop), 3000)
        path = joined(caught, *carry(start, stop, ticks))
        body = stop[:2] - [0.0, REACH * self.ahead]
        return Plan(path, Contact(self.person, "release"), body, stop, np.zeros(3), held=True)

    def _roll_to(self, mate: int, taker: int) -> Plan | None:
        """Along the ground towards a team mate, to be taken by the intended player."""
        rng = self.rng
        aim = self.scene.place[mate] + 0.5 * self.scene.velocity[mate] + rng.normal(0.0, 1.2, 2)
        way = aim - self.at
        away = math.hypot(*way)
        if away < 3.5:
            return None
        speed = float(np.clip(6.0 + 0.5 * away + rng.normal(0.0, 1.0), 6.5, 19.0))
        path = self.sent(np.array([*(way / away * speed), 0.0]))
        return self.meet(path, taker, (400, 6000), apart=3.5)

    def _lob_to(self, aim: Floats, mate: int) -> Plan | None:
        way = aim - self.at
        away = math.hypot(*way)
        if away < 6.0:
            return None
        rise = float(np.clip(2.5 + 0.14 * away + self.rng.normal(0.0, 0.6), 3.0, 9.0))
        flat = away * GRAVITY / (2 * rise) * (1 + 0.012 * away)
        if flat > 26.0:
            return None
        path = self.sent(np.array([*(way / away * flat), rise]))
        return self.meet(path, mate, (600, 8000), apart=3.5)

    def _shot(self, inside: float, heights: tuple[float, float]) -> Path:
        """At the goal, this far inside a post (outside if negative) and at this height."""
        rng, goal = self.rng, self.goal
        if inside > 0:
            x = rng.uniform(goal.left + inside, goal.right - inside)
        else:
            beyond = rng.uniform(0.7, -inside)
            x = goal.left - beyond if rng.random() < 0.5 else goal.right + beyond
        return self._struck(np.array([x, goal.y, rng.uniform(*heights)]), rng.uniform(17.0, 28.0))

    def _struck(self, aim: Floats, speed: float) -> Path:
        way = aim[:2] - self.at
        away = math.hypot(*way)
        time = away / speed * (1 + 0.007 * away)
        rise = (aim[2] - self.scene.ball[2]) / time + GRAVITY * time / 2
        return self.sent(np.array([*(way / away * speed), max(0.0, rise)]))
