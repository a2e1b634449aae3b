"""The planner moves what is worth it, and nothing goes back and forth."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from betimes.model import OptionError
from betimes.placement import Caution, Planner, Problem, fitting
from tests.placement.test_optimiser import drawn


def chain(traffic: float) -> Problem:
    """Two detectors that send each other events, and room for both on either node."""
    return Problem(
        np.array([[0, traffic], [0, 0]]), np.ones((2, 2)), np.ones(2), np.full(2, 2),
        latency_weight=0.0,
    )  # fmt: skip


@pytest.mark.parametrize(("moving", "moves"), [(100.0, 1), (100_000.0, 0)])
def test_a_move_must_gain_more_than_it_costs_until_the_horizon(moving: float, moves: int) -> None:
    planner = Planner(moving=moving, iterations=3, caution=Caution(horizon=10))
    plan = planner.plan(chain(50), [0, 1], now=0)
    assert len(plan.moves) == moves
    assert (plan.gain > 0) == bool(moves)


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3])
def test_noise_moves_nothing_back_and_forth(noise: float) -> None:
    truth, rng = drawn(3, 16, 3), np.random.default_rng(1)
    planner = Planner(moving=5.0, seed=1, iterations=4)
    start = fitting(truth, np.random.default_rng(0))
    hosts, moved, seen = planner.plan(truth, start, now=0).hosts, 0, list[tuple[int, ...]]()
    for cycle in range(1, 120):
        factor = np.exp(rng.normal(0, noise, truth.traffic.shape))
        plan = planner.plan(replace(truth, traffic=truth.traffic * factor), hosts, now=cycle)
        hosts = plan.hosts
        assert truth.fits(hosts)
        moved += len(plan.moves)
        seen.append(tuple(hosts.tolist()))
    again = Counter(place for place, after in pairwise(seen) if place != after)
    assert max(again.values(), default=1) == 1, "a placement was left, taken again, and left again"
    assert moved <= truth.detectors


def test_a_detector_that_has_moved_rests_until_its_gain_was_to_be_had() -> None:
    quiet = Caution(horizon=30, memory=0)
    planner = Planner(moving=1.0, iterations=3, caution=quiet)
    alone, pairs = np.zeros((3, 3)), [(0, 1), (1, 2)]
    swing = []
    for pair in pairs:
        traffic = alone.copy()
        traffic[pair] = 50.0
        swing.append(Problem(traffic, np.ones((2, 2)), np.ones(3), np.full(2, 2)))
    hosts = np.array([0, 1, 1])
    moves: Counter[int] = Counter()
    for cycle in range(60):
        plan = planner.plan(swing[cycle % 2], hosts, now=cycle)
        moves.update(move.detector for move in plan.moves)
        hosts = plan.hosts
    assert moves
    assert max(moves.values()) <= 2  # once per horizon


def test_an_overloaded_node_is_relieved_whatever_that_costs() -> None:
    problem = Problem(np.zeros((3, 3)), np.ones((2, 2)), np.full(3, 2), np.array([4, 2]))
    planner = Planner(moving=1e9, iterations=3)
    plan = planner.plan(problem, [0, 0, 0], now=0)
    assert problem.fits(plan.hosts)
    assert len(plan.moves) == 1
    assert plan.reason == "a node was overloaded"


def test_a_caution_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(OptionError, match="horizon to be above 0"):
        Caution(horizon=0)
    with pytest.raises(OptionError, match="margin to be 0 or more"):
        Caution(margin=-1)
