"""Detectors in worker processes on this machine: `Engine(hierarchy, workers=2)`.

Each worker is a node. Messages go through the driver's process, which has to hear what stages say
anyway, and hands on to the others what is for them. A worker that dies is replaced, and hears what
its predecessor has heard (`log.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import msgspec

from betimes.engine import EngineOptions, Hierarchy
from betimes.engine.changes import ChangeWriter
from betimes.engine.shared import SharedOrder
from betimes.engine.spreading import elsewhere
from betimes.model.errors import OptionError
from betimes.parallel import Pool, WorkerError
from betimes.placement.driver import Placed
from betimes.placement.homes import Homes
from betimes.placement.log import LEAST
from betimes.placement.node import Node
from betimes.placement.rounds import DRIVER, bundled, decoded

AHEAD = 4
"""How many batches may be in transit: enough that every worker has one to work on and one to come,
and few enough that changes come soon."""


class Station:
    """What runs in a worker: a node that takes messages as bytes and returns what it says."""

    def __init__(self, hierarchy: Hierarchy, options: EngineOptions, cores: int | None) -> None:
        self._parts = hierarchy, options, cores
        self._node: Node | None = None

    def __call__(self, data: bytes) -> bytes:
        if self._node is None:
            hierarchy, options, cores = self._parts
            self._node = Node(hierarchy, options, time=perf_counter, cores=cores)
        said = [each for message in decoded(data) for each in self._node.receive(message)]
        return msgspec.msgpack.encode(bundled(said))


class Workers:
    """A crew of worker processes."""

    ahead = AHEAD
    log_bytes = LEAST
    settles = True

    def __init__(self, station: Station, homes: Homes) -> None:
        self.homes = homes
        self.again: Callable[[str], bytes]
        self._numbers = {name: number for number, name in enumerate(homes.nodes)}
        self._heard: list[bytes] = []
        self._dead: list[int] = []
        self.pool = Pool(
            station, workers=len(homes.nodes), name="the hierarchy", revive=self._note_death
        )

    def send(self, to: str, message: bytes) -> None:
        self.pool.send(message, to=self._numbers[to])

    def receive(self, *, wait: bool) -> Sequence[bytes]:
        while True:
            replies = self.pool.receive(wait and not self._heard)
            for reply in replies:
                for audience, message in msgspec.msgpack.decode(reply.data):
                    for to in audience:
                        if to == DRIVER:
                            self._heard.append(message)
                        else:
                            self.send(to, message)
            while self._dead:
                node = self.homes.nodes[self._dead.pop()]
                self.send(node, self.again(node))
            if self._heard or not wait:
                heard, self._heard = self._heard, []
                return heard
            if not replies and not any(self.pool.loads):
                raise WorkerError("the worker processes of the hierarchy have nothing left to say")

    def _note_death(self, worker: int) -> Sequence[bytes]:
        """Its successor hears everything as soon as this turn of the pool is over."""
        self._dead.append(worker)
        return ()


@elsewhere.register
def _(
    workers: int,
    hierarchy: Hierarchy,
    options: EngineOptions,
    *,
    changes: ChangeWriter,
    whole: Callable[[], SharedOrder],
    cores: int | None,
) -> Any:
    if isinstance(workers, bool) or workers < 1:
        raise OptionError(f"expected workers to be a number of processes, got workers={workers!r}")
    if workers > len(hierarchy):
        raise OptionError(
            f"expected at most one worker per detector, got workers={workers} for "
            f"{len(hierarchy)} detectors"
        )
    homes = Homes(hierarchy, [f"worker {number}" for number in range(workers)])
    share = max((cores or os.cpu_count() or 1) // workers, 1)
    crew = Workers(Station(hierarchy, options, share), homes)
    return Placed(hierarchy, options, changes, crew, whole=whole)
