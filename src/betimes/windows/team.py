"""The instances of a windowed operator, wherever they are: in this process, or one process each.

A team takes parcels and returns what the instances answer. It waits for all of them, so that a
batch has one result; how long each takes, and in which order they answer, makes no difference.

Worker processes get parcels as bytes, long runs of events as columns. When one dies, its
replacement gets everything that the splitter has for it, then the parcel that was not answered.
Parcels may therefore come twice, which changes nothing: the newest revision counts, and an event
that is there stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from betimes.engine.news.outputs import Place
from betimes.engine.snapshots.spacing import parse_snapshots
from betimes.engine.stages.runner import check
from betimes.model.codec import dumps, loads
from betimes.model.event import Event
from betimes.parallel import Pool, packed
from betimes.windows.instances import Instance
from betimes.windows.messages import Message, Parcel
from betimes.windows.operators import OperatorSpec
from betimes.windows.shipping import shipped, unshipped

_WHAT = "a message between splitter and instances"

Revive = Callable[[int], list[Message]]
"""From the number of an instance to everything that the splitter has for it."""
Stuck = tuple[Any, Place, str]
"""A key, where its operator fails, and how."""


class Team(Protocol):
    """The instances."""

    counts: list[Counter[str]]
    """What each of them has done so far."""
    stays: bool
    """Whether the instances outlive the engine: after a restart, they know what they knew."""
    stuck: dict[int, list[Stuck]] | None
    """Where the operator of each instance fails and waits for a late event to repair that: where
    time ends a window, and if events cannot be left out, there too. None if nobody knows."""

    def deliver(self, parcels: list[tuple[int, Parcel]]) -> Iterable[Message]:
        """Everything that the instances say to these parcels."""

    def drop(self, parcels: list[tuple[int, Parcel]]) -> None:
        """Hand over parcels about what is to be forgotten, to which nobody answers."""


MakeTeam = Callable[["Recruit", int, Revive, Callable[[], float]], Team]
"""From what makes an instance, their number, what the splitter has for one, and a clock."""


@dataclass
class Recruit:
    """What it takes to make an instance, here or in another process; there, it is the worker."""

    spec: OperatorSpec
    snapshots: Any
    _instance: Instance | None = field(default=None, repr=False)

    def instance(self, time: Callable[[], float]) -> Instance:
        spec, spacing = self.spec, parse_snapshots(self.snapshots)

        def fits(made: Iterable[Event]) -> None:
            check(made, spec.name, spec.emits)

        return Instance(spec.operator(), spacing, time=time, check=fits)

    def __call__(self, data: bytes) -> bytes:
        """Handle a parcel; the first one makes the instance."""
        if self._instance is None:
            self._instance = self.instance(perf_counter)
        urgent, messages, revives = loads(data, _WHAT)
        told = self._instance.receive(Parcel(urgent, list(unshipped(messages))))
        if revives:
            self._instance.tell_again()
        counts = dict(self._instance.counts)
        self._instance.counts.clear()
        return dumps((told, self._instance.stuck_at_ends(), counts), _WHAT)


class Inline:
    """Instances in this process, one after the other."""

    stays: bool = False

    def __init__(
        self, recruit: Recruit, instances: int, revive: Revive, time: Callable[[], float]
    ) -> None:
        del revive
        self.stuck: dict[int, list[Stuck]] | None = {}
        self.instances = [recruit.instance(time) for _ in range(instances)]
        self.counts = [instance.counts for instance in self.instances]

    def deliver(self, parcels: list[tuple[int, Parcel]]) -> Iterator[Message]:
        assert self.stuck is not None
        for number, parcel in parcels:
            yield from self.instances[number].receive(parcel)
            self.stuck[number] = self.instances[number].stuck_at_ends()

    def drop(self, parcels: list[tuple[int, Parcel]]) -> None:
        _no_answer(self.deliver(parcels))


class Processes:
    """Each instance in its own process; they start with the first parcel."""

    stays: bool = False

    def __init__(
        self, recruit: Recruit, instances: int, revive: Revive, time: Callable[[], float]
    ) -> None:
        del time
        self.stuck: dict[int, list[Stuck]] | None = {}
        self._recruit = recruit
        self._instances = instances
        self._revive = revive
        self.pool: Pool | None = None
        self.bytes_sent = 0
        self.counts: list[Counter[str]] = [Counter() for _ in range(instances)]

    def deliver(self, parcels: list[tuple[int, Parcel]]) -> Iterator[Message]:
        if not parcels:
            return
        if self.pool is None:
            self.pool = Pool(
                self._recruit, workers=self._instances, name=self._recruit.spec.name,
                revive=self._revived,
            )  # fmt: skip
        assert self.stuck is not None
        pool, open_ = self.pool, set()
        for number, parcel in parcels:
            data = dumps((parcel.urgent, shipped(parcel.messages), False), _WHAT)
            self.bytes_sent += len(data)
            open_.add(pool.send(data, to=number))
        while open_:
            for reply in pool.receive():
                open_.discard(reply.ticket)
                told, self.stuck[reply.worker], counts = loads(reply.data, _WHAT)
                self.counts[reply.worker].update(counts)
                yield from told

    def drop(self, parcels: list[tuple[int, Parcel]]) -> None:
        _no_answer(self.deliver(parcels))

    def _revived(self, number: int) -> list[bytes]:
        return [dumps((True, shipped(self._revive(number)), True), _WHAT)]


def _no_answer(told: Iterable[Message]) -> None:
    for message in told:
        raise AssertionError(f"nothing is made of what is forgotten, but there is {message!r}")


def check_travels(recruit: Recruit) -> None:
    """Refuse an operator that cannot be sent to other processes, and name the part."""
    packed(recruit.spec.given, recruit.spec.name)
    packed(recruit, recruit.spec.name)
