"""The driver: what is behind an engine whose stages live elsewhere.

It numbers rounds, hands each to all nodes, and writes the changes of a round once all its stages
have spoken, round by round. So the changes are those of one engine, to the last letter; they may
only be returned by a later call: up to `ahead` rounds are in transit, and nodes work on them at the
same time. What looks at the whole (a checkpoint, readings, time that passes, the end of the stream)
waits until nothing is in transit.

A checkpoint is that of one engine: the states of all stages are brought together in one order. So a
stream may be continued with any number of workers, or none.

The parts of an engine that one place must see (a clock per source, one order per key, observers)
are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from betimes.engine import EngineOptions, Hierarchy
from betimes.engine.changes import ChangeWriter, Reporter, Standing
from betimes.engine.load import Load, Span
from betimes.engine.shared import SharedOrder
from betimes.engine.stages.tactic import END as FOREVER
from betimes.engine.stats import DetectorStats
from betimes.model import Duration, Event, EventBatch, OptionError, microseconds
from betimes.model.change import Parts
from betimes.model.coded import Coded
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.placement.homes import Homes
from betimes.placement.log import Log
from betimes.placement.node import resume, state_of
from betimes.placement.rounds import (
    ARRIVE,
    END,
    NO_EVENTS,
    PASS,
    Ask,
    Begin,
    Message,
    Reached,
    Round,
    State,
    Told,
    decoded,
    encoded,
)

MEASURED = 8
"""Stages tell what they have done once in so many rounds: reading it takes as long as a round in
which nothing happens."""


SETTLES, WATCHED = 96, 64
"""Before this round it is known what detectors do, from so many rounds: in the first ones, they
compile and fill their caches."""


class Crew(Protocol):
    """Nodes, and how messages get to them."""

    ahead: int
    """How many rounds may be in transit."""
    log_bytes: int
    """How much is kept, at least, to build nodes again that have died."""
    settles: bool
    """Whether detectors move once it is known what each of them does."""
    homes: Homes
    again: Callable[[str], bytes]
    """Set by the driver: what a node has to hear that takes the place of a dead one."""

    def send(self, to: str, message: bytes) -> None:
        """Put a message on its way to a node."""

    def receive(self, *, wait: bool) -> Sequence[bytes]:
        """The messages that have come for the driver; with `wait`, at least one."""


class Placed:
    """The order of an engine whose stages live on the nodes of a crew."""

    gathers = False

    def __init__(
        self,
        hierarchy: Hierarchy,
        options: EngineOptions,
        changes: ChangeWriter,
        crew: Crew,
        *,
        whole: Callable[[], SharedOrder],
    ) -> None:
        for refused, why in _refused(options):
            if refused:
                raise OptionError(
                    f"expected one process for an engine with {why}; leave workers out"
                )
        self._hierarchy = hierarchy
        self._crew = crew
        self._whole = whole
        self._reporter = Reporter(changes)
        self._by = options.by
        self._max_skew = microseconds(options.max_skew or 0)
        self._names = list(hierarchy.levels())
        self._depth = hierarchy.depth
        self._known: dict[str, tuple[str, ...]] | None = None
        """Who lives where, as nodes were told."""
        self._attenuation: dict[str, float] | None = None
        self._fresh = True
        self._arrived = 0
        self._newest = -1
        self._next = 0
        self._open: dict[int, tuple[Round, dict[str, Told]]] = {}
        """Rounds in transit, and what has been said in them."""
        self._clocks: dict[str, int] = {}
        self._loads: dict[str, Load] = {}
        self._busy: dict[str, float] = {}
        """How long each stage has been busy since the last look."""
        self._spoken: dict[str, int] = {}
        """The last round in which each stage was heard."""
        self._states: dict[str, bytes] = {}
        self._parts: Parts = []
        self._log = Log(self._begun, least=crew.log_bytes)
        crew.again = self._log.again
        for name in crew.homes.nodes:
            crew.send(name, encoded([Begin(name, 0, {})]))

    @property
    def empty(self) -> bool:
        return not self._arrived

    def read(
        self,
        batch: EventBatch,
        groups: Coded | None,  # noqa: ARG002 - nodes look at the keys
        events: list[Event] | None,  # noqa: ARG002 - they get columns
        *,
        blocks: bool = False,
    ) -> EventBatch:
        """Nodes sort out what arrives where."""
        if blocks:
            raise OptionError("expected blocks=False with workers; one process can take blocks")
        return batch

    def take(self, batch: EventBatch) -> Parts:
        """Hand out a batch; return the changes of all rounds that are done."""
        self._send(ARRIVE, batch=batch, count=len(batch))
        self._hear(wait=False)
        while len(self._open) > self._crew.ahead:
            self._hear(wait=True)
        return self._done()

    def advance(self, by: Duration | Mapping[Any, Duration]) -> Parts:
        """Time passes while nothing happens."""
        if isinstance(by, Mapping):
            raise OptionError('expected a duration; a mapping from keys needs order="key"')
        self._drain()
        passed = microseconds(by, "by")
        if self._clocks and passed:
            self._send(PASS, time=max(self._clocks.values()) + passed, count=1 + self._depth)
            self._drain()
        return self._done()

    def finish(self, *, advance: bool) -> Parts:
        """The stream has ended: everything settles."""
        self._drain()
        self._send(END, time=FOREVER if advance else self._newest)
        self._drain()
        return self._done()

    def excuse(self, sources: Sequence[Any]) -> None:
        """There are no sources."""

    # Rounds

    def _send(
        self, kind: int, *, batch: EventBatch = NO_EVENTS, time: int = -1, count: int = 0
    ) -> None:
        """Hand a round to all nodes."""
        if self._crew.settles and self._next in (SETTLES - WATCHED, SETTLES):
            self._settle()
        homes = dict(self._crew.homes.now)
        whole = Round(
            self._next, kind, self._arrived, time, batch,
            None if homes == self._known else homes, self._attenuation, self._fresh,
            self._log.wants_states(self._next), self._next % MEASURED == 0,
        )  # fmt: skip
        self._known, self._attenuation, self._fresh = homes, None, False
        self._arrived += count
        self._open[self._next] = whole, {}
        self._next += 1
        self._log.note_round(whole, homes)
        bare = whole._replace(batch=batch.without_payload())
        full, short = encoded([whole]), encoded([bare])
        self._log.note_size(len(full))
        readers = {home for name in self._reads(batch) for home in homes[name]}
        for name in self._crew.homes.nodes:
            self._crew.send(name, full if name in readers else short)

    def _reads(self, batch: EventBatch) -> list[str]:
        """The detectors that read events of this batch; others only need to know the time."""
        if self._by is not None:
            return self._names  # the key is a part of the payload
        return [node.name for node in self._hierarchy if any(map(node.takes, batch.types))]

    def _settle(self) -> None:
        """Detectors move to where they are better off, once it is known what each of them does."""
        if self._next == SETTLES and self._busy:
            self._crew.homes.settle(self._hierarchy, self._busy)
        self._busy = {}

    def _drain(self) -> None:
        while self._open:
            self._hear(wait=True)

    def _hear(self, *, wait: bool) -> None:
        """Take note of what nodes say."""
        for data in self._crew.receive(wait=wait):
            self._log.note_size(len(data))
            for message in decoded(data):
                self._note(message)
        while self._open:
            number = min(self._open)
            whole, told = self._open[number]
            if len(told) < len(self._names):
                return
            del self._open[number]
            self._report(whole, told)

    def _note(self, message: Message) -> None:
        if isinstance(message, Told):
            for node in self._log.note_told(message):
                self._crew.send(node, encoded([message]))
            if message.number in self._open:
                told = self._open[message.number][1]
                told.setdefault(message.stage, message)
                self._spoken[message.stage] = max(
                    message.number, self._spoken.get(message.stage, -1)
                )
        elif isinstance(message, Reached):
            if message.number >= self._spoken.get(message.stage, -1):
                self._crew.homes.note_reached(message.stage, message.node)
        elif isinstance(message, State):
            self._states[message.stage] = message.data
            self._log.note_state(message)

    def _report(self, whole: Round, told: dict[str, Told]) -> None:
        """Write the changes of a round of which everything is known."""
        for name, each in told.items():
            if each.clock is not None:
                self._clocks[name] = each.clock
            if each.load is not None:
                load = self._loads.get(name)
                self._busy[name] = self._busy.get(name, 0.0) + each.load.busy
                self._loads[name] = each.load if load is None else load + each.load
        ts = np.array([whole.time]) if whole.kind == PASS else whole.batch.ts
        sound = max(self._clocks.values(), default=0) + self._max_skew
        self._newest = max(self._newest, int(ts.max(initial=-1, where=ts <= sound)))
        news = {name: told[name].news for name in self._names}
        self._parts += self._reporter.report(news, partial(_standing, told))

    def _done(self) -> Parts:
        parts, self._parts = self._parts, []
        return parts

    # Speculation

    def set_attenuation(self, values: Mapping[str, float]) -> None:
        self._attenuation = dict(values)

    def loads(self) -> dict[str, Load]:
        """What each stage did since the last call, as far as it is known."""
        loads, self._loads = self._loads, {}
        return {name: loads.get(name, Load(0.0, 0.0, 0, 0)) for name in self._names}

    @property
    def sure_clock(self) -> int | None:
        """None: nodes know."""
        return None

    def stats(self, span: Span) -> dict[str, DetectorStats]:
        """Readings by detector, for which everything is brought together."""
        return self._together().stats(span)

    # Checkpoints

    def _together(self) -> SharedOrder:
        """All stages in one order, as they are now."""
        self._drain()
        whole = self._whole()
        if self._next:
            self._states = {}
            for name in self._crew.homes.nodes:
                self._crew.send(name, encoded([Ask(self._next)]))
            while len(self._states) < len(self._names):
                self._hear(wait=True)
        for name, data in self._states.items():
            resume(whole.stages[name], data)
        return whole

    def state_of(self, volumes: VolumeWriter) -> dict[str, Any]:
        """Everything needed to resume elsewhere, as data; history is in volumes."""
        kept = self._together().state_of(volumes)
        return kept | {
            "arrived": self._arrived, "newest": self._newest,
            "provisional": self._reporter.provisional,
        }  # fmt: skip

    def _begun(self) -> dict[str, bytes]:
        """The states of stages that have just begun."""
        return {name: state_of(stage) for name, stage in self._whole().stages.items()}

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        """Resume from what `state_of` kept."""
        whole = self._whole()
        whole.resume(kept, volumes)
        self._arrived, self._newest = kept["arrived"], kept["newest"]
        self._reporter.provisional = kept["provisional"]
        self._fresh = False
        states = {name: state_of(stage) for name, stage in whole.stages.items()}
        self._log.begin(states)
        for name, homes in self._crew.homes.now.items():
            for home in homes:
                self._crew.send(home, encoded([State(name, 0, states[name])]))
            clock = whole.stages[name].clock
            if clock is not None:
                self._clocks[name] = clock


def _standing(told: Mapping[str, Told], name: str) -> Standing:
    standing = told[name].standing
    assert standing is not None
    return standing


def _refused(options: EngineOptions) -> list[tuple[bool, str]]:
    return [
        (options.order == "key", 'order="key" (its keys can be spread over slots instead)'),
        (options.source is not None, "source="),
    ]
