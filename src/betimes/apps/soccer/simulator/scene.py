"""What the simulator passes from part to part: the scene, plans for it, and their results.

The match goes from contact to contact. A `Plan` is the path of the ball from one contact to the
next: through the air, along the ground, perhaps over a line and back to where play restarts. A plan
that passes all checks becomes a `Piece` of the match.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from betimes.apps.soccer.simulator.physics import TICKS, Floats, Ints, fly
from betimes.apps.soccer.simulator.truth import Ball, Crossing, Fact
from betimes.apps.soccer.stadium import Goal, Stadium

INSIDE = 0.12
"""Metres that a ball in play stays away from the lines, unless it crosses one."""
LONGEST = 12_000
"""Ticks that a ball is followed: six seconds."""


def ball_phase(number: int) -> int:
    """Microseconds after each tick at which a ball reports."""
    return 100 * number


@dataclass
class Scene:
    """The situation at a contact."""

    step: int
    place: Floats
    """One row per person, with x and y; velocity and heading likewise."""
    velocity: Floats
    heading: Floats
    ball: Floats
    motion: Floats
    """The velocity of the ball."""
    active: int
    """The index of the ball in play."""
    balls: Floats
    """The positions of all balls; for the active one, its position when the piece began."""


@dataclass(frozen=True)
class Contact:
    """Who hits the ball next, and how."""

    person: int
    manner: str
    """What makes sense after it: see `director`."""
    part: str = "leg"


@dataclass
class Path:
    """A ball on its way, tick by tick."""

    places: Floats
    velocities: Floats
    accelerations: Floats
    bounces: Ints
    crossing: int | None
    """The first tick beyond a line."""

    @property
    def ticks(self) -> int:
        return len(self.places)

    def first(self, ticks: int) -> Path:
        """The beginning of it."""
        bounces = self.bounces[self.bounces < ticks]
        crossing = self.crossing if self.crossing is not None and self.crossing < ticks else None
        return Path(
            self.places[:ticks], self.velocities[:ticks], self.accelerations[:ticks], bounces,
            crossing,
        )  # fmt: skip


@dataclass
class Plan:
    """The path from one contact to the next."""

    path: Path
    next: Contact
    body: Floats
    """Where the next player's body is then."""
    meeting: Floats
    """Where the ball is then."""
    motion: Floats
    """Its velocity then."""
    switch: int | None = None
    """The tick from which another ball is the active one."""
    active: int = 0
    """That ball."""
    held: bool = False
    """Whether someone carries the ball, around anyone in the way."""
    restart: bool = False
    """Whether the ball was dead on the way."""
    slack: float = 0.55
    """How far the body may be from the ball at the end."""


@dataclass(frozen=True)
class Swing:
    """A limb that reaches for the ball: at a step, to a place."""

    step: int
    person: int
    part: str
    place: tuple[float, float, float]
    body: tuple[float, float]
    """Where the person is then."""


@dataclass
class Piece:
    """A part of the match, with one active ball."""

    step: int
    active: int
    balls: Floats
    path: Path
    places: Floats
    """Everyone's position at every step."""
    velocities: Floats
    headings: Floats
    facts: list[Fact]
    swings: list[Swing]

    @property
    def steps(self) -> int:
        return self.path.ticks // TICKS


def box_of(stadium: Stadium) -> Floats:
    """The lines around the pitch in the form that the compiled functions need."""
    pitch = stadium.pitch
    return np.array([pitch.left, pitch.right, pitch.bottom, pitch.top])


def sent(scene: Scene, velocity: Floats, box: Floats) -> Path:
    """The path of the ball if the contact gives it a velocity."""
    places, velocities, accelerations, bounces = fly(
        scene.ball, scene.motion, velocity - scene.motion, box, LONGEST
    )
    x, y = places[:, 0], places[:, 1]
    beyond = np.flatnonzero((x < box[0]) | (x > box[1]) | (y < box[2]) | (y > box[3]))
    crossing = int(beyond[0]) if len(beyond) else None
    return Path(places, velocities, accelerations, bounces, crossing)


def ball_at(path: Path, tick: int) -> Ball:
    """Place and velocity at a tick."""
    return Ball(*map(float, path.places[tick]), *map(float, path.velocities[tick]))


def crossing_of(path: Path, stadium: Stadium, sid: int, ts: int) -> Crossing | None:
    """The fact that the ball crosses a line, if it does; `ts` is the time of its first tick."""
    if path.crossing is None:
        return None
    pitch, tick = stadium.pitch, path.crossing
    ball = ball_at(path, tick)
    end = 0 if ball.y > pitch.top else 1 if ball.y < pitch.bottom else None
    inside = end is not None and _between(pitch.goals[end], ball)
    return Crossing(ts + tick * 500, sid, ball, end, inside)


def _between(goal: Goal, ball: Ball) -> bool:
    return goal.left <= ball.x <= goal.right and ball.z <= goal.height
