"""Reading a batch for a compiled pattern: the events that concern it, for the compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.arrivals import Arrivals
from betimes.engine.columns.store import Interned, Keys, encoded
from betimes.engine.hierarchy import Node
from betimes.engine.history import pick
from betimes.engine.runner import DetectorFailed
from betimes.engine.stage import NOTHING, Ints
from betimes.engine.stats import StageCounts
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.ordering.clock import EVERY
from betimes.patterns import PatternError, kernel
from betimes.patterns.compiled import Program

Floats = npt.NDArray[np.float64]


class ColumnArrivals(Arrivals):
    """What arrives at a stage of columns: the batch, and of it what concerns the pattern."""

    __slots__ = ("found", "own", "part", "wanted")

    def __init__(
        self,
        batch: EventBatch,
        at: Ints,
        wanted: Ints,
        part: EventBatch,
        found: Ints,
        own: Floats,
    ) -> None:
        super().__init__(batch, [], at, {}, None)
        self.wanted = wanted
        """The rows of the batch that concern the pattern."""
        self.part = part
        """These events."""
        self.found = found
        """The same as the compiled loop wants them."""
        self.own = own

    def one(self, index: int) -> tuple[Event, int]:
        """An event of the batch, and its arrival number."""
        return self.batch[index], int(self.at[index])


class Reader:
    """Reads batches for one pattern."""

    def __init__(self, node: Node, program: Program, counts: StageCounts, *, skips: bool) -> None:
        self._node = node
        self._program = program
        self._counts = counts
        self._skips = skips
        self.keys = Keys()
        self.interned = Interned(program, f"pattern {node.name!r}")

    def read(self, batch: EventBatch, at: Ints, groups: list[Any] | None) -> ColumnArrivals:
        """What arrives: `at` are the arrival numbers, `groups` the engine's own keys."""
        wanted, bits, part, own = self._read(batch)
        keys = self._key_codes(part, None if groups is None else pick(groups, wanted.tolist()))
        found = np.empty((kernel.N_EVENT, len(wanted)), np.int64)
        found[kernel.TS], found[kernel.ARRIVAL], found[kernel.KEY] = part.ts, at[wanted], keys
        found[kernel.TAKE], found[kernel.KILL], found[kernel.AT] = bits[0], bits[1], -1
        return ColumnArrivals(batch, at, wanted, part, found, own)

    def _read(self, batch: EventBatch) -> tuple[Ints, Ints, EventBatch, Floats]:
        """The rows that concern the pattern, what they fit, themselves, what is compared of them.

        Conditions are asked of every event of the types that they name. Where one fails, that is
        the detector's failure: named, or, with errors="skip", counted and the event left out.
        """
        try:
            wanted, bits = self._program.read(batch)
            part = batch.take(wanted)
            return wanted, bits, part, self.interned.read(part, bits)
        except PatternError as error:
            if len(batch) == 1 and self._skips:
                self._counts.errors += 1
                none = self._program.read(batch.part(0, 0))
                part = batch.part(0, 0)
                return *none, part, self.interned.read(part, none[1])
            if not self._skips:
                raise DetectorFailed(f"detector {self._node.name!r} failed: {error}") from error
        return self._read_singly(batch)

    def _read_singly(self, batch: EventBatch) -> tuple[Ints, Ints, EventBatch, Floats]:
        """The same event by event, so that only those are left out that fail."""
        parts = [self._read(batch.part(row, row + 1)) for row in range(len(batch))]
        wanted = np.concatenate([row + part[0] for row, part in enumerate(parts)])
        bits = np.concatenate([part[1] for part in parts], axis=1)
        own = np.concatenate([part[3] for part in parts], axis=1)
        return wanted, bits, batch.take(wanted), own

    def _key_codes(self, part: EventBatch, groups: list[Any] | None) -> Ints:
        by, who = self._node.by, f"detector {self._node.name!r}"
        if not len(part):
            return NOTHING
        if by is None:
            return self.keys.codes([None] * len(part) if groups is None else groups)
        if EVERY in self._node.on and not isinstance(part.payload, pa.Table):
            codes, values = encoded(_with_column(part, by), by, who)
        else:
            codes, values = encoded(part, by, who)
        if groups is None:
            return self.keys.codes(values)[codes]
        return self.keys.codes(
            [(g, values[c]) for g, c in zip(groups, codes.tolist(), strict=True)]
        )


def _with_column(batch: EventBatch, column: str) -> EventBatch:
    """The batch with a column in every row, null where it was missing."""
    rows = [{column: None, **event.payload} for event in batch.rows()]
    return EventBatch(batch.ts, batch.codes, batch.types, rows)
