"""Compiled parts of the optimiser: moving detectors, and what each move costs.

A placement is an array of nodes, one per detector. Beside it are a *table*, what each detector
would cost on each node while all others stay, and what each node has to do. A move updates both by
looking at the neighbours of the detector only, so a move costs as little as the detector is wired.

Invariant: a node that is not overloaded never becomes overloaded. A move that would do that is not
made, or another detector makes room in exchange.
"""

from betimes.placement.kernel.descending import Task, descend, price, put
from betimes.placement.kernel.flying import brood

__all__ = ["Task", "brood", "descend", "price", "put"]
