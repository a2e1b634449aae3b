"""Duplicates: the same event delivered twice, recognised by its source and its number there."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.model.batch import EventBatch
from betimes.model.errors import EventError, OptionError


class Duplicates:
    """Remembers the last `memory` events by (source, number) and drops those that come again.

    An event without a source or a number cannot be recognised and is never a duplicate.
    """

    def __init__(self, unique: tuple[str, str], memory: int) -> None:
        if isinstance(unique, str) or len(unique) != 2 or memory < 1:
            raise OptionError(
                "expected unique=(source column, number column) and remember=1 or more, "
                f"got unique={unique!r}, remember={memory!r}"
            )
        self.source, self.number = unique
        self.memory = memory
        self.dropped = 0
        self._seen: set[tuple[object, object]] = set()
        self._order: deque[tuple[object, object]] = deque()

    def state_of(self) -> dict[str, Any]:
        """Everything that `resume` needs."""
        return {"order": list(self._order), "dropped": self.dropped}

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` returned."""
        self._order = deque(kept["order"])
        self._seen = set(self._order)
        self.dropped = kept["dropped"]

    def drop(self, batch: EventBatch) -> EventBatch:
        """The batch without events seen before; `dropped` counts those."""
        if not len(batch):
            return batch
        keep = np.ones(len(batch), dtype=bool)
        pairs = zip(batch.column(self.source), batch.column(self.number), strict=True)
        for row, pair in enumerate(pairs):
            if None in pair:
                continue
            if not isinstance(pair[0], Hashable) or not isinstance(pair[1], Hashable):
                raise EventError(
                    f"expected numbers or text in the columns {self.source!r} and {self.number!r} "
                    f"that identify duplicates, got {pair!r}"
                )
            if pair in self._seen:
                keep[row] = False
                continue
            self._seen.add(pair)
            self._order.append(pair)
            if len(self._order) > self.memory:
                self._seen.discard(self._order.popleft())
        rows: npt.NDArray[np.intp] = np.flatnonzero(keep)
        self.dropped += len(batch) - len(rows)
        return batch if len(rows) == len(batch) else batch.take(rows)
