"""How cuckoos come to new placements: far flights, and moves of a swarm."""

from __future__ import annotations

import numpy as np

from betimes.model.compiling import compiled
from betimes.placement.kernel.descending import Floats, Ints, Task, descend, price, put

HEAVY = 1.2
"""The exponent of the lengths of flights: the smaller, the more of them are long."""
FLIGHTS = 0.7
"""The share of cuckoos that fly; the others move with the swarm."""
DRAWN = 0.5
"""A bird of the swarm takes over up to this share of the better placement."""
STRAYS = 0.1
"""The share of steps of a flight that begin somewhere else."""


@compiled
def swap_in(
    task: Task, hosts: Ints, table: Floats, used: Floats, i: int, to: int,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Move a detector; if the node is full, one that is there makes room, or nothing happens."""
    here, load = hosts[i], task.load[i]
    if here == to:
        return
    if used[to] + load <= task.capacity[to]:
        put(task, hosts, table, used, i, to)
        return
    offset = rng.integers(0, len(task.free))
    for n in range(len(task.free)):
        j = task.free[(n + offset) % len(task.free)]
        if hosts[j] != to:
            continue
        fits = used[to] - task.load[j] + load <= task.capacity[to]
        if fits and used[here] - load + task.load[j] <= task.capacity[here]:
            put(task, hosts, table, used, i, to)
            put(task, hosts, table, used, j, here)
            return


@compiled
def fly(
    task: Task, hosts: Ints, table: Floats, used: Floats, length: int, rng: np.random.Generator
) -> None:
    """A flight of this length: a walk from neighbour to neighbour, all of which go to one node."""
    i = task.free[rng.integers(0, len(task.free))]
    to = int(rng.integers(0, len(used)))
    for _ in range(length):
        swap_in(task, hosts, table, used, i, to, rng)
        degree = task.start[i + 1] - task.start[i]
        if degree == 0 or rng.random() < STRAYS:
            i = task.free[rng.integers(0, len(task.free))]
            to = int(rng.integers(0, len(used)))
            continue
        edge = task.start[i] + rng.integers(0, degree)
        if task.movable[task.other[edge]]:
            i = task.other[edge]
        if rng.random() < STRAYS:
            to = int(hosts[task.other[edge]])


@compiled
def follow(
    task: Task, hosts: Ints, table: Floats, used: Floats, best: Ints, rng: np.random.Generator
) -> None:
    """Move towards a better placement: take over where it has some of the detectors."""
    share = DRAWN * rng.random()
    for i in task.free:
        if hosts[i] != best[i] and rng.random() < share:
            swap_in(task, hosts, table, used, i, int(best[i]), rng)


@compiled
def brood(
    task: Task, nests: Ints, costs: Floats, table: Floats, used: Floats, abandon: int,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """One iteration: each nest's cuckoo lays an egg elsewhere; the worst nests are abandoned."""
    count, most = nests.shape[0], len(task.free)
    for p in range(count):
        egg = nests[p].copy()
        cost = price(task, egg, table, used)
        if rng.random() < FLIGHTS:
            length = (1.0 - rng.random()) ** (-1.0 / HEAVY)
            fly(task, egg, table, used, int(min(length + 1.0, most)), rng)
        else:
            better = np.argmin(costs)
            if better == p:
                better = rng.integers(0, count)
            follow(task, egg, table, used, nests[better], rng)
        descend(task, egg, table, used)
        cost = price(task, egg, table, used)
        nest = rng.integers(0, count)
        if cost < costs[nest]:
            nests[nest], costs[nest] = egg, cost
    for _ in range(abandon):
        worst, best = np.argmax(costs), np.argmin(costs)
        if worst == best:
            return
        egg = nests[rng.integers(0, count)].copy()
        price(task, egg, table, used)
        fly(task, egg, table, used, 1 + most // 4, rng)
        descend(task, egg, table, used)
        nests[worst], costs[worst] = egg, price(task, egg, table, used)
