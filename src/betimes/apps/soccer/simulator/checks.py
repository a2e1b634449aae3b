"""Whether a plan can be recognised from positions alone.

The truth is defined by thresholds, and sensors have noise. No detector could be expected to
recognise a plan that comes close to a threshold, so it is discarded and another one made:

- the player who hits the ball is near it, and everyone else is clearly farther away;
- nobody is near a place where the ball bounces, because a bounce is also a peak of acceleration;
- the ball does not fly through people;
- it stays clear of the lines or crosses them clearly, and goals are clearly inside the frame;
- shots are clearly on goal or not, clearly shots or not, clearly in time or not;
- the distance between two hits in a row is clearly shorter or longer than the minimum of a pass.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.apps.soccer.simulator.physics import TICK, TICKS, Floats
from betimes.apps.soccer.simulator.scene import INSIDE, Plan, ball_at
from betimes.apps.soccer.simulator.truth import (
    ABOVE,
    ANSWER_TIME,
    BESIDE,
    PASS_DISTANCE,
    SHOT_SPEED,
    SHOT_TIME,
    Ball,
    is_on_goal,
    is_shot,
    projected,
)
from betimes.apps.soccer.stadium import Goal, Stadium

_OTHERS = 0.75
"""Metres that others' bodies stay away from a contact; their legs may be nearer, not nearest."""
_BOUNCE = 1.55
_BODY = 0.4
_AFTER = TICKS
"""Ticks after the start of a contact at which its result is read."""


def clear_shot(ball: Ball, goal: Goal) -> bool:
    """Whether it is clear if a hit is a shot, and if it is on goal."""
    there = projected(ball, goal)
    if there is None or there.time > 1.07 * SHOT_TIME:
        return True
    if there.time > 0.93 * SHOT_TIME:
        return not _reaches(ball, goal)
    on_goal, shot = is_on_goal(ball, goal), is_shot(ball, goal)
    for x in (-1.0, 0.0, 1.0):
        for z in (-1.0, 0.0, 1.0):
            for faster in (0.95, 1.0, 1.05):
                # A longer flight leaves more room for doubt: half a metre per second of flight.
                doubt = 0.12 + 0.5 * there.time
                other = Ball(
                    ball.x + x * doubt, ball.y, max(0.0, ball.z + z * doubt),
                    ball.vx * faster, ball.vy * faster, ball.vz * faster,
                )  # fmt: skip
                if is_on_goal(other, goal) != on_goal or is_shot(other, goal) != shot:
                    return False
    return True


def _reaches(ball: Ball, goal: Goal) -> bool:
    """Whether it would be a shot if it were in time."""
    there = projected(ball, goal)
    if there is None:
        return False
    wide = goal.left - BESIDE - 1.0 <= there.x <= goal.right + BESIDE + 1.0
    fast = ball.speed >= 0.9 * SHOT_SPEED or goal.left - 1.0 <= there.x <= goal.right + 1.0
    return wide and fast and there.z <= ABOVE + 1.0


def sound_path(plan: Plan, stadium: Stadium, hitter: int, goal: Goal) -> bool:
    """Checks that need only the ball."""
    path, crossing = plan.path, plan.path.crossing
    after = ball_at(path, _AFTER)
    if not clear_shot(after, goal):
        return False
    pitch = stadium.pitch
    until = path.ticks if crossing is None else crossing
    x, y = path.places[:until, 0], path.places[:until, 1]
    if crossing is None:
        inside = (x > pitch.left + INSIDE) & (x < pitch.right - INSIDE)
        inside &= (y > pitch.bottom + INSIDE) & (y < pitch.top - INSIDE)
        return bool(inside.all()) and _clear_next(plan, stadium, hitter, after, goal)
    return crossing > 100 and _clear_crossing(ball_at(path, crossing), stadium)


def _clear_next(plan: Plan, stadium: Stadium, hitter: int, after: Ball, goal: Goal) -> bool:
    """Whether it is clear what connects two hits."""
    if plan.next.person == hitter:
        return True
    start, stop = plan.path.places[0], plan.meeting
    apart = math.hypot(stop[0] - start[0], stop[1] - start[1])
    teams = stadium.team_of_person
    answer = is_on_goal(after, goal) and teams[hitter] != teams[plan.next.person]
    late = plan.path.ticks * TICK * 1e6 - ANSWER_TIME
    return abs(apart - PASS_DISTANCE) > 0.4 and not (answer and abs(late) < 100_000)


def _clear_crossing(ball: Ball, stadium: Stadium) -> bool:
    pitch = stadium.pitch
    if pitch.bottom <= ball.y <= pitch.top:
        return min(abs(ball.y - pitch.bottom), abs(ball.y - pitch.top)) > 0.5
    goal = pitch.goals[0 if ball.y > pitch.top else 1]
    corners = min(abs(ball.x - pitch.left), abs(ball.x - pitch.right)) > 0.5
    posts = min(abs(ball.x - goal.left), abs(ball.x - goal.right)) > 0.25
    beside = not goal.left <= ball.x <= goal.right
    return corners and posts and (beside or abs(ball.z - goal.height) > 0.25)


def sound_people(plan: Plan, places: Floats, hitter: int) -> bool:
    """Checks that need everyone's position, step by step."""
    steps = plan.path.ticks // TICKS
    away = np.hypot(*(places[steps] - plan.meeting[:2]).T)
    own = away[plan.next.person]
    away[plan.next.person] = np.inf
    if own > plan.slack or away.min() < _OTHERS:
        return False
    for bounce in plan.path.bounces:
        there = places[min(steps, int(bounce) // TICKS)]
        if np.hypot(*(there - plan.path.places[bounce, :2]).T).min() < _BOUNCE:
            return False
    return plan.held or _flies_free(plan, places, hitter)


def _flies_free(plan: Plan, places: Floats, hitter: int) -> bool:
    """Whether the ball in play passes through nobody's body."""
    until = plan.path.ticks if plan.path.crossing is None else plan.path.crossing
    ball = plan.path.places[:until:TICKS]
    low = ball[:, 2] < 1.8
    apart = places[: len(ball)] - ball[:, None, :2]
    away = np.hypot(apart[..., 0], apart[..., 1])
    away[:, [hitter, plan.next.person]] = np.inf
    return bool(away[low].min(initial=np.inf) > _BODY)
