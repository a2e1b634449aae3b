"""Whether to move: only if what it gains until the horizon outweighs what moving costs.

What nodes measure changes all the time, and a planner that follows each change would move detectors
back and forth. Three rules prevent that:

1. Moving is a part of the price. A detector that is not where it is now costs its move, spread over
   the `horizon`, and besides a `margin`, a share of its own traffic: a better place must be better
   by more than measurements vary. The search minimises the sum, so each detector that it moves is
   worth its move, and the others stay.
2. What was measured is averaged over the last few cycles (`memory`), so a burst is not a trend.
3. A detector that has moved *rests* until the horizon of that move: its gain was counted on. Only
   an overloaded node overrules this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from betimes.model.errors import OptionError
from betimes.model.hints import known_options
from betimes.placement.problem import ANYWHERE, Floats, Ints, Problem
from betimes.placement.search import optimise


class Move(NamedTuple):
    """A detector that should move."""

    detector: int
    origin: int
    target: int


class Plan(NamedTuple):
    """What a cycle has found out."""

    hosts: Ints
    """Where detectors should be."""
    moves: tuple[Move, ...]
    gain: float
    """How much less it costs per second, once everything has moved."""
    reason: str


@dataclass(frozen=True)
class Caution:
    """When a move is worth it: times in seconds, see the module."""

    horizon: float = 30.0
    margin: float = 0.1
    memory: float = 2.0
    """After so many cycles, a measurement counts half."""
    search: float = 0.5

    def __post_init__(self) -> None:
        for name in ("horizon", "search"):
            if not getattr(self, name) > 0:
                raise OptionError(f"expected {name} to be above 0, got {getattr(self, name)!r}")
        for name in ("margin", "memory"):
            if not getattr(self, name) >= 0:
                raise OptionError(f"expected {name} to be 0 or more, got {getattr(self, name)!r}")


@known_options
class Planner:
    """Plans moves, cycle by cycle, from what was measured in each.

    `moving` says what it costs to move each detector, in the unit of the problem: as many events
    as its state is worth. With `iterations` instead of a time, plans can be repeated exactly.

    >>> import numpy as np
    >>> apart = Problem(
    ...     np.array([[0, 50.0], [0, 0]]), np.ones((2, 2)), np.ones(2), np.array([2, 2])
    ... )
    >>> planner = Planner(moving=10.0, seed=1, iterations=3)
    >>> plan = planner.plan(apart, [0, 1], now=0.0)
    >>> len(plan.moves), plan.gain
    (1, 101.0)
    >>> planner.plan(apart, plan.hosts, now=1.0).reason
    'nothing gains enough'
    """

    def __init__(
        self,
        *,
        moving: float | Sequence[float] | Floats = 1.0,
        caution: Caution = Caution(),  # noqa: B008 - it is frozen
        seed: int = 0,
        iterations: int | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._moving = moving
        self._caution = caution
        self._seed = seed
        self._iterations = iterations
        self._clock = clock
        self._known: Problem | None = None
        self._rests: dict[int, float] = {}
        """Until when detectors that have moved stay where they are."""

    def plan(self, measured: Problem, hosts: Sequence[int] | Ints, *, now: float) -> Plan:
        """What should move, now that this was measured and detectors are there."""
        here = np.array(hosts, np.int64)
        known = self._averaged(measured)
        overloaded = not known.fits(here)
        resting = [] if overloaded else [d for d, until in self._rests.items() if until > now]
        pinned = np.asarray(known.pinned).copy()
        pinned[resting] = here[resting]
        task = replace(known, pinned=pinned)
        moving = self._price_of_moving(known, here)
        self._seed += 1
        found = optimise(
            task, start=here, moving=moving, seed=self._seed, iterations=self._iterations,
            seconds=self._caution.search if self._iterations is None else None, clock=self._clock,
        )  # fmt: skip
        gain = known.cost(here) - known.cost(found)
        paid = float(moving[np.arange(len(found)), found].sum())
        if not overloaded and gain <= paid:
            return Plan(here, (), 0.0, "nothing gains enough")
        moves = tuple(
            Move(detector, int(here[detector]), int(found[detector]))
            for detector in np.flatnonzero(found != here).tolist()
        )
        self._rests |= {move.detector: now + self._caution.horizon for move in moves}
        return Plan(found, moves, gain, "a node was overloaded" if overloaded else "less to send")

    def _averaged(self, measured: Problem) -> Problem:
        """The average of what was measured, the newest counting most."""
        known, memory = self._known, self._caution.memory
        if known is not None and memory and known.detectors == measured.detectors:
            old = 0.5 ** (1 / memory)
            mixed = {
                name: old * getattr(known, name) + (1 - old) * getattr(measured, name)
                for name in ("traffic", "latency", "load")
            }
            measured = replace(measured, **mixed)
        self._known = measured
        return measured

    def _price_of_moving(self, known: Problem, here: Ints) -> Floats:
        """Per second until the horizon, for each detector on each node."""
        own = known.traffic_weight * (known.traffic.sum(axis=0) + known.traffic.sum(axis=1))
        price = np.asarray(self._moving) / self._caution.horizon + self._caution.margin * own
        table = np.repeat(np.broadcast_to(price, own.shape)[:, None], known.nodes, axis=1)
        table[np.arange(len(here)), here] = 0.0
        table[np.asarray(known.pinned) != ANYWHERE] = 0.0
        return table
