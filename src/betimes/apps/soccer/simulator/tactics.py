"""Where everyone wants to be: formations that move with the ball, pressing, keepers, referees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from betimes.apps.soccer.simulator.physics import ARRIVE, KEEP, PLACE, Floats, Ints
from betimes.apps.soccer.stadium import Goal, Stadium

_JOG, _PRESS, _SPRINT = 6.0, 7.5, 8.6
"""Speeds (m/s)."""


@dataclass
class Orders:
    """For each person: the order, its place, the speed allowed, and when to be there."""

    order: Ints
    point: Floats
    fastest: Floats
    when: Ints

    def arrive(self, person: int, place: Floats, step: int) -> None:
        self.order[person], self.point[person] = ARRIVE, place
        self.fastest[person], self.when[person] = _SPRINT, step

    def keep(self, person: int, offset: Floats, fastest: float = _PRESS) -> None:
        self.order[person], self.point[person], self.fastest[person] = KEEP, offset, fastest


class Tactics:
    """The positions of a formation, computed for a stadium."""

    def __init__(self, stadium: Stadium) -> None:
        self._stadium = stadium
        self._pitch = stadium.pitch
        self.teams: Ints = stadium.team_of_person.astype(np.int64)
        """By person: 1 and 2 for the teams, 0 for those who do not play."""
        self.keepers = np.array([person.role == "keeper" for person in stadium.persons])
        self.field = (self.teams > 0) & ~self.keepers
        """The players who are not keepers."""
        self._fractions = np.zeros((len(self.teams), 2))
        for team in (1, 2):
            members = np.flatnonzero(self.field & (self.teams == team))
            self._fractions[members] = _lines(len(members))

    def defended(self, team: int) -> Goal:
        return self._stadium.defended("AB"[team - 1])

    def attacked(self, team: int) -> Goal:
        return self._stadium.attacked("AB"[team - 1])

    def nearest(self, place: Floats, to: Floats, among: np.ndarray) -> int:
        """Which of them is nearest to a position."""
        away = np.hypot(*(place - to).T)
        return int(np.argmin(np.where(among, away, np.inf)))

    def kick_off(self) -> Floats:
        """Everyone in their own half."""
        centre = np.array(self._pitch.centre)
        places = self.formation(centre, 0)
        for team in (1, 2):
            goal = self.defended(team)
            mine = self.field & (self.teams == team)
            side = 1.0 if goal.y > centre[1] else -1.0
            depth = (places[mine, 1] - centre[1]) * side
            places[mine, 1] = centre[1] + side * np.maximum(depth, 1.5)
        return places

    def formation(self, ball: Floats, team: int) -> Floats:
        """Positions for all while a team has the ball at a position."""
        pitch, centre = self._pitch, np.array(self._pitch.centre)
        wide, long = pitch.right - pitch.left, pitch.top - pitch.bottom
        places = self._others(ball)
        for number in (1, 2):
            goal = self.defended(number)
            ahead = -1.0 if goal.y > centre[1] else 1.0
            mine = self.field & (self.teams == number)
            forward = (ball[1] - goal.y) * ahead / long
            depth = self._fractions[mine, 1] * 0.55 + (forward - 0.5) * 0.6 + 0.22
            depth += 0.05 if number == team else -0.02
            back = self._fractions[mine, 1] < 0.3
            depth = np.where(back, np.minimum(depth, forward - 0.16), depth)
            places[mine, 1] = goal.y + ahead * long * np.clip(depth, 0.08, 0.92)
            # The nearer the ball is to their own goal, the closer they stand together.
            spread = 0.8 * min(1.0, 0.35 + 1.3 * max(forward, 0.0))
            x = (self._fractions[mine, 0] - 0.5) * wide * spread + (ball[0] - centre[0]) * 0.3
            places[mine, 0] = centre[0] + np.clip(x, 1.0 - wide / 2, wide / 2 - 1.0)
            keeper = self.keepers & (self.teams == number)
            aside = np.clip((ball[0] - goal.centre) * 0.12, -1.6, 1.6)
            places[keeper] = goal.centre + aside, goal.y + ahead * (1.0 + 4.0 * forward**2)
        return places

    def orders(self, ball: Floats, team: int, rng: np.random.Generator, *, restart: bool) -> Orders:
        """What everyone does until the ball is at a position, in a team's possession."""
        people = len(self.teams)
        point = self.formation(ball, team) + rng.normal(0.0, 0.7, (people, 2))
        fastest = np.where(self.keepers, _PRESS, np.where(self.field, _JOG, 3.0))
        if restart:
            fastest = np.where(self.field, 6.0, fastest)
        orders = Orders(
            np.full(people, PLACE, np.int64), point, fastest, np.zeros(people, np.int64)
        )
        referee = next(
            (i for i, person in enumerate(self._stadium.persons) if person.role == "referee"), None
        )
        if referee is not None:
            orders.keep(referee, np.array([6.0 if ball[0] < self._pitch.centre[0] else -6.0, 4.0]))
        return orders

    def _others(self, ball: Floats) -> Floats:
        """Referees and substitutes: along the lines."""
        pitch = self._pitch
        places = np.zeros((len(self.teams), 2))
        sides = [pitch.left - 1.5, pitch.right + 1.5]
        seats = 0
        for number, person in enumerate(self._stadium.persons):
            if person.role == "substitute":
                side = -1.0 if person.team == "A" else 1.0
                places[number] = pitch.left - 6.0, side * (4.0 + 1.5 * (seats % 5))
                seats += 1
            elif person.role == "referee":
                places[number] = sides[number % 2], np.clip(ball[1], pitch.bottom, pitch.top)
        return places


def _lines(members: int) -> Floats:
    """Across and along, as fractions, for `members` field players: defence, midfield, attack."""
    if members == 0:
        return np.empty((0, 2))
    back, front = (4, 2) if members >= 10 else (max(1, members * 3 // 7), max(1, members // 7))
    sizes = [back, max(0, members - back - front), front]
    places = []
    for depth, size in zip((0.12, 0.5, 0.85), sizes, strict=True):
        places += [((i + 0.5) / size, depth + 0.05 * (i % 2)) for i in range(size)]
    return np.array(places[:members])
