"""The optimiser: good placements, in time, and never an overloaded node."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import OptionError
from betimes.placement import PlacementError, Problem, fitting, greedy, optimise
from betimes.placement.kernel import descend, price, put


def drawn(seed: int, detectors: int, nodes: int, *, room: float = 1.3, pinned: int = 0) -> Problem:
    """A random problem that has a solution."""
    rng = np.random.default_rng(seed)
    traffic = rng.integers(1, 50, (detectors, detectors)).astype(np.float64)
    traffic *= np.triu(rng.random((detectors, detectors)) < 0.4, 1)
    load = rng.integers(1, 5, detectors).astype(np.float64)
    somewhere = rng.integers(0, nodes, detectors)
    capacity = np.maximum(np.bincount(somewhere, load, nodes), load.sum() / nodes * room)
    pins = np.full(detectors, -1)
    pins[:pinned] = somewhere[:pinned]
    if pinned:
        capacity[:] = load.sum()
    return Problem(traffic, rng.integers(0, 9, (nodes, nodes)), load, capacity, pins)


@st.composite
def problems(draw: st.DrawFn, *, most: int = 12) -> Problem:
    return drawn(
        draw(st.integers(0, 10_000)),
        draw(st.integers(1, most)),
        draw(st.integers(1, 3)),
        pinned=draw(st.integers(0, 1)),
    )


def optimum(problem: Problem) -> float:
    """The least cost, by trying everything."""
    every = product(range(problem.nodes), repeat=problem.detectors)
    return min(problem.cost(list(hosts)) for hosts in every if problem.fits(list(hosts)))


@given(problems())
def test_every_answer_fits_and_is_not_worse_than_what_there_was(problem: Problem) -> None:
    start = fitting(problem, np.random.default_rng(3))
    assert problem.fits(start)
    assert problem.fits(greedy(problem))
    found = optimise(problem, start=start, seconds=None, iterations=3)
    assert problem.fits(found)
    assert problem.cost(found) <= min(problem.cost(start), problem.cost(greedy(problem))) + 1e-6


@given(problems(most=5))
def test_small_problems_are_solved(problem: Problem) -> None:
    found = optimise(problem, seconds=None, iterations=30)
    assert problem.cost(found) == pytest.approx(optimum(problem))


@given(problems(), st.integers(0, 99))
def test_a_move_updates_what_pricing_it_again_would_find(problem: Problem, seed: int) -> None:
    rng, task = np.random.default_rng(seed), problem.task()
    hosts = rng.integers(0, problem.nodes, problem.detectors)
    table, used = np.zeros((problem.detectors, problem.nodes)), np.zeros(problem.nodes)
    cost = price(task, hosts, table, used)
    assert cost == pytest.approx(problem.cost(hosts))
    i, to = int(rng.integers(problem.detectors)), int(rng.integers(problem.nodes))
    gain = table[i, hosts[i]] - table[i, to]
    put(task, hosts, table, used, i, to)
    assert problem.cost(hosts) == pytest.approx(cost - gain)
    again, load = np.zeros_like(table), np.zeros_like(used)
    price(task, hosts, again, load)
    assert table == pytest.approx(again)
    assert used == pytest.approx(load)


@given(problems())
def test_after_a_descent_no_single_move_helps(problem: Problem) -> None:
    task, hosts = problem.task(), fitting(problem, np.random.default_rng(0))
    table, used = np.zeros((problem.detectors, problem.nodes)), np.zeros(problem.nodes)
    price(task, hosts, table, used)
    descend(task, hosts, table, used)
    least = problem.cost(hosts)
    for i, to in product(task.free.tolist(), range(problem.nodes)):
        other = hosts.copy()
        other[i] = to
        assert not problem.fits(other) or problem.cost(other) >= least - 1e-6


def test_the_same_seed_finds_the_same() -> None:
    problem = drawn(5, 40, 6)
    runs = [optimise(problem, seed=s, seconds=None, iterations=4).tolist() for s in (1, 1)]
    assert runs[0] == runs[1]


def test_many_detectors_end_better_than_greedy() -> None:
    problem = drawn(7, 120, 8)
    found = optimise(problem, seconds=None, iterations=20)
    assert problem.cost(found) < problem.cost(greedy(problem))


def test_the_search_ends_when_its_time_is_over() -> None:
    now = iter(range(1000))
    optimise(drawn(1, 10, 2), seconds=3, clock=lambda: next(now))
    assert next(now) == 4  # it looked at the start, then before each of two iterations, then at 3


def test_fitness_is_that_of_the_paper() -> None:
    problem = Problem(
        np.array([[0, 10, 4], [0, 0, 0], [0, 2, 0]]), np.array([[0, 3], [5, 0]]), np.ones(3),
        np.full(2, 3), traffic_weight=2.0, latency_weight=10.0,
    )  # fmt: skip
    # 0 and 1 together: saves 2 * 10; apart are 0 -> 2 (latency 3) and 2 -> 1 (latency 5).
    assert problem.fitness([0, 0, 1]) == 2 * 10 - (2 * 4 + 10 * 3) - (2 * 2 + 10 * 5)
    assert problem.cost([0, 0, 0]) == 0
    assert problem.cut([0, 0, 1]) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traffic": np.ones((2, 3))}, r"traffic to have the shape \(2, 2\)"),
        ({"load": np.array([1.0, np.nan])}, "load to be finite"),
        ({"capacity": np.array([-1.0, 9])}, "capacity to be finite and not negative"),
        ({"pinned": np.array([0, 7])}, "pinned to have a node below 2"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "traffic": np.zeros((2, 2)), "latency": np.zeros((2, 2)), "load": np.ones(2),
        "capacity": np.ones(2),
    }  # fmt: skip
    with pytest.raises((OptionError, PlacementError), match=message):
        Problem(**(good | change))


def test_without_a_placement_that_fits_there_is_an_error() -> None:
    heavy = Problem(np.zeros((3, 3)), np.zeros((2, 2)), np.full(3, 2), np.full(2, 3))
    with pytest.raises(PlacementError, match="add a node, or pin fewer detectors"):
        optimise(heavy, seconds=None, iterations=1)


def test_a_placement_that_overloads_or_names_no_node_is_refused() -> None:
    problem = Problem(np.zeros((2, 2)), np.zeros((2, 2)), np.ones(2), np.ones(2))
    problem.check([0, 1])
    with pytest.raises(PlacementError, match=r"would have to do \[2.0, 0.0\]"):
        problem.check([0, 0])
    with pytest.raises(PlacementError, match="a node from 0 to 1"):
        problem.check([0, 2])


def test_either_seconds_or_iterations() -> None:
    with pytest.raises(OptionError, match="either seconds or iterations"):
        optimise(drawn(1, 3, 2), seconds=None)
