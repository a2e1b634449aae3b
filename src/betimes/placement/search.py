"""Who lives where: cuckoo search whose ordinary moves are those of a particle swarm.

A placement is an *egg*, and a fixed number of *nests* hold one each. In an iteration, each nest's
cuckoo makes a new egg in one of two ways:

* a *Lévy flight*: a walk along the wiring moves that many detectors to other nodes. Lengths have a
  heavy tail: most flights move a few detectors, some move most of them. The distance between two
  placements is the number of detectors that are elsewhere;
* a move with the *swarm*: it takes over where a better nest has some of its detectors.

Then the egg *descends*: detectors move one by one, or change places, as long as that makes it
better. It is laid into a nest that is chosen at random, and stays there if it is better than what
it finds. After each iteration the worst nests are abandoned: what is there next comes of a long
flight. The paper (*placement*, section 4.3, after Ghodrati and Lotfi) has no descent; without it,
hundreds of detectors need more than the half second that a cycle has.

Invariant: an egg overloads no node. A step that would do that is skipped, or another detector makes
room for it. So the search may be stopped at any time, and what it has is a placement that fits, and
none worse than the one to start from.

Randomness comes from a seed. With `iterations`, a search can be repeated exactly; with `seconds`,
it does as many of them as it can.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from betimes.model.errors import OptionError
from betimes.placement.kernel import Task, brood, descend, price, put
from betimes.placement.problem import ANYWHERE, Floats, Ints, PlacementError, Problem

NESTS = 12
"""How many placements the search keeps."""
ABANDONED = 1
"""How many nests are given up after an iteration."""
_TRIES = 100
"""How often detectors are put on nodes at random before nothing is said to fit."""


def fitting(problem: Problem, rng: np.random.Generator) -> Ints:
    """Some placement in which no node is overloaded: heavy detectors first, to where is room.

    >>> two = Problem(np.zeros((2, 2)), np.zeros((2, 2)), np.array([2, 1]), np.array([2, 1]))
    >>> fitting(two, np.random.default_rng(1)).tolist()
    [0, 1]
    """
    pinned = np.asarray(problem.pinned)
    for attempt in range(_TRIES):
        hosts, left = pinned.copy(), problem.capacity.copy()
        np.subtract.at(left, hosts[hosts != ANYWHERE], problem.load[hosts != ANYWHERE])
        blur = 1 + rng.random(problem.detectors) * attempt / _TRIES
        for i in np.argsort(-problem.load * blur, kind="stable").tolist():
            if hosts[i] == ANYWHERE:
                roomy = np.flatnonzero(left >= problem.load[i] - 1e-12)
                if not len(roomy):
                    break
                tight = attempt % 2 == 0
                order = left[roomy] if tight else rng.random(len(roomy))
                hosts[i] = roomy[np.argmin(order)]
                left[hosts[i]] -= problem.load[i]
        else:
            if problem.fits(hosts):
                return hosts
    raise PlacementError(
        f"expected detectors that fit on the nodes, got {problem.load.sum():g} of load for "
        f"capacity={problem.capacity.tolist()}, and found no way to put the "
        f"{problem.detectors} detectors there; add a node, or pin fewer detectors"
    )


def clustered(problem: Problem, rng: np.random.Generator) -> Ints:
    """A placement to begin with: those who talk most are put together, then clusters on nodes.

    >>> pairs = Problem(np.diag([9.0, 1, 9], 1), np.ones((2, 2)), np.ones(4), np.array([2, 2]))
    >>> clustered(pairs, np.random.default_rng(1)).tolist()
    [0, 0, 1, 1]
    """
    pinned, load = np.asarray(problem.pinned), problem.load
    most = problem.capacity.max() * rng.uniform(0.1, 0.5)
    cluster, weight = np.arange(problem.detectors), load.copy()
    pairs = np.triu(problem.traffic + problem.traffic.T, 1)
    rows, others = np.nonzero(pairs)
    talk = pairs[rows, others] * rng.uniform(0.5, 1.0, len(rows))
    for edge in np.argsort(-talk, kind="stable").tolist():
        a, b = int(cluster[rows[edge]]), int(cluster[others[edge]])
        free = pinned[rows[edge]] == ANYWHERE == pinned[others[edge]]
        if a != b and free and weight[a] + weight[b] <= most:
            cluster[cluster == b] = a
            weight[a] += weight[b]
    names, members = np.unique(cluster, return_inverse=True)
    whole = replace(
        problem, load=weight[names], pinned=pinned[names],
        traffic=_summed(problem.traffic, members, len(names)),
    )  # fmt: skip
    try:
        return greedy(whole)[members]
    except PlacementError:
        return fitting(problem, rng)


def _summed(traffic: Floats, members: Ints, count: int) -> Floats:
    """Traffic between clusters."""
    rows, others = np.nonzero(traffic)
    found = np.zeros((count, count))
    np.add.at(found, (members[rows], members[others]), traffic[rows, others])
    np.fill_diagonal(found, 0.0)
    return found


def greedy(problem: Problem) -> Ints:
    """The yardstick: each detector where it costs least, then single best moves until none helps.

    >>> import numpy as np
    >>> chain = Problem(np.diag([9.0, 1, 9], 1), np.ones((2, 2)), np.ones(4), np.array([2, 2]))
    >>> greedy(chain).tolist()
    [0, 0, 1, 1]
    """
    task, hosts = problem.task(), np.asarray(problem.pinned).copy()
    table, used = np.zeros((problem.detectors, problem.nodes)), np.zeros(problem.nodes)
    for i in np.flatnonzero(hosts != ANYWHERE).tolist():
        used[hosts[i]] += problem.load[i]
    placed = hosts != ANYWHERE
    for i in np.lexsort((np.arange(problem.detectors), -problem.load)).tolist():
        if placed[i]:
            continue
        near = np.arange(task.start[i], task.start[i + 1])
        near = near[placed[task.other[near]]]
        nodes, at = np.arange(problem.nodes)[:, None], hosts[task.other[near]]
        cost = (
            task.weight[near] * (nodes != at)
            + task.out[near] * task.distance[nodes, at]
            + task.into[near] * task.distance[at, nodes]
        ).sum(axis=1)
        room = used + problem.load[i] <= task.capacity
        if not room.any():
            hosts = fitting(problem, np.random.default_rng(0))
            break
        hosts[i] = np.argmin(np.where(room, cost, np.inf))
        used[hosts[i]] += problem.load[i]
        placed[i] = True
    price(task, hosts, table, used)
    rows = task.free
    while len(rows):
        gain = table[rows, hosts[rows]][:, None] - table[rows]
        gain[used[None, :] + problem.load[rows][:, None] > task.capacity[None, :]] = -1.0
        best, to = np.unravel_index(int(gain.argmax()), gain.shape)
        if gain[best, to] <= 1e-9:
            break
        put(task, hosts, table, used, int(rows[best]), int(to))
    return hosts


def optimise(
    problem: Problem,
    *,
    start: Sequence[int] | Ints | None = None,
    moving: Floats | None = None,
    seed: int = 0,
    seconds: float | None = 0.5,
    iterations: int | None = None,
    clock: Callable[[], float] = wall.perf_counter,
) -> Ints:
    """Look for the best placement for so many seconds, or so many iterations.

    `start` is where detectors are now; the result is not worse, unless `start` does not fit.
    `moving` (detectors x nodes) is what it costs, besides, to have a detector on a node.

    >>> import numpy as np
    >>> ring = Problem(np.eye(6, k=1), np.ones((2, 2)), np.ones(6), np.array([3, 3]))
    >>> found = optimise(ring, seed=1, seconds=None, iterations=5)
    >>> ring.cut(found), ring.fits(found)
    (1.0, True)
    """
    if (seconds is None) == (iterations is None):
        raise OptionError(
            f"expected either seconds or iterations, got seconds={seconds!r} and "
            f"iterations={iterations!r}"
        )
    ends = None if seconds is None else clock() + seconds
    rng, task = np.random.default_rng(seed), problem.task(moving)
    nests, costs, table, used = _nests(problem, task, start, rng)
    if not len(task.free):
        return np.asarray(problem.pinned)
    for n in count():
        if n == iterations or (ends is not None and clock() >= ends):
            break
        brood(task, nests, costs, table, used, ABANDONED, rng)
    best: Ints = nests[np.argmin(costs)].copy()
    return best


def _nests(
    problem: Problem,
    task: Task,
    start: Sequence[int] | Ints | None,
    rng: np.random.Generator,
) -> tuple[Ints, Floats, Floats, Floats]:
    """Where the search begins: where detectors are, and placements that have nothing in common."""
    nests = np.array([clustered(problem, rng) for _ in range(NESTS)])
    if start is not None and problem.fits(start):
        nests[0] = start
    nests[1] = greedy(problem)
    table, used = np.zeros((problem.detectors, problem.nodes)), np.zeros(problem.nodes)
    costs = np.zeros(NESTS)
    for number, nest in enumerate(nests):
        price(task, nest, table, used)
        descend(task, nest, table, used)
        costs[number] = price(task, nest, table, used)
    return nests, costs, table, used
