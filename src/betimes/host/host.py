"""A host: one engine that takes tables and returns tables, the same in a process and in a slot.

Around its engine a host does what every run needs. It sifts the rows of the input, numbers the rows
of the output so that rejected rows have numbers, too, and lets time pass where nothing arrives.
What it returns depends only on what it is given, so a host that was saved and restored resumes as
if it had never stopped.

**Idle.** If asked for, time passes with the wall clock where nothing arrives: when a stream (with
`order="key"`: a key) has been silent for long enough, its clock is moved on by the time that has
passed. The host has no wall clock; it is told that time, in milliseconds.

**Sources.** If each source has its own clock, a table is a block of each: the engine waits for
every source in it before anything settles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa

from betimes.configuration import Calibration
from betimes.engine import Engine, EngineOptions, Hierarchy
from betimes.host.columns import Columns
from betimes.host.rows import change_rows, rejected_rows
from betimes.model import Duration, EventBatch, microseconds
from betimes.model.change import ChangeBatch
from betimes.model.identity import Identity
from betimes.transactions.foresight import Foresight


def milliseconds(idle: Duration | None) -> int:
    """The value of `idle=`: milliseconds without an event after which time passes; 0: never."""
    return 0 if idle is None else max(1, microseconds(idle, "idle") // 1000)


def nowhere(name: bytes) -> None:
    """Where nothing was stored beside a saved state."""
    del name


@dataclass(frozen=True)
class Setup:
    """What a host is made from."""

    hierarchy: Hierarchy
    options: EngineOptions
    columns: Columns
    results: str = "provisional"
    cores: int | None = None
    """How many cores its engine may use; None if all that there are."""

    @property
    def adaptive(self) -> bool:
        """Whether the attenuation of any detector follows the load."""
        return any(node.own.over(self.options).adaptive for node in self.hierarchy)

    def of_part(self, part: Hierarchy) -> Setup:
        """The same for a part of the hierarchy."""
        options, known = self.options, self.options.calibration
        if known is not None:
            options = options.with_(calibration=Calibration.of(known).of_part(part))
        return replace(self, hierarchy=part, options=options)

    def identity(self) -> Identity:
        """What a saved host depends on: a state is never restored under another identity."""
        own = Identity({"columns": self.columns.facts(), "output": {"results": self.results}})
        return (
            self.hierarchy.identity()
            | self.options.identity(self.hierarchy.own(self.options))
            | own
        )


class HostState(msgspec.Struct):
    """A saved host, as data."""

    engine: bytes
    volumes: list[bytes]
    """The names of what the engine's checkpoint refers to; it is stored beside it."""
    last: int = 0
    rejected: int = 0
    heard: list[tuple[Any, int]] = []
    spoke: list[tuple[Any, int]] = []


class Host:
    """An engine with all that a run needs around it."""

    def __init__(self, setup: Setup, *, slot: int = 0) -> None:
        self.setup = setup
        self.slot = slot
        self.foresight = Foresight()
        """What others run ahead of it."""
        self.engine = Engine(
            setup.hierarchy, setup.options, cores=setup.cores, foresight=self.foresight
        )
        self._last = 0
        """The last number that was given to a row."""
        self._rejected = 0
        """How many of the numbers went to rows that are not events."""
        self._heard: dict[Any, int] = {}
        """Up to when, by the wall clock, each key (or all: None) has had its time moved on."""
        self._spoke: dict[Any, int] = {}
        """When, by the wall clock, each source that is waited for was last heard."""

    def feed(self, table: pa.Table, *, now: int | None = None) -> pa.Table:
        """Take rows; `now` is the time on the wall clock, if `pass_time` shall know it."""
        source = self.setup.options.source
        batch, bad = self.setup.columns.sift(table, self.setup.options.unit, source=source)
        if now is not None:
            self._heard |= dict.fromkeys(self._streams(batch), now)
            if source is not None and len(batch):
                self._spoke |= dict.fromkeys(batch.column(source), now)
        # Nobody knows in which order the sources of a table have come.
        rows = self._rows(self.engine.feed(batch, blocks=source is not None))
        if not bad:
            return rows
        aside = rejected_rows(bad, slot=self.slot, after=self._last)
        self._last += len(bad)
        self._rejected += len(bad)
        return pa.concat_tables([rows, aside])

    def pass_time(self, now: int, idle: int) -> pa.Table:
        """Move time on for the streams that have been silent for `idle` milliseconds.

        A source that was silent for as long is no longer waited for.
        """
        silent = [source for source, since in self._spoke.items() if now - since >= idle]
        if silent:
            self.engine.excuse(silent)
            self._spoke = {s: since for s, since in self._spoke.items() if now - since < idle}
        passed = {
            key: 1000 * (now - since)
            for key, since in self._heard.items()
            if now - since >= idle
        }  # fmt: skip
        self._heard |= dict.fromkeys(passed, now)
        by_key = self.setup.options.order == "key"
        return self._rows(self.engine.advance(passed if by_key else passed.get(None, 0)))

    def finish(self, *, advance: bool = True) -> pa.Table:
        """The end of the stream: everything settles; with `advance`, open windows close."""
        return self._rows(self.engine.finish(advance=advance))

    def save(self) -> HostState:
        """All that is needed to resume."""
        return self._state(self.engine.checkpoint(), frozenset())

    def save_apart(self, known: Collection[bytes]) -> tuple[HostState, dict[bytes, bytes]]:
        """The same without history that no longer changes; returns the volumes to store, too.

        `known` are the names of those that are stored already.
        """
        checkpoint, written = self.engine.checkpoint_apart(known)
        return self._state(checkpoint, written.names), written.new

    def _state(self, checkpoint: bytes, volumes: Collection[bytes]) -> HostState:
        return HostState(
            checkpoint, sorted(volumes), self._last, self._rejected, [*self._heard.items()],
            [*self._spoke.items()],
        )  # fmt: skip

    def restore(
        self,
        state: HostState,
        volumes: Callable[[bytes], bytes | None] = nowhere,
        *,
        now: int | None = None,
    ) -> None:
        """Resume from a saved state; with `now`, silence counts only from then on.

        `volumes` looks up by name what was stored beside it.
        """
        found = {name: volumes(name) for name in state.volumes}
        self.engine.restore(state.engine, {name: v for name, v in found.items() if v is not None})
        self._last, self._rejected = state.last, state.rejected
        self._heard = {key: since if now is None else now for key, since in state.heard}
        self._spoke = {key: since if now is None else now for key, since in state.spoke}

    def _streams(self, batch: EventBatch) -> Iterable[Any]:
        """The streams with their own clock that these events belong to."""
        options = self.setup.options
        by_key = options.order == "key" and options.by is not None
        return dict.fromkeys(batch.column(str(options.by))) if by_key else (None,)

    def _rows(self, changes: ChangeBatch) -> pa.Table:
        self._last += len(changes)
        return change_rows(
            changes, slot=self.slot, skip=self._rejected, results=self.setup.results
        )  # fmt: skip
