"""Events that wait to be handed to a compiled pattern."""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.engine.stages.columns.history import CodedEvents, Finds, Floats
from betimes.engine.stages.tactic import NOTHING, Ints
from betimes.patterns.kernel import AT, N_EVENT


class WaitingColumns:
    """Events that concern a pattern, by the ordering unit's row number."""

    def __init__(self, own: int, store: Finds) -> None:
        self._events = np.empty((N_EVENT, 0), np.int64)
        self._own = np.empty((own, 0))
        self._rows = NOTHING
        self._store = store

    @property
    def events(self) -> Ints:
        return self._events

    def put(self, rows: Ints, events: Ints, own: Floats) -> None:
        """Keep events."""
        self._events = np.concatenate((self._events, events), axis=1)
        self._own = np.concatenate((self._own, own), axis=1)
        self._rows = np.concatenate((self._rows, rows))

    def take(self, rows: Ints, at: Ints) -> tuple[CodedEvents, Ints]:
        """Hand out those of these rows that wait here; `at` is when each was handed out."""
        if not len(self._rows):
            return CodedEvents(self._events, self._own, self._store), self._rows
        index = np.minimum(self._rows.searchsorted(rows), len(self._rows) - 1)
        mine = self._rows[index] == rows
        index = index[mine]
        events, own = self._events[:, index], self._own[:, index]
        events[AT] = at[mine] if len(at) else at
        left = np.ones(len(self._rows), np.bool_)
        left[index] = False
        self._keep(left)
        return CodedEvents(events, own, self._store), rows[mine]

    def drop(self, rows: Ints) -> None:
        """Forget events that will not be handed out."""
        self._keep(~np.isin(self._rows, rows))

    def _keep(self, left: Any) -> None:
        self._events, self._own = self._events[:, left], self._own[:, left]
        self._rows = self._rows[left]

    def state_of(self) -> tuple[Ints, Floats, Ints]:
        """Everything needed to resume elsewhere."""
        return self._events, self._own, self._rows

    def resume(self, kept: tuple[Ints, Floats, Ints]) -> None:
        """Resume from what `state_of` kept."""
        self._events, self._own, self._rows = kept
