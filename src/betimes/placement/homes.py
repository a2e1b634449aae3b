"""Who lives where, and who is moving: read by the driver before each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from betimes.engine import Hierarchy
from betimes.model.hints import nearest
from betimes.placement.problem import PlacementError, Problem
from betimes.placement.search import optimise

_ROOM = 1.25
"""Before anything is measured, a node may get this much more than its share of detectors."""
_ITERATIONS = 20


def spread(
    hierarchy: Hierarchy,
    nodes: int,
    *,
    load: Mapping[str, float] | None = None,
    traffic: Mapping[str, float] | None = None,
    seed: int = 0,
) -> list[int]:
    """A node for each detector, in the order of the hierarchy.

    `load` and `traffic` were measured by detector: how busy it was, and how much it publishes. What
    was not counts the same for all.

    >>> def nothing(event): ...
    >>> two = Hierarchy(clock="a")
    >>> two.add(nothing, on="a", emits="b", name="low")
    >>> two.add(nothing, on="b", emits="c", name="high")
    >>> sorted(spread(two, 2)), sorted(spread(two, 2, load={"low": 1e-9, "high": 1e-9}))
    ([0, 1], [0, 1])
    """
    every = list(hierarchy)
    wired = np.array([
        [1 + (traffic or {}).get(a.name, 0.0) if set(a.emits) & set(b.on) else 0.0 for b in every]
        for a in every
    ]).reshape(len(every), len(every))  # fmt: skip
    loads = np.array([1e-9 + (load or {}).get(node.name, 0.0) for node in every])
    if load is None:
        loads[:] = 1.0
    # A node must have room for the heaviest detector, however the others are spread.
    room = max(loads.sum() / nodes * _ROOM, loads.max(), -(-len(every) // nodes) * loads.min())
    problem = Problem(wired, np.ones((nodes, nodes)), loads, np.full(nodes, room))
    return [int(n) for n in optimise(problem, seed=seed, seconds=None, iterations=_ITERATIONS)]


class Homes:
    """Where each detector lives from the next round on.

    >>> def nothing(event): ...
    >>> one = Hierarchy(clock="a")
    >>> one.add(nothing, on="a", emits="b", name="low")
    >>> homes = Homes(one, ["here", "there"], {"low": "here"})
    >>> homes.move("low", "there")
    >>> homes.now
    {'low': ('here', 'there')}
    >>> homes.note_reached("low", "there")
    >>> homes.now
    {'low': ('there',)}
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        nodes: Sequence[str],
        placement: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        names = [node.name for node in hierarchy]
        for stage, node in (placement or {}).items():
            self._check(stage, node, names)
        planned = dict(zip(names, spread(hierarchy, len(nodes)), strict=True))
        given = placement or {}
        self.now: dict[str, tuple[str, ...]] = {
            name: (given.get(name, self.nodes[planned[name]]),) for name in names
        }
        """The homes of each detector; the first one speaks."""
        self.moves = 0
        """How many moves have been completed."""

    def _check(self, stage: str, node: str, names: Sequence[str]) -> None:
        if stage not in names:
            raise PlacementError(
                f"expected a placement of detectors of the hierarchy, got {stage!r}"
                f"{nearest(stage, list(names))}"
            )
        if node not in self.nodes:
            raise PlacementError(
                f"expected {stage!r} to live on one of the nodes, got {node!r}"
                f"{nearest(node, self.nodes)}"
            )

    def move(self, stage: str, to: str, *, at_once: bool = False) -> None:
        """A detector moves: side by side, or at once, so that it pauses until its state is there.

        Of a detector that is already moving, only the last move counts.
        """
        self._check(stage, to, list(self.now))
        first = self.now[stage][0]
        self.now[stage] = (to,) if at_once else tuple(dict.fromkeys((first, to)))
        self.moves += at_once and first != to

    def note_reached(self, stage: str, node: str) -> None:
        """A home that does not speak yet has caught up with the one that does."""
        if node in self.now[stage][1:]:
            self.now[stage] = (node,)
            self.moves += 1
