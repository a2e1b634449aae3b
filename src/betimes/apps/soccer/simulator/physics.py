"""How the ball flies and how people run, compiled.

Ball, 2,000 steps per second: a *contact* changes its velocity by a given amount over 4 ms. Gravity
and drag act on it in the air, friction on the ground. A *bounce* takes 3 ms, returns half of the
vertical speed and costs a fifth of the horizontal speed; a ball that comes down slower than 1.2 m/s
sinks into the grass within 30 ms instead, which is not a peak of acceleration. Nets and boards,
starting 1 m outside the lines, catch it softly. So the acceleration is 55 m/s² or more in contacts
and in bounces, and nowhere else on the pitch.

People, 200 steps per second: each has an order (go to a place, be at a place at a time, follow the
ball at a distance) that determines the velocity they aim for. They stay clear of others and of
places where the ball is about to bounce or be hit by someone else, and change their velocity as
fast as legs allow.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

TICK = 0.0005
"""Seconds between two positions of a ball."""
STEP = 0.005
"""Seconds between two positions of other sensors."""
TICKS = 10
"""Ticks in a step."""
CONTACT = 8
"""Ticks of a contact."""

GRAVITY = 9.81
DRAG = 0.0133
"""Half of air density times drag coefficient times cross-section, over the ball's mass (1/m)."""
ROLLING = 0.7
"""Deceleration of a ball on grass (m/s²)."""
CATCH = 40.0
"""Deceleration in nets and boards (m/s²)."""
MARGIN = 1.0
"""Metres outside the lines at which nets and boards begin."""

FASTEST = 9.0
STRONGEST = 7.0
"""Highest speed (m/s) and acceleration (m/s²) of a person."""

PLACE, ARRIVE, KEEP = 0, 1, 2
"""Orders: go to a place; be at a place at the end of the plan; keep to the ball at a distance."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@compiled
def fly(
    place: Floats, velocity: Floats, kick: Floats, box: Floats, ticks: int
) -> tuple[Floats, Floats, Floats, Ints]:
    """Position, velocity and acceleration of a ball at every tick, and the ticks of bounces."""
    places, velocities = np.empty((ticks, 3)), np.empty((ticks, 3))
    accelerations = np.empty((ticks, 3))
    bounces = np.empty(64, np.int64)
    count = 0
    p, v, a = place.copy(), velocity.copy(), np.zeros(3)
    landing, push = 0, np.zeros(3)
    for tick in range(ticks):
        speed = math.sqrt(v[0] ** 2 + v[1] ** 2 + v[2] ** 2)
        flat = math.sqrt(v[0] ** 2 + v[1] ** 2)
        grounded = p[2] <= 0.0 and abs(v[2]) < 1e-9 and landing == 0
        a[0], a[1], a[2] = -DRAG * speed * v[0], -DRAG * speed * v[1], -DRAG * speed * v[2]
        outside = (
            p[0] < box[0] - MARGIN or p[0] > box[1] + MARGIN
            or p[1] < box[2] - MARGIN or p[1] > box[3] + MARGIN
        )  # fmt: skip
        brake = (CATCH if outside else 0.0) + (ROLLING if grounded else 0.0)
        if brake > 0.0 and flat > 0.0:
            strength = min(brake, flat / TICK)
            a[0] -= strength * v[0] / flat
            a[1] -= strength * v[1] / flat
        a[2] -= 0.0 if grounded else GRAVITY
        if tick < CONTACT:
            weight = math.sin(math.pi * (tick + 0.5) / CONTACT) ** 2 * 2.0 / CONTACT / TICK
            a[0] += kick[0] * weight
            a[1] += kick[1] * weight
            a[2] += kick[2] * weight
        elif landing == 0 and not grounded and p[2] <= 0.0 and v[2] < 0.0:
            if v[2] > -1.2:
                landing = 60
                push[0], push[1], push[2] = 0.0, 0.0, -v[2] / (landing * TICK)
            else:
                landing = 6
                span = landing * TICK
                push[0], push[1] = -0.2 * v[0] / span, -0.2 * v[1] / span
                push[2] = -1.5 * v[2] / span
                if count < 64:
                    bounces[count] = tick
                    count += 1
            push[2] += GRAVITY
        if landing > 0:
            a[0] += push[0]
            a[1] += push[1]
            a[2] += push[2]
        for k in range(3):
            places[tick, k], velocities[tick, k], accelerations[tick, k] = p[k], v[k], a[k]
            v[k] += a[k] * TICK
            p[k] += v[k] * TICK
        if landing > 0:
            landing -= 1
            if landing == 0 and push[2] < 60.0 + GRAVITY:
                v[2] = 0.0
        if tick >= CONTACT and landing == 0 and abs(v[2]) < 0.06 and p[2] <= 0.001:
            v[2], p[2] = 0.0, 0.0
    return places, velocities, accelerations, bounces[:count]


@compiled
def run(
    place: Floats,
    velocity: Floats,
    heading: Floats,
    order: Ints,
    point: Floats,
    fastest: Floats,
    when: Ints,
    ball: Floats,
    hitter: int,
    contact: Floats,
    bounces: Floats,
    steps: int,
) -> tuple[Floats, Floats, Floats]:
    """Position, velocity and heading of everyone at every step, and at the end (one more row).

    `when`: the step at which an `ARRIVE` must be there. `bounces`: rows of step, x, y.
    """
    people = len(place)
    places, velocities = np.empty((steps + 1, people, 2)), np.empty((steps + 1, people, 2))
    headings = np.empty((steps + 1, people, 2))
    p, v, h = place.copy(), velocity.copy(), heading.copy()
    for step in range(steps + 1):
        places[step], velocities[step], headings[step] = p, v, h
        left = (steps - step) * STEP
        for i in range(people):
            ux, uy = _wanted(i, step, p, order, point, fastest, when, ball)
            if order[i] != ARRIVE or step >= when[i]:
                for k in range(people):
                    x, y = places[step, i, 0] - p[k, 0], places[step, i, 1] - p[k, 1]
                    away = math.sqrt(x * x + y * y)
                    if k != i and 1e-6 < away < 1.0:
                        ux += x / away * (1.0 - away) * 4.0
                        uy += y / away * (1.0 - away) * 4.0
                if i != hitter and left < 0.8:
                    x, y = _repelled(p[i], contact[0], contact[1], 1.1)
                    ux, uy = ux + x, uy + y
                for bounce in range(len(bounces)):
                    soon = (bounces[bounce, 0] - step) * STEP
                    if -0.05 < soon < 1.2:
                        x, y = _repelled(p[i], bounces[bounce, 1], bounces[bounce, 2], 2.2)
                        ux, uy = ux + x, uy + y
            ax, ay = (ux - v[i, 0]) / 0.15, (uy - v[i, 1]) / 0.15
            size = math.sqrt(ax * ax + ay * ay)
            if size > STRONGEST:
                ax, ay = ax / size * STRONGEST, ay / size * STRONGEST
            v[i, 0] += ax * STEP
            v[i, 1] += ay * STEP
            speed = math.sqrt(v[i, 0] ** 2 + v[i, 1] ** 2)
            if speed > FASTEST:
                v[i, 0], v[i, 1] = v[i, 0] / speed * FASTEST, v[i, 1] / speed * FASTEST
            p[i, 0] += v[i, 0] * STEP
            p[i, 1] += v[i, 1] * STEP
            _turn(h[i], v[i], speed, ball[min(step, len(ball) - 1)], p[i])
    return places, velocities, headings


@compiled
def _wanted(
    i: int, step: int, p: Floats, order: Ints, point: Floats, fastest: Floats, when: Ints,
    ball: Floats,
) -> tuple[float, float]:  # fmt: skip
    """The velocity that an order asks for."""
    x, y = point[i, 0] - p[i, 0], point[i, 1] - p[i, 1]
    if order[i] == ARRIVE and step < when[i]:
        pace = 1.0 / max((when[i] - step) * STEP, 0.03)
    elif order[i] == KEEP:
        now = min(step, len(ball) - 1)
        x, y = x + ball[now, 0], y + ball[now, 1]
        pace = 2.0
    else:
        pace = 1.4
    ux, uy = x * pace, y * pace
    speed = math.sqrt(ux * ux + uy * uy)
    if speed > fastest[i]:
        ux, uy = ux / speed * fastest[i], uy / speed * fastest[i]
    return ux, uy


@compiled
def _repelled(p: Floats, x: float, y: float, radius: float) -> tuple[float, float]:
    dx, dy = p[0] - x, p[1] - y
    away = math.sqrt(dx * dx + dy * dy)
    if away >= radius:
        return 0.0, 0.0
    if away < 1e-6:
        return radius * 5.0, 0.0
    push = (radius - away) * 5.0 + 0.5
    return dx / away * push, dy / away * push


@compiled
def _turn(h: Floats, v: Floats, speed: float, ball: Floats, p: Floats) -> None:
    """A person faces the running direction, or the ball when standing."""
    x, y = v[0], v[1]
    if speed < 0.6:
        x, y = ball[0] - p[0], ball[1] - p[1]
    size = math.sqrt(x * x + y * y)
    if size < 1e-6:
        return
    h[0] += (x / size - h[0]) * STEP / 0.12
    h[1] += (y / size - h[1]) * STEP / 0.12
    size = math.sqrt(h[0] ** 2 + h[1] ** 2)
    if size < 1e-3:
        h[0], h[1], size = y, -x, math.sqrt(x * x + y * y)
    h[0] /= size
    h[1] /= size


def carry(start: Floats, stop: Floats, ticks: int) -> tuple[Floats, Floats, Floats]:
    """A ball carried from rest to rest, as smoothly as possible (minimum jerk)."""
    s = (np.arange(ticks) / max(ticks, 1))[:, None]
    span, way = max(ticks, 1) * TICK, (stop - start)[None, :]
    places = start + way * (10 * s**3 - 15 * s**4 + 6 * s**5)
    velocities = way * (30 * s**2 - 60 * s**3 + 30 * s**4) / span
    accelerations = way * (60 * s - 180 * s**2 + 120 * s**3) / span**2
    return places, velocities, accelerations


def carry_ticks(start: Floats, stop: Floats) -> int:
    """How long a carry takes if the ball is to be neither fast nor strongly accelerated."""
    way = float(np.linalg.norm(stop - start))
    seconds = max(0.6, math.sqrt(5.8 * way / 12.0), 1.9 * way / 14.0)
    return math.ceil(seconds / STEP) * TICKS
