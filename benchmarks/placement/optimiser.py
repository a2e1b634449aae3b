"""Who lives where: the optimiser against greedy and a solver; needs `pip install ortools`.

Hierarchies are drawn at random: each detector reads from one to three
of the layers just below it, traffic is log-normal, latencies between nodes differ, and nodes
together have 15 % more capacity than detectors need. Costs are those of `Problem.cost`: less is
better, and a gap of 1 % means 1 % more cost than the reference.

* *small*: 12 to 24 detectors on 4 nodes; the reference is the optimum, as CP-SAT proves it.
* *large*: 480 detectors on 16 nodes; the reference is the best that CP-SAT finds in `--minutes`. It
  runs twice, once from scratch and once from where the optimiser ended; the better result counts.
"""

from __future__ import annotations

import importlib
import time
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.placement import PlacementError, Problem, greedy, optimise

SLACK = 1.15
"""How much more capacity than load there is."""
SPAN = 24
"""A detector reads from those that are at most this many before it."""


def drawn(detectors: int, nodes: int, seed: int) -> Problem:
    """A layered hierarchy with random traffic, loads and latencies; integers, for the solver."""
    rng = np.random.default_rng(seed)
    traffic = np.zeros((detectors, detectors))
    layer = np.sort(rng.integers(0, max(2, detectors // 8), detectors))
    for reader in range(detectors):
        below = np.flatnonzero(layer < layer[reader])[-SPAN:]
        count = min(len(below), int(rng.integers(1, 4)))
        for source in rng.choice(below, count, replace=False) if count else ():
            traffic[source, reader] = 1 + round(rng.lognormal(3, 1.2))
    latency = np.triu(rng.integers(1, 20, (nodes, nodes)), 1)
    load = rng.integers(1, 10, detectors)
    capacity = np.full(nodes, np.ceil(load.sum() / nodes * SLACK))
    return Problem(traffic, latency + latency.T, load, capacity)


def solved(
    problem: Problem, seconds: float, hint: npt.NDArray[np.int64] | None = None
) -> tuple[float, bool]:
    """The least cost that CP-SAT finds, and whether it is proven; it may begin at a placement."""
    cp_model: Any = importlib.import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    nodes = range(problem.nodes)
    on = [[model.new_bool_var("") for _ in nodes] for _ in range(problem.detectors)]
    for row in on:
        model.add_exactly_one(row)
    for k in nodes:
        loads = [int(load) * row[k] for load, row in zip(problem.load, on, strict=True)]
        model.add(sum(loads) <= int(problem.capacity[k]))
    costs = []
    for i, j in np.argwhere(problem.traffic > 0).tolist():
        both = [[model.new_bool_var("") for _ in nodes] for _ in nodes]
        if hint is not None:
            for k, h in product(nodes, nodes):
                model.add_hint(both[k][h], hint[i] == k and hint[j] == h)
        for k in nodes:
            model.add(sum(both[k]) == on[i][k])
            model.add(sum(row[k] for row in both) == on[j][k])
        weight = 2 * int(problem.traffic[i, j])
        costs += [
            (weight + int(problem.latency[k, h])) * both[k][h]
            for k in nodes for h in nodes if k != h
        ]  # fmt: skip
    if hint is not None:
        for at, row in zip(hint, on, strict=True):
            for k, variable in enumerate(row):
                model.add_hint(variable, at == k)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return float("inf"), False
    return float(solver.objective_value), status == cp_model.OPTIMAL


def compare(problem: Problem, seed: int, limit: float, *, again: bool) -> dict[str, Any]:
    """Costs of all contenders; CP-SAT may begin again at what the optimiser found."""
    found = optimise(problem, seed=seed, seconds=0.5)
    problem.check(found)
    try:
        yardstick = problem.cost(greedy(problem))
    except PlacementError:
        yardstick = float("inf")
    began = time.perf_counter()
    scratch, proven = solved(problem, limit)
    best = min(scratch, solved(problem, limit, found)[0]) if again else scratch
    return {
        "optimiser": problem.cost(found), "greedy": yardstick, "scratch": scratch, "solver": best,
        "proven": proven, "solver s": time.perf_counter() - began,
    }  # fmt: skip


def line(name: str, costs: dict[str, Any]) -> str:
    """A row of the table."""
    gap = costs["optimiser"] / costs["solver"] - 1
    behind = costs["greedy"] / costs["solver"] - 1
    return (
        f"| {name} | {costs['optimiser']:.0f} | {costs['greedy']:.0f} | {costs['scratch']:.0f} "
        f"| {costs['solver']:.0f} "
        f"| {'yes' if costs['proven'] else 'no'} | {gap:+.1%} | {behind:+.1%} "
        f"| {costs['solver s']:.0f} |"
    )


def show(*, small: int, large: int, minutes: float) -> None:
    optimise(drawn(8, 2, 0), seconds=None, iterations=1)  # compiles
    print("| problem | optimiser | greedy | CP-SAT | best | proven | gap | greedy's gap | s |")
    print("|---|---:|---:|---:|---:|---|---:|---:|---:|")
    for seed in range(small):
        detectors = int(np.linspace(12, 24, small)[seed])
        costs = compare(drawn(detectors, 4, seed), seed, 120.0, again=False)
        print(line(f"{detectors} on 4", costs), flush=True)
    for seed in range(large):
        costs = compare(drawn(480, 16, 100 + seed), seed, 60 * minutes, again=True)
        print(line("480 on 16", costs), flush=True)
