"""Who lives where, and who is moving: read by the driver before each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from betimes.engine import Hierarchy
from betimes.model.hints import nearest
from betimes.placement.problem import PlacementError, Problem
from betimes.placement.search import optimise

_ROOM = 1.1
"""A node may get this much more than its share of the load."""
_MORE = 1.5
"""The same, if it has to be more because detectors are heavy."""
_INPUT = 10.0
"""Reading the input counts as much as so many publishers: it is what most bytes are."""
_ITERATIONS = 20


def spread(
    hierarchy: Hierarchy,
    nodes: int,
    *,
    load: Mapping[str, float] | None = None,
    seed: int = 0,
) -> list[int]:
    """A node for each detector, in the order of the hierarchy, so that little crosses.

    `load` was measured by detector; without it, all count the same. Those who read the input are
    better off together: then only one node has to get it.

    >>> def nothing(event): ...
    >>> two = Hierarchy(clock="a")
    >>> two.add(nothing, on="a", emits="b", name="low")
    >>> two.add(nothing, on="b", emits="c", name="high")
    >>> sorted(spread(two, 2)), sorted(spread(two, 2, load={"low": 3.0, "high": 2.0}))
    ([0, 1], [0, 1])
    """
    every = list(hierarchy)
    published = {type for node in every for type in node.emits}
    loads = np.array([1.0 if load is None else load.get(node.name, 0.0) for node in every] + [0.0])
    wired = np.zeros((len(loads), len(loads)))
    for b, reader in enumerate(every):
        for a, publisher in enumerate(every):
            wired[a, b] = bool(set(publisher.emits) & set(reader.on))
        wired[-1, b] = _INPUT * (not set(reader.on) <= published)
    share, far = loads.sum() / nodes, np.ones((nodes, nodes))
    # As even as possible; with the last one there is always a way.
    for room in (share * _ROOM, max(share * _MORE, loads.max()), share + loads.max()):
        problem = Problem(wired, far, loads, np.full(nodes, room))
        with suppress(PlacementError):
            found = optimise(problem, seed=seed, seconds=None, iterations=_ITERATIONS)
            return [int(node) for node in found[:-1]]
    raise AssertionError("a node without room for a detector has more than its share")


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

    def settle(self, hierarchy: Hierarchy, load: Mapping[str, float]) -> None:
        """Move to where detectors are better off, now that it is known what each of them does."""
        planned = spread(hierarchy, len(self.nodes), load=load)
        share = np.zeros((len(self.nodes), len(self.nodes)))
        for node, to in zip(hierarchy, planned, strict=True):
            share[self.nodes.index(self.now[node.name][0]), to] += load.get(node.name, 0.0)
        # All nodes are alike: they take the parts of the plan of which they have most already.
        taken: dict[int, int] = {}
        for at in np.argsort(-share, axis=None, kind="stable").tolist():
            here, part = divmod(at, len(self.nodes))
            if part not in taken and here not in taken.values():
                taken[part] = here
        for node, to in zip(hierarchy, planned, strict=True):
            if self.now[node.name] != (target := self.nodes[taken[to]],):
                self.move(node.name, target)

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
