"""Moves that make a placement cheaper, one by one, until none is left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LEAST = 1e-9
"""A gain below this is noise of the arithmetic."""


class Task(NamedTuple):
    """A problem as arrays: the neighbours of detector `i` are rows `start[i]` to `start[i + 1]`."""

    start: Ints
    other: Ints
    """The neighbour."""
    weight: Floats
    """What it costs to be apart, wherever the nodes are."""
    out: Floats
    """1 if the neighbour reads from the detector: then the latency to it counts."""
    into: Floats
    """1 if the detector reads from the neighbour."""
    distance: Floats
    """Nodes x nodes: weighted latencies, 0 from a node to itself."""
    moving: Floats
    """Detectors x nodes: what it costs to be there instead of where the detector is now."""
    load: Floats
    capacity: Floats
    movable: npt.NDArray[np.bool_]
    free: Ints
    """The detectors that may move."""


@compiled
def apart(task: Task, edge: int, here: int, there: int) -> float:
    """What an edge costs if its detector is here and the neighbour there."""
    if here == there:
        return 0.0
    return float(
        task.weight[edge]
        + task.out[edge] * task.distance[here, there]
        + task.into[edge] * task.distance[there, here]
    )


@compiled
def price(task: Task, hosts: Ints, table: Floats, used: Floats) -> float:
    """Fill in the table and the loads of a placement; return what it costs."""
    table[:] = task.moving
    used[:] = 0.0
    total = 0.0
    for i in range(len(hosts)):
        used[hosts[i]] += task.load[i]
        for edge in range(task.start[i], task.start[i + 1]):
            at = hosts[task.other[edge]]
            for k in range(table.shape[1]):
                table[i, k] += apart(task, edge, k, at)
        total += (table[i, hosts[i]] + task.moving[i, hosts[i]]) / 2
    return total


@compiled
def put(task: Task, hosts: Ints, table: Floats, used: Floats, i: int, to: int) -> None:
    """Move a detector."""
    was = hosts[i]
    hosts[i] = to
    used[was] -= task.load[i]
    used[to] += task.load[i]
    for edge in range(task.start[i], task.start[i + 1]):
        j, weight = task.other[edge], task.weight[edge]
        for k in range(table.shape[1]):
            if k != was:
                far = task.into[edge] * task.distance[k, was]
                table[j, k] -= weight + far + task.out[edge] * task.distance[was, k]
            if k != to:
                far = task.into[edge] * task.distance[k, to]
                table[j, k] += weight + far + task.out[edge] * task.distance[to, k]


@compiled
def partner(task: Task, hosts: Ints, table: Floats, used: Floats, i: int, to: int) -> int:
    """The detector on a full node with which to change places, or -1 if that gains nothing."""
    here, best, least = hosts[i], -1, -LEAST
    room_here = task.capacity[here] - used[here] + task.load[i]
    room_there = task.capacity[to] - used[to] - task.load[i]
    for j in task.free:
        if hosts[j] != to or task.load[j] > room_here or task.load[j] + room_there < 0.0:
            continue
        change = table[i, to] - table[i, here] + table[j, here] - table[j, to]
        if change >= least:
            continue
        for edge in range(task.start[i], task.start[i + 1]):
            if task.other[edge] == j:  # they stay apart, which the table does not know
                change += apart(task, edge, here, to) + apart(task, edge, to, here)
        if change < least:
            best, least = j, change
    return best


@compiled
def descend(task: Task, hosts: Ints, table: Floats, used: Floats) -> None:
    """Move detectors, or let two of them change places, as long as that makes it cheaper."""
    improved = True
    while improved:
        improved = False
        for i in task.free:
            here = hosts[i]
            best, full = here, -1
            least = least_full = table[i, here] - LEAST
            for k in range(len(used)):
                if table[i, k] < least and used[k] + task.load[i] <= task.capacity[k]:
                    best, least = k, table[i, k]
                elif table[i, k] < least_full and k != here:
                    full, least_full = k, table[i, k]
            if full >= 0 and least_full < least:
                j = partner(task, hosts, table, used, i, full)
                if j >= 0:
                    put(task, hosts, table, used, i, full)
                    put(task, hosts, table, used, j, here)
                    improved = True
                    continue
            if best != here:
                put(task, hosts, table, used, i, best)
                improved = True
