"""Instances far from their splitter: what travels there and back is data, and nobody waits.

Elsewhere an engine hands parcels to its instances and waits for their answers. In a chain of
operators, as Spark has them, nobody can be asked: what the first says reaches the second, what that
says reaches the third, and nothing goes back. So the engine of a stream runs twice, from the same
input:

1. The **first** engine has only the operators whose instances are elsewhere, and what they read. It
   orders and cuts. Its teams are `Outbox`es: they keep what instances should hear. Nobody answers,
   so these operators publish nothing there.
2. A **station** is where instances live. Instance *n* of each operator is at station *n*. It takes
   what was kept for it, and keeps what its instances answer.
3. The **last** engine is the whole one. It takes the same input, and so it orders and cuts as the
   first. Its teams are `Inbox`es: where it would hand out parcels, it finds the answers that were
   already given to the same parcels, and from there on everything is as usual.

Ordering and cutting are done twice, and are cheap beside operators that are worth a chain. What is
decided from measured time or memory must be decided once: the first engine says which attenuation a
batch has, and what it forgets (`Budget`). Snapshots may differ: they change no result. To be sure,
both describe their parcels in a few bytes, and a difference is an error.

An event at which an operator fails is not left out here, since the first engine cannot hear of it.
The window is stuck there. If a late event repairs that, it goes on as if nothing had been;
otherwise the failure stops the last engine, once it is final. That is what `errors="stop"` asks
for, so only operators with that can be chained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from time import perf_counter

from betimes.engine.hierarchy import Hierarchy
from betimes.engine.news.outputs import TIME
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.engine.stages.columns import ColumnTactic
from betimes.engine.stages.rows import RowTactic
from betimes.model.codec import dumps, loads
from betimes.model.errors import BetimesError
from betimes.windows.messages import END, EVENT, FAILED, GONE, Message, Parcel
from betimes.windows.operators import OperatorSpec
from betimes.windows.plan import Windowed
from betimes.windows.shipping import shipped, unshipped
from betimes.windows.tactic import WindowTactic
from betimes.windows.team import Inline, MakeTeam, Recruit, Revive, Stuck

Parcels = list[tuple[int, Parcel]]
Rounds = list[list[Message]]
"""What an instance answers in the rounds of a batch: each time that parcels are handed out."""

_PARCELS = "what instances are told"
_ANSWERS = "what instances answer"


class ChainError(BetimesError, RuntimeError):
    """The two engines of a chain do not agree."""


# Which operators


def chained(hierarchy: Hierarchy, options: EngineOptions) -> dict[str, int]:
    """The operators whose instances can be elsewhere, and how many instances they have.

    These are windowed operators with several instances and `workers="auto"`. What they read must
    not come from another of them, and not from detectors per batch: which events these get at once
    depends on measured time, and two engines would not agree.
    """
    if options.order == "key" or options.errors != "stop":
        return {}
    found: dict[str, int] = {}
    nodes = {node.name: node for node in hierarchy}
    for name in hierarchy.levels():
        plan = nodes[name].maker.source
        if isinstance(plan, Windowed) and plan.spreads and _is_windowed(nodes[name]):
            below = _below(hierarchy, [name]) - {name}
            if all(nodes[n].tactic in (RowTactic, ColumnTactic) for n in below):
                found[name] = plan.instances
    return found


def _is_windowed(node: Node) -> bool:
    return isinstance(node.tactic, partial) and node.tactic.func is WindowTactic


def _operator(node: Node) -> tuple[Windowed, OperatorSpec]:
    assert isinstance(node.tactic, partial)
    plan, spec = node.tactic.args
    return plan, spec


def _below(hierarchy: Hierarchy, names: Iterable[str]) -> set[str]:
    """These detectors, and all that they build on."""
    nodes, found, left = {node.name: node for node in hierarchy}, set[str](), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [n for n, other in nodes.items() if set(nodes[name].on) & set(other.emits)]
    return found


def first_part(hierarchy: Hierarchy, names: Iterable[str]) -> Hierarchy:
    """What the first engine has: these operators, and all that they build on."""
    return hierarchy.part(_below(hierarchy, names))


def with_teams(hierarchy: Hierarchy, teams: Mapping[str, MakeTeam]) -> Hierarchy:
    """The same hierarchy, with other teams for some of its windowed operators."""

    def changed(node: Node) -> Node:
        if node.name not in teams:
            return node
        plan, spec = _operator(node)
        return replace(node, tactic=partial(WindowTactic, plan, spec, team=teams[node.name]))

    return hierarchy.mapped(changed)


# The two engines


def outline(parcels: Parcels) -> bytes:
    """A few bytes that tell parcels from others."""
    said = [
        (
            number,
            parcel.urgent,
            [m[3 if m[0] in (EVENT, GONE) else 2] for m in parcel.messages if m[0] != END],
        )
        for number, parcel in parcels
    ]
    return blake2b(repr(said).encode(), digest_size=8).digest()


class Outbox:
    """The team of the first engine: keeps what instances should hear."""

    stays: bool = True
    stuck: dict[int, list[Stuck]] | None = None

    def __init__(self) -> None:
        self.counts: list[Counter[str]] = []
        self.outlines: list[bytes] = []
        self._boxes: list[list[tuple[int, bool, list[Message]]]] = []

    def make(
        self, _recruit: Recruit, instances: int, _revive: Revive, _time: Callable[[], float]
    ) -> Outbox:
        self.counts = [Counter() for _ in range(instances)]
        self._boxes = [[] for _ in range(instances)]
        return self

    def deliver(self, parcels: Parcels) -> Iterable[Message]:
        self._put(len(self.outlines), parcels)
        self.outlines.append(outline(parcels))
        return ()

    def drop(self, parcels: Parcels) -> None:
        self._put(-1, parcels)

    def _put(self, number: int, parcels: Parcels) -> None:
        for instance, parcel in parcels:
            self._boxes[instance].append((number, parcel.urgent, parcel.messages))

    def take(self) -> tuple[list[bytes], list[list[tuple[int, bool, list[Message]]]]]:
        """What was kept in a batch: the outlines of its rounds, and parcels for each instance."""
        found = self.outlines, self._boxes
        self.outlines, self._boxes = [], [[] for _ in self._boxes]
        return found


class Inbox:
    """The team of the last engine: it has the answers before it hands out parcels."""

    stays: bool = True

    def __init__(self, name: str) -> None:
        self._name = name
        self.counts: list[Counter[str]] = []
        self.stuck: dict[int, list[Stuck]] | None = {}
        self._rounds: Iterator[tuple[bytes, list[Message]]] = iter(())
        self._here: Inline | None = None
        """The instances, once they are here."""

    def make(
        self, recruit: Recruit, instances: int, revive: Revive, time: Callable[[], float]
    ) -> Inbox:
        self.counts = [Counter() for _ in range(instances)]
        self._local = partial(Inline, recruit, instances, revive, time)
        self._revive = revive
        return self

    def put(self, outlines: list[bytes], answers: dict[int, Answer]) -> None:
        """What the instances have answered to the parcels of a batch, by their numbers."""
        rounds: list[tuple[bytes, list[Message]]] = [(each, []) for each in outlines]
        for number, (told, stuck, counts) in sorted(answers.items()):
            self.counts[number].update(counts)
            assert self.stuck is not None
            self.stuck[number] = stuck
            for each, messages in told:
                rounds[each][1].extend(messages)
        self._rounds = iter(rounds)

    def deliver(self, parcels: Parcels) -> Iterable[Message]:
        if self._here is not None:
            return self._here.deliver(parcels)
        expected, told = next(self._rounds, (b"", []))
        if outline(parcels) != expected:
            raise ChainError(
                f"the windows of {self._name!r} were cut in two ways from the same events: do its "
                "conditions, or detectors that it reads from, depend on anything but events?"
            )
        return told

    def drop(self, parcels: Parcels) -> None:
        if self._here is not None:
            self._here.drop(parcels)

    def bring_here(self) -> None:
        """From now on the instances are here, as far as windows can still change."""
        if self._here is None:
            here = self._local()
            assert self.stuck is not None
            assert here.stuck is not None
            for number, instance in enumerate(here.instances):
                instance.receive(Parcel(True, self._revive(number)))
                here.stuck[number] = instance.stuck_at_ends()
            at_events = [s for each in self.stuck.values() for s in each if s[1][1] != TIME]
            here.stuck[-1] = at_events  # they are told: nothing repairs them any more
            self._here, self.counts, self.stuck = here, here.counts, here.stuck


Answer = tuple[list[tuple[int, list[Message]]], list[Stuck], dict[str, int]]
"""Of an instance: what it says in which round, where it is stuck, and what it has done."""


class Station:
    """The instances with one number, of all operators of a chain."""

    def __init__(self, hierarchy: Hierarchy, options: EngineOptions, number: int) -> None:
        self._instances = {}
        for node in hierarchy:
            if _is_windowed(node) and number < node.maker.source.instances:
                plan, spec = _operator(node)
                snapshots = plan.snapshots or node.own.over(options).snapshots
                self._instances[node.name] = Recruit(spec, snapshots).instance(perf_counter)

    def take(self, data: bytes) -> bytes:
        """Hand instances what they are told; return what they answer."""
        found: dict[str, Answer] = {}
        for name, parcels in loads(data, _PARCELS).items():
            instance = self._instances[name]
            told = []
            for each, urgent, messages in parcels:
                said = instance.receive(Parcel(urgent, list(unshipped(messages))))
                told.append((each, [message for message in said if message[0] != FAILED]))
            counts = dict(instance.counts)
            instance.counts.clear()
            found[name] = [each for each in told if each[1]], instance.stuck(), counts
        return dumps(found, _ANSWERS)

    def state_of(self) -> bytes:
        """Everything needed to resume elsewhere: windows are handled again there."""
        each = self._instances.items()
        known = {name: shipped(instance.everything()) for name, instance in each}
        return dumps(known, _PARCELS)

    def resume(self, kept: bytes) -> None:
        """Resume from what `state_of` kept."""
        for name, messages in loads(kept, _PARCELS).items():
            self._instances[name].receive(Parcel(True, list(unshipped(messages))))
            self._instances[name].counts.clear()


def parcels_for(boxes: dict[str, list[tuple[int, bool, list[Message]]]]) -> bytes:
    """What is sent to a station: parcels by operator."""
    ready = {
        name: [(number, urgent, shipped(messages)) for number, urgent, messages in mine]
        for name, mine in boxes.items()
    }
    return dumps(ready, _PARCELS)


def answers_of(data: bytes) -> dict[str, Answer]:
    """What a station has answered, by operator."""
    found: dict[str, Answer] = loads(data, _ANSWERS)
    return found
