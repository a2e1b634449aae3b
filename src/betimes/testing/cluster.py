"""A cluster in virtual time: the nodes of a placed hierarchy, and a network that misbehaves.

The nodes are those that run elsewhere (`betimes.placement`), with the same engine code inside. Only
time and the network are virtual, and both are drawn from a seed:

* handling an event takes a detector as long as `work` says, divided by the `speed` of its node;
* a message takes the `latency` of the link, up to `jitter` more, and the time that its bytes need
  at this `bandwidth`; messages of one link queue up for the bandwidth, and jitter lets them
  overtake each other;
* a share of the messages (`repeated`) arrives twice.

The driver is outside: it puts batches in with `Engine.feed`, and `run` lets time pass in between.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from betimes.engine import EngineOptions, Hierarchy
from betimes.engine.changes import ChangeWriter
from betimes.engine.shared import SharedOrder
from betimes.engine.spreading import elsewhere
from betimes.model.errors import OptionError
from betimes.model.hints import known_options
from betimes.placement.driver import Placed
from betimes.placement.homes import Homes
from betimes.placement.node import Node
from betimes.placement.rounds import DRIVER, Told, bundled, decoded
from betimes.testing.virtual import VirtualTime

_NETWORK = "network"
_WITHOUT_END = 10**9


class _Network:
    """Takes what nodes have said, and delivers it when the links let it."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self._cluster = cluster

    def receive(self, message: tuple[str, str, bytes]) -> None:
        self._cluster.carry(*message)


class _Host:
    """A node as an actor, which accounts for the work of its detectors."""

    def __init__(self, name: str, node: Node, cluster: VirtualCluster) -> None:
        self.name = name
        self.node = node
        self._cluster = cluster
        self._handled: Counter[str] = Counter()

    def receive(self, data: bytes) -> list[tuple[str, Any]]:
        said = [each for message in decoded(data) for each in self.node.receive(message)]
        self._cluster.worked(self.name, self._work())
        return [
            (_NETWORK, (self.name, to, bundle))
            for audience, bundle in bundled(said)
            for to in audience
        ]

    def _work(self) -> Counter[str]:
        """How many events each detector has handled since the last look, replays included."""
        now = Counter({
            name: stage.counts.handled + stage.counts.replayed
            for name, stage in self.node.stages.items()
        })  # fmt: skip
        done = Counter({n: now[n] - self._handled.get(n, now[n]) for n in now})
        self._handled = now
        return done


@known_options
class VirtualCluster:
    """Nodes in virtual time for `Engine(hierarchy, workers=cluster)`; times are microseconds.

    Parameters
    ----------
    nodes
        How many, or their names.
    placement
        The node of some detectors; the others are spread so that little crosses.
    seed
        Decides everything that is random.
    latency, jitter
        Of every link between two nodes; `links` has others, by (from, to).
    bandwidth
        Bytes per second of a link; None is no limit.
    repeated
        The share of messages that arrives twice.
    work
        How long a detector takes for an event: one number, or one for each.
    speed
        How much faster than that a node is; 1 unless said.
    ahead
        How many batches may be in transit before `feed` waits; None is no limit.
    log_bytes
        How much the driver keeps, at least, before it asks for states.

    >>> from betimes import Engine, Event, Hierarchy
    >>> def fast(event):
    ...     if event["v"] > 5:
    ...         return Event("fast", event.ts, event.payload)
    >>> speed = Hierarchy(clock="position")
    >>> speed.add(fast, on="position", emits="fast")
    >>> cluster = VirtualCluster(2, seed=1, latency=500)
    >>> engine = Engine(speed, workers=cluster)
    >>> now = engine.feed([Event("position", 3, {"v": 7})])
    >>> [(change.ts, change.status) for change in [*now, *engine.finish()]]
    [(3, 'provisional'), (3, 'final')]
    >>> cluster.now
    2000
    """

    def __init__(
        self,
        nodes: int | Sequence[str] = 2,
        *,
        placement: Mapping[str, str] | None = None,
        seed: int = 0,
        latency: int = 0,
        jitter: int = 0,
        links: Mapping[tuple[str, str], int] | None = None,
        bandwidth: float | None = None,
        repeated: float = 0.0,
        work: float | Mapping[str, float] = 0.0,
        speed: Mapping[str, float] | None = None,
        ahead: int | None = None,
        log_bytes: int = 10_000,
    ) -> None:
        names = [f"node {n}" for n in range(nodes)] if isinstance(nodes, int) else list(nodes)
        if not names or DRIVER in names or _NETWORK in names:
            raise OptionError(f"expected one node or more, not named {DRIVER!r}, got {nodes!r}")
        if not 0 <= repeated <= 1:
            raise OptionError(f"expected repeated to be a share from 0 to 1, got {repeated!r}")
        self.names = tuple(names)
        self.ahead = _WITHOUT_END if ahead is None else ahead
        self.log_bytes = log_bytes
        self.settles = False
        """Detectors move when the test says so."""
        self.traffic: Counter[tuple[str, str]] = Counter()
        """Bytes that were sent over each link."""
        self.messages: Counter[tuple[str, str]] = Counter()
        self.busy: Counter[str] = Counter()
        """How long each detector took."""
        self.spoken: dict[tuple[str, int], int] = {}
        """When the driver heard each detector in each round."""
        self._placement = placement
        self._random = random.Random(seed)
        self._latency, self._jitter, self._links = latency, jitter, dict(links or {})
        self._bandwidth, self._repeated = bandwidth, repeated
        self._work, self._speed = work, dict(speed or {})
        self._free: dict[tuple[str, str], int] = {}
        """When each link has sent what waits for it."""
        self._heard: list[bytes] = []
        self._lives: Counter[str] = Counter()
        self._seed = seed
        self._world: VirtualTime | None = None
        self.homes: Homes
        self.again: Callable[[str], bytes]
        self._make: Callable[[], Node]

    @property
    def world(self) -> VirtualTime:
        """The time that an engine of this cluster runs in."""
        if self._world is None:
            raise OptionError("expected an Engine with workers=cluster before time can pass")
        return self._world

    @property
    def now(self) -> int:
        return self.world.now

    def reading(self) -> float:
        """What a clock shows on a node, in seconds."""
        return self.world.reading / 1e6

    def begin(self, hierarchy: Hierarchy, make: Callable[[], Node]) -> None:
        """An engine has got this cluster."""
        if self._world is not None:
            raise OptionError("expected a new VirtualCluster for each Engine")
        self.homes = Homes(hierarchy, self.names, self._placement)
        self._make = make
        actors: dict[str, Any] = {name: _Host(name, make(), self) for name in self.names}
        self._world = VirtualTime(actors | {_NETWORK: _Network(self)}, seed=self._seed)

    def run(self, until: int) -> None:
        """Let time pass."""
        self.world.run(until)

    def kill(self, node: str, *, noticed: int = 0) -> None:
        """A node dies with everything that it has and that is on its way to it.

        After `noticed`, the driver knows, and builds it again.
        """
        self._lives[node] += 1
        self.world.replace(node, _Host(node, self._make(), self))
        self.world.at(self.now + noticed, lambda: self._revive(node))

    def _revive(self, node: str) -> None:
        self.carry(DRIVER, node, self.again(node))

    # What a driver asks of a crew

    def send(self, to: str, message: bytes) -> None:
        self.carry(DRIVER, to, message)

    def receive(self, *, wait: bool) -> Sequence[bytes]:
        while wait and not self._heard:
            if not self.world.step():
                raise OptionError("the nodes of a virtual cluster have nothing left to say")
        heard, self._heard = self._heard, []
        return heard

    # The network

    def carry(self, sender: str, to: str, message: bytes) -> None:
        """Put a message on a link, once or twice."""
        link, life = (sender, to), self._lives[to]
        for _ in range(1 + (self._random.random() < self._repeated)):
            self.traffic[link] += len(message)
            self.messages[link] += 1
            leaves = max(self.now, self._free.get(link, 0))
            if self._bandwidth is not None:
                leaves += round(len(message) / self._bandwidth * 1e6)
                self._free[link] = leaves
            takes = self._links.get(link, self._latency) + self._random.randint(0, self._jitter)
            self.world.at(leaves + takes, lambda: self._deliver(sender, to, life, message))

    def _deliver(self, sender: str, to: str, life: int, message: bytes) -> None:
        if to != DRIVER:
            if life == self._lives[to]:
                self.world.send(to, message, sender=sender)
            return
        self._heard.append(message)
        for told in decoded(message):
            if isinstance(told, Told):
                self.spoken.setdefault((told.stage, told.number), self.now)

    def worked(self, node: str, events: Counter[str]) -> None:
        """A node has handled events."""
        spent = 0.0
        for name, count in events.items():
            each = self._work if isinstance(self._work, int | float) else self._work.get(name, 0.0)
            took = each * count / self._speed.get(node, 1.0)
            self.busy[name] += round(took)
            spent += took
        self.world.spend(round(spent))


@elsewhere.register
def _(
    cluster: VirtualCluster,
    hierarchy: Hierarchy,
    options: EngineOptions,
    *,
    changes: ChangeWriter,
    whole: Callable[[], SharedOrder],
    cores: int | None,
) -> Placed:
    cluster.begin(hierarchy, lambda: Node(hierarchy, options, time=cluster.reading, cores=cores))
    return Placed(hierarchy, options, changes, cluster, whole=whole)
