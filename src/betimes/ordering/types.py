"""The event types that a unit has seen: their codes, and the role that each plays in the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.model import PSEUDO, TICK, EventBatch
from betimes.model.event import refuse_reserved
from betimes.ordering import kernel
from betimes.ordering.clock import EVERY, ClockLearner

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_TRANSLATIONS = 64  # batches list their types in many orders; this many are remembered

_DELAYS = slice(kernel.DELAY, kernel.N_TYPE)
_UNMEASURED = (kernel.NEVER, kernel.FAR)  # the delay of a type, and what is pending


def from_outside(events: Any) -> EventBatch:
    """Events that a user hands in; types with which betimes speaks to itself are refused."""
    batch = EventBatch.of(events)
    refuse_reserved(batch.types)
    return batch


class Types:
    """Codes for types, in the order in which they are first seen, and the table for the loop."""

    def __init__(
        self,
        on: frozenset[str] | None,
        clock: tuple[str, ...] | None,
        learner: ClockLearner | None,
        offsets: Mapping[str, int],
    ) -> None:
        self._on = on
        self._clock = clock
        self._learner = learner
        self._offsets = offsets
        self.codes: dict[str, int] = {}
        self.names: tuple[str, ...] = ()
        self.table: Ints = np.zeros((kernel.N_TYPE, 0), np.int64)
        """Role, offset, count and delays of each type."""
        self._translations: dict[tuple[str, ...], Codes | None] = {}

    def translate(self, batch: EventBatch) -> Codes:
        """The types of a batch in this unit's codes."""
        if batch.types not in self._translations:
            if len(self._translations) >= _TRANSLATIONS:
                self._translations.clear()
            table = [self.code(name) for name in batch.types]
            same = table == list(range(len(table)))
            self._translations[batch.types] = None if same else np.array(table, dtype=np.int32)
        translation = self._translations[batch.types]
        return batch.codes if translation is None else translation[batch.codes]

    def code(self, name: str) -> int:
        """The code of a type; a new one gets the next."""
        if name not in self.codes:
            self.codes[name] = len(self.names)
            self.names = (*self.names, name)
            column = (self._role(name), self._offsets.get(name, 0), 0, *_UNMEASURED)
            self.table = np.append(self.table, np.array(column)[:, np.newaxis], axis=1)
        return self.codes[name]

    def _role(self, name: str) -> int:
        if name == PSEUDO:
            return kernel.MEASURED | kernel.NOTICE
        if name == TICK:
            return kernel.CLOCK | kernel.SILENT
        wanted = self._on is None or name in self._on
        role = kernel.MEASURED | kernel.BUFFERED if wanted else 0
        if self._learner is not None:
            moves = self._learner.chosen in (None, self.codes[name])
        else:
            moves = self._clock is not None and (name in self._clock or EVERY in self._clock)
        return role | kernel.CLOCK if moves else role

    def review(self) -> None:
        """Give roles again: another type may have become the clock."""
        for code, name in enumerate(self.names):
            self.table[kernel.ROLE, code] = self._role(name)

    @property
    def delays(self) -> dict[str, int]:
        """The largest delay of each type that was measured."""
        delays, roles = self.table[kernel.DELAY].tolist(), self.table[kernel.ROLE].tolist()
        return {
            name: max(0, delay)
            for name, delay, role in zip(self.names, delays, roles, strict=True)
            if delay != kernel.NEVER and not role & kernel.NOTICE
        }

    def forget_delays(self) -> None:
        """The clock by which they were measured was a wrong one."""
        self.table[_DELAYS] = np.array(_UNMEASURED)[:, np.newaxis]

    def learn_delays(self, table: Ints) -> None:
        """Take delays from another table of the same types."""
        self.table[_DELAYS] = table[_DELAYS]

    def moving(self) -> list[int]:
        """The codes of the types that currently move the clock."""
        moves = self.table[kernel.ROLE] & (kernel.CLOCK | kernel.SILENT) == kernel.CLOCK
        codes: list[int] = np.flatnonzero(moves).tolist()
        return codes

    def resume(self, names: tuple[str, ...], table: Ints) -> None:
        """Resume with these types."""
        self.names, self.table = names, table
        self.codes = {name: code for code, name in enumerate(names)}
        self._translations.clear()
