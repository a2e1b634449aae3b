"""The problem: which detectors on which nodes, and what that costs (paper *placement*, 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.model.errors import BetimesError, OptionError
from betimes.placement.kernel import Task

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ANYWHERE = -1
"""The node of a detector that may move."""
_ROUNDING = 1e-9


class PlacementError(BetimesError, ValueError):
    """There is no such placement: an unknown node, an overloaded one, or none that fits."""


@dataclass(frozen=True)
class Problem:
    """What is known of detectors and nodes.

    Parameters
    ----------
    traffic
        Detectors x detectors: how many events the one sends the other, per second.
    latency
        Nodes x nodes: how long an event is in transit.
    load
        What each detector takes of a node, per second.
    capacity
        What each node has to give, per second.
    pinned
        The nodes of detectors that must not move, such as sources of events; -1 for the others.
    traffic_weight, latency_weight
        How much an event per second, and a unit of latency, count (`c_t` and `c_l` in the paper).

    >>> import numpy as np
    >>> pair = Problem(
    ...     traffic=np.array([[0, 50], [0, 0]]),
    ...     latency=np.array([[0, 3], [3, 0]]),
    ...     load=np.array([1, 1]),
    ...     capacity=np.array([2, 2]),
    ... )
    >>> pair.fitness([0, 0]), pair.fitness([0, 1]), pair.cost([0, 1])
    (50.0, -53.0, 103.0)
    """

    traffic: npt.NDArray[Any]
    latency: npt.NDArray[Any]
    load: npt.NDArray[Any]
    capacity: npt.NDArray[Any]
    pinned: npt.NDArray[Any] | None = None
    traffic_weight: float = 1.0
    latency_weight: float = 1.0

    def __post_init__(self) -> None:
        for name, shape in self._shapes().items():
            value = np.array(getattr(self, name), np.float64)
            if value.shape != shape:
                raise OptionError(
                    f"expected {name} to have the shape {shape}, got {value.shape}; load has one "
                    "number per detector, and capacity one per node"
                )
            if not (np.isfinite(value) & (value >= 0)).all():
                raise OptionError(f"expected {name} to be finite and not negative, got {value}")
            object.__setattr__(self, name, value)
        where = [ANYWHERE] * self.detectors if self.pinned is None else self.pinned
        pinned = np.array(where, np.int64)
        if len(pinned) != self.detectors or not ((pinned >= -1) & (pinned < self.nodes)).all():
            raise PlacementError(
                f"expected pinned to have a node below {self.nodes}, or -1, for each of "
                f"{self.detectors} detectors, got {pinned.tolist()}"
            )
        object.__setattr__(self, "pinned", pinned)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n, m = self.detectors, self.nodes
        return {"traffic": (n, n), "latency": (m, m), "load": (n,), "capacity": (m,)}

    @property
    def detectors(self) -> int:
        return len(self.load)

    @property
    def nodes(self) -> int:
        return len(self.capacity)

    def fitness(self, hosts: Sequence[int] | Ints) -> float:
        """The paper's fitness: traffic that stays on a node, less what being apart costs."""
        cut, where = self._apart(hosts), np.array(hosts, np.int64)
        sent = self.traffic_weight * self.traffic
        far = self.latency_weight * self.latency[where[:, None], where] * (self.traffic > 0)
        return float(sent[~cut].sum() - (sent + far)[cut].sum())

    def cost(self, hosts: Sequence[int] | Ints) -> float:
        """How far the fitness is from that of a single node: the least cost is the best fitness."""
        return float(self.traffic_weight * self.traffic.sum()) - self.fitness(hosts)

    def cut(self, hosts: Sequence[int] | Ints) -> float:
        """How many events cross between nodes, per second."""
        return float(self.traffic[self._apart(hosts)].sum())

    def _apart(self, hosts: Sequence[int] | Ints) -> npt.NDArray[np.bool_]:
        where = np.array(hosts, np.int64)
        return np.not_equal.outer(where, where).astype(np.bool_)

    def used(self, hosts: Sequence[int] | Ints) -> Floats:
        """What each node has to do."""
        used = np.zeros(self.nodes)
        np.add.at(used, np.array(hosts, np.int64), self.load)
        return used

    def fits(self, hosts: Sequence[int] | Ints) -> bool:
        """Whether no node is overloaded, and pinned detectors are where they belong."""
        where, pinned = np.array(hosts, np.int64), np.asarray(self.pinned)
        stays = (pinned == ANYWHERE) | (pinned == where)
        return bool(stays.all() and (self.used(hosts) <= self.capacity + _ROUNDING).all())

    def check(self, hosts: Sequence[int] | Ints) -> None:
        """Refuse a placement that names unknown nodes or does not fit."""
        where = np.array(hosts, np.int64)
        if where.shape != (self.detectors,) or not ((where >= 0) & (where < self.nodes)).all():
            raise PlacementError(
                f"expected a node from 0 to {self.nodes - 1} for each of {self.detectors} "
                f"detectors, got {where.tolist()}"
            )
        if not self.fits(where):
            raise PlacementError(
                f"the nodes would have to do {self.used(where).tolist()}, but they can do "
                f"{self.capacity.tolist()}, and detectors are pinned to "
                f"{np.asarray(self.pinned).tolist()}"
            )

    def task(self, moving: Floats | None = None) -> Task:
        """The same as arrays for compiled loops; `moving` are further costs of detector x node."""
        pairs = self.traffic + self.traffic.T
        np.fill_diagonal(pairs, 0)
        rows, other = np.nonzero(pairs)
        distance = self.latency_weight * self.latency
        np.fill_diagonal(distance, 0)
        movable = np.asarray(self.pinned) == ANYWHERE
        if moving is None:
            moving = np.zeros((self.detectors, self.nodes))
        return Task(
            np.searchsorted(rows, np.arange(self.detectors + 1)), other,
            2 * self.traffic_weight * pairs[rows, other],
            (self.traffic[rows, other] > 0).astype(np.float64),
            (self.traffic[other, rows] > 0).astype(np.float64),
            distance, moving, self.load, self.capacity + _ROUNDING, movable,
            np.flatnonzero(movable),
        )  # fmt: skip
