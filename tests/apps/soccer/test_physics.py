"""How the ball flies and how people run, whatever they are asked to do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.apps.soccer.simulator.checks import clear_shot
from betimes.apps.soccer.simulator.physics import (
    ARRIVE,
    CONTACT,
    FASTEST,
    GRAVITY,
    KEEP,
    MARGIN,
    PLACE,
    STEP,
    STRONGEST,
    TICK,
    Floats,
    carry,
    carry_ticks,
    fly,
    run,
)
from betimes.apps.soccer.simulator.scene import box_of
from betimes.apps.soccer.simulator.truth import Ball
from betimes.apps.soccer.stadium import SIMULATED

BOX = box_of(SIMULATED)
CENTRE = np.array([26.0, 0.0, 0.0])
STILL = np.zeros(3)
UP = np.array([0.0, 0.0, 1.0])
PEAK = 55.0

flat = st.floats(-25, 25)
kick = st.tuples(flat, flat, st.floats(0, 12)).map(np.array)
place = st.tuples(st.floats(1, 51), st.floats(-33, 33), st.floats(0, 2)).map(np.array)


def sizes(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt((vectors**2).sum(axis=1)))


@settings(max_examples=80)
@given(place, kick)
def test_only_contacts_and_bounces_are_peaks(start: Floats, velocity: Floats) -> None:
    """Behind nets and boards a very fast ball may be braked as hard; nobody plays there."""
    places, _, accelerations, bounces = fly(start, STILL, velocity, BOX, 8_000)
    x, y, _ = places.T
    inside = (BOX[0] - MARGIN <= x) & (x <= BOX[1] + MARGIN)
    inside &= (BOX[2] - MARGIN <= y) & (y <= BOX[3] + MARGIN)
    peak = np.flatnonzero((sizes(accelerations) >= PEAK) & inside)
    allowed = set(range(CONTACT))
    for bounce in bounces:
        allowed |= set(range(bounce, bounce + 6))
    assert set(peak.tolist()) <= allowed


@settings(max_examples=80)
@given(place, kick)
def test_a_ball_stays_above_the_ground_and_comes_to_rest(start: Floats, velocity: Floats) -> None:
    places, velocities, _, _ = fly(start, STILL, velocity, BOX, 80_000)
    assert places[:, 2].min() > -0.05
    assert places[:, 2].max() < start[2] + velocity[2] ** 2 / (2 * GRAVITY) + 0.1
    assert sizes(velocities[-1:])[0] == 0
    assert places[-1, 2] == 0


@given(place, kick.filter(lambda velocity: math.hypot(*velocity) > 1), kick)
def test_a_contact_changes_the_velocity_by_what_was_asked(
    start: Floats, velocity: Floats, before: Floats
) -> None:
    _, velocities, accelerations, _ = fly(start + UP, before, velocity - before, BOX, CONTACT + 1)
    assert np.abs(velocities[CONTACT] - velocity).max() < 0.15
    change = math.hypot(*(velocity - before))
    if change > 0.8:
        assert sizes(accelerations[:CONTACT]).max() >= PEAK


def test_free_fall() -> None:
    seconds = 0.4
    places, velocities, _, _ = fly(
        CENTRE + 3 * UP, np.array([2.0, 1.0, 2.0]), STILL, BOX, round(seconds / TICK) + 1
    )
    assert places[-1] == pytest.approx(
        [26 + 2 * seconds, seconds, 3 + 2 * seconds - GRAVITY * seconds**2 / 2], abs=0.02
    )
    assert velocities[-1, 2] == pytest.approx(2 - GRAVITY * seconds, abs=0.05)


def test_a_bounce_gives_back_half() -> None:
    _, velocities, _, bounces = fly(CENTRE + 2 * UP, STILL, STILL, BOX, 4_000)
    assert len(bounces) >= 1
    first = int(bounces[0])
    before, after = velocities[first, 2], velocities[first + 6, 2]
    assert before == pytest.approx(-math.sqrt(2 * GRAVITY * 2), rel=0.05)
    assert after == pytest.approx(-before / 2, rel=0.05)


def test_a_rolling_ball_slows_down_evenly() -> None:
    places, velocities, accelerations, bounces = fly(
        CENTRE, np.array([0.0, 4.0, 0.0]), STILL, BOX, 4_000
    )
    assert not len(bounces)
    assert (np.diff(velocities[:, 1]) < 0).all()
    assert sizes(accelerations).max() < 1.5
    assert (places[:, 2] == 0).all()


@given(place, place)
def test_a_carried_ball_goes_gently_from_rest_to_rest(start: Floats, stop: Floats) -> None:
    ticks = carry_ticks(start, stop)
    places, velocities, accelerations = carry(start, stop, ticks)
    assert places[0] == pytest.approx(start)
    assert places[-1] == pytest.approx(stop, abs=0.01)
    assert sizes(velocities).max() < 15
    assert sizes(accelerations).max() < 20
    assert np.abs(np.diff(places, axis=0) / TICK - velocities[:-1]).max() < 0.1


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([PLACE, ARRIVE, KEEP]))
def test_people_keep_within_their_powers(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    people, steps = 12, 150
    begin = rng.uniform(0, 30, (people, 2))
    velocity = rng.uniform(-4, 4, (people, 2))
    ball = np.cumsum(rng.normal(0, 0.1, (steps, 3)), axis=0) + 15
    places, velocities, headings = run(
        begin, velocity, np.tile([1.0, 0.0], (people, 1)), np.full(people, order, np.int64),
        rng.uniform(-5, 30, (people, 2)), np.full(people, 8.0),
        np.full(people, rng.integers(1, steps), np.int64), ball, 0, ball[-1],
        np.array([[40.0, 15.0, 15.0]]), steps,
    )  # fmt: skip
    speed = np.hypot(velocities[..., 0], velocities[..., 1])
    change = np.diff(velocities, axis=0) / STEP
    assert speed.max() <= FASTEST + 1e-9
    assert np.hypot(change[..., 0], change[..., 1]).max() <= STRONGEST + 1e-6
    assert np.abs(np.diff(places, axis=0) - velocities[1:] * STEP).max() < 1e-9
    assert np.hypot(headings[..., 0], headings[..., 1]) == pytest.approx(1.0)


def test_who_must_arrive_does() -> None:
    steps, goal = 300, np.array([6.0, 3.0])
    places, _, _ = run(
        np.zeros((1, 2)), np.zeros((1, 2)), np.array([[1.0, 0.0]]), np.array([ARRIVE]),
        goal[None], np.array([8.0]), np.array([steps]), np.zeros((steps, 3)), 0, np.zeros(3),
        np.empty((0, 3)), steps,
    )  # fmt: skip
    assert math.hypot(*(places[-1, 0] - goal)) < 0.1


@pytest.mark.parametrize(
    ("ball", "clear"),
    [
        (Ball(26, 14, 0, 0, 25, 3), True),  # in the middle of the goal
        (Ball(26, 14, 0, 4.6, 25, 3), False),  # near a post, perhaps outside
        (Ball(26, 14, 0, 0, 25, 6.6), False),  # near the bar
        (Ball(26, 14, 0, 0, 13.4, 3), False),  # about 1.5 s away
        (Ball(26, 14, 0, 0, 8, 3), True),  # far too late
        (Ball(26, 14, 0, 20, -5, 3), True),  # elsewhere
        (Ball(21.0, 25, 0, 0, 11.9, 0), False),  # wide, and perhaps fast enough for a shot
    ],
)
def test_doubtful_shots_are_known(ball: Ball, clear: bool) -> None:
    assert clear_shot(ball, SIMULATED.pitch.goals[0]) == clear
