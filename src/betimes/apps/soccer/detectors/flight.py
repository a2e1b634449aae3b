"""Where a ball will fly: the projection that decides whether a hit is a shot, and one on goal.

The challenge asks whether the projected path crosses the goal within 1.5 s. The projected path is
free fall from the position and velocity after the hit, without drag; a ball that comes down rolls
on along the ground.
"""

from __future__ import annotations

import math

from betimes.apps.soccer.stadium import Goal

HORIZON = 1.5
"""Seconds within which the ball must cross the line."""
HARD = 12.0
"""How fast a ball that misses the goal must leave the foot to be called a shot, in m/s."""
BESIDE, ABOVE = 3.5, 5.0
"""How far from a post, and how high, such a shot may pass, in metres."""
GRAVITY = 9.81

Vector = tuple[float, float, float]


def arrival(goal: Goal, place: Vector, velocity: Vector) -> Vector | None:
    """When (in seconds), where and how high a ball crosses a goal line; None if not in time.

    >>> arrival(Goal(22.0, 30.0, 34.0), (26.0, 24.0, 0.1), (2.0, 20.0, 1.0))
    (0.5, 27.0, 0.0)
    >>> arrival(Goal(22.0, 30.0, 34.0), (26.0, 24.0, 0.1), (2.0, -20.0, 3.0))
    """
    after = (goal.y - place[1]) / velocity[1] if velocity[1] else -1.0
    if not 0.0 < after <= HORIZON:
        return None
    height = max(0.0, place[2] + velocity[2] * after - GRAVITY * after * after / 2)
    return after, place[0] + velocity[0] * after, height


def is_on_goal(goal: Goal, there: Vector) -> bool:
    """Whether a ball that arrives there is in the goal."""
    return goal.left <= there[1] <= goal.right and there[2] <= goal.height


def is_shot(goal: Goal, there: Vector, velocity: Vector) -> bool:
    """Whether it is a shot: on goal, or just past it."""
    close = goal.left - BESIDE <= there[1] <= goal.right + BESIDE and there[2] <= ABOVE
    return is_on_goal(goal, there) or (close and math.hypot(*velocity) >= HARD)
