"""Reading a batch for a compiled pattern: the relevant events, ready for the compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import AT as MADE_AT
from betimes.engine.news.outputs import Outputs
from betimes.engine.node import Node
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Mask
from betimes.engine.reading.keys import Keys, key_codes
from betimes.engine.stages.columns.interned import Interned
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.tactic import NOTHING, Ints, Joined
from betimes.engine.stats import StageCounts
from betimes.model.arrays import ArrayBatch, in_arrays
from betimes.model.batch import EventBatch, in_rows
from betimes.model.coded import Coded
from betimes.model.event import Event
from betimes.ordering.loop import plain
from betimes.patterns import PatternError, kernel
from betimes.patterns.compiled import Program

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ORDERS = 64
"""Batches list their types in many orders; this many are remembered."""
FEW = 128
"""Tables with fewer rows become rows: each call of Arrow's has a price, however few there are."""


class Read(NamedTuple):
    """Events of the types that a pattern takes."""

    events: EventBatch
    rows: Ints
    """Where they are among the arrivals."""
    groups: Coded | None
    """The engine's keys."""


Part = tuple[EventBatch, Ints | None, Ints | slice]
"""Events that concern a pattern: all or some rows of a batch, and their places in `found`."""


class ColumnArrivals(Arrivals):
    """What arrives at a stage of columns: columns for the unit, and what concerns the pattern."""

    __slots__ = ("concern", "failed", "found", "own", "parts", "spare")

    def __init__(
        self,
        columns: EventBatch,
        at: Ints,
        wanted: Ints,
        parts: list[Part],
        found: Ints,
        own: Floats,
        failed: int,
        event: Callable[[int], Event],
        below: tuple[Ints, Outputs] | None = None,
    ) -> None:
        super().__init__(columns, at, wanted, [], None, event, below)
        self.parts = parts
        """The events that concern the pattern."""
        self.found = found
        """The same events in the form that the compiled loop takes."""
        self.own = own
        self.failed = failed
        """How many events were left out because a condition failed on them."""
        self.concern = (NOTHING, NOTHING)
        """Which outputs of other stages concern the pattern: their rows in `found`, and which."""
        self.spare = 0
        """How many events are of a type that the pattern takes, but fit none of its steps."""

    @property
    def clock_only(self) -> bool:
        return super().clock_only and not self.spare


class Reader:
    """Reads batches for one pattern."""

    def __init__(self, node: Node, program: Program, counts: StageCounts, *, skips: bool) -> None:
        self._node = node
        self._program = program
        self._counts = counts
        self._skips = skips
        self._failed = 0
        """How many events of what was read last were left out."""
        self._by_type: dict[tuple[str, ...], tuple[Ints, Flags] | None] = {}
        self.keys = Keys()
        self.interned = Interned(program, f"pattern {node.name!r}")

    def read(
        self, read: Read, columns: EventBatch, at: Ints, event: Callable[[int], Event]
    ) -> ColumnArrivals:
        """What arrives: `columns` is what ordering needs, `at` are their arrivals."""
        self.keys.drop()
        self.interned.drop()
        return self._arrivals(read, columns, at, event)

    def sort_out(
        self,
        batch: ArrayBatch,
        first: int,
        on: Mask,
        columns: EventBatch,
        at: Ints,
        event: Callable[[int], Event],
        found: Ints,
    ) -> ColumnArrivals | None:
        """The same in one compiled loop if only types count and all keys are known; else None.

        `batch` are all events, `first` is the arrival of the first, and `on` says which types the
        pattern takes. `found` is room for events in the form that the compiled loop takes.
        """
        self.keys.drop()
        self.interned.drop()
        by, keys, table = self._node.by, NOTHING, self.keys.table
        if by is None:
            table = self.keys.codes([None])
        elif by in batch.arrays and batch.arrays[by].dtype.kind == "i":
            keys = plain(batch.arrays[by].astype(np.int64, copy=False))
        else:
            return None
        by_type = self._asked(columns.types, on)
        if by_type is None:
            return None
        steps, asked = by_type
        rows = np.empty(len(columns.ts), np.int64)
        count = kernel.sort_out(
            plain(columns.ts), plain(columns.codes), at, first, keys, table, steps, asked, found,
            rows,
        )  # fmt: skip
        if count < 0:
            return None
        found, wanted = found[:, :count], rows[:count]
        mine = wanted if len(columns) == len(batch) else at[wanted] - first
        own = np.empty((0, count))
        return ColumnArrivals(
            columns, at, wanted, [(batch, mine, slice(None))], found, own, 0, event
        )

    def _asked(self, types: tuple[str, ...], on: Mask) -> tuple[Ints, Flags] | None:
        """By type: the steps that it fits, and whether the pattern takes it.

        None if it takes a type that fits no step.
        """
        if types not in self._by_type:
            if len(self._by_type) >= _ORDERS:
                self._by_type.clear()
            steps, asked, _ = self._program.by_type(types)
            taken = np.array(on)
            self._by_type[types] = (steps, taken) if asked[taken].all() else None
        return self._by_type[types]

    def nothing(
        self, columns: EventBatch, at: Ints, event: Callable[[int], Event]
    ) -> ColumnArrivals:
        """The same if the pattern takes none of the types that arrive."""
        self.keys.drop()
        self.interned.drop()
        found = np.empty((kernel.N_EVENT, 0), np.int64)
        own = np.empty((len(self._program.columns), 0))
        return ColumnArrivals(columns, at, NOTHING, [], found, own, 0, event)

    def join(self, arrivals: ColumnArrivals, joined: Joined, *, grouped: bool) -> ColumnArrivals:
        """The same with outputs of other stages among them."""
        outputs = joined.outputs
        groups = Coded.plain(outputs.groups or []) if grouped else None
        events = outputs.events
        read = Read(events, np.arange(len(events)), groups)
        more = self._arrivals(read, events, outputs.numbers[MADE_AT], events.__getitem__)
        wanted = np.concatenate((joined.was[arrivals.wanted], joined.now[more.wanted]))
        order = np.argsort(wanted)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        split = len(arrivals.wanted)
        parts: list[Part] = [
            (part, rows, place[:split][mine]) for part, rows, mine in arrivals.parts
        ]
        parts += [(part, rows, place[split:][mine]) for part, rows, mine in more.parts]

        def event(index: int) -> Event:
            rows = np.flatnonzero(joined.now == index)
            if len(rows):
                return events[int(rows[0])]
            return arrivals.event(int(joined.was.searchsorted(index)))

        both = ColumnArrivals(
            joined.batch, joined.at, wanted[order], parts,
            np.concatenate((arrivals.found, more.found), axis=1)[:, order],
            np.concatenate((arrivals.own, more.own), axis=1)[:, order],
            arrivals.failed + more.failed, event, (joined.now, outputs),
        )  # fmt: skip
        both.concern = place[split:], more.wanted
        return both

    def _arrivals(
        self, read: Read, columns: EventBatch, at: Ints, event: Callable[[int], Event]
    ) -> ColumnArrivals:
        self._failed = 0
        batch, rows, groups = read
        if self._program.by_type_alone:
            batch = in_arrays(batch)
        if len(batch.ts) <= FEW and not isinstance(batch, ArrayBatch):
            batch = in_rows(batch)
        mine, bits, part, own = self._read(batch)
        wanted = rows
        if part is not batch:
            wanted, groups = rows[mine], None if groups is None else groups.take(mine)
        found = np.empty((kernel.N_EVENT, len(wanted)), np.int64)
        found[kernel.TS], found[kernel.ARRIVAL] = part.ts, at[wanted]
        found[kernel.KEY] = key_codes(self._node, self.keys, part, groups)
        found[kernel.TAKE : kernel.KILL + 1], found[kernel.AT] = bits, -1
        parts: list[Part] = [(part, None, slice(None))]
        arrivals = ColumnArrivals(columns, at, wanted, parts, found, own, self._failed, event)
        arrivals.spare = len(rows) - len(wanted)
        return arrivals

    def keep(self, arrivals: ColumnArrivals) -> None:
        """Note that what was read last is taken in."""
        self.keys.keep()
        self.interned.keep()
        self._counts.errors += arrivals.failed

    def _read(self, batch: EventBatch) -> tuple[Ints, Ints, EventBatch, Floats]:
        """The rows that concern the pattern, the steps they fit, the events, the values to compare.

        Conditions are evaluated for every event of the types that they name. If one fails, the
        detector has failed: an error, or with errors="skip", the event is counted and left out.
        """
        try:
            wanted, bits = self._program.read(batch)
            part = batch if len(wanted) == len(batch.ts) else batch.take(wanted)
            return wanted, bits, part, self.interned.read(part, bits)
        except PatternError as error:
            if len(batch) == 1 and self._skips:
                self._failed += 1
                none = self._program.read(batch.part(0, 0))
                part = batch.part(0, 0)
                return *none, part, self.interned.read(part, none[1])
            if not self._skips:
                raise DetectorFailed(f"detector {self._node.name!r} failed: {error}") from error
        return self._read_singly(batch)

    def _read_singly(self, batch: EventBatch) -> tuple[Ints, Ints, EventBatch, Floats]:
        """The same, event by event, so that only failing events are left out."""
        parts = [self._read(batch.part(row, row + 1)) for row in range(len(batch))]
        wanted = np.concatenate([row + part[0] for row, part in enumerate(parts)])
        bits = np.concatenate([part[1] for part in parts], axis=1)
        own = np.concatenate([part[3] for part in parts], axis=1)
        return wanted, bits, batch.take(wanted), own
