"""Keys of events that come as columns: as numbers, in the order in which they were first seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.node import Node
from betimes.model.arrays import ArrayBatch
from betimes.model.batch import EventBatch
from betimes.model.coded import Coded
from betimes.model.stored import hashable, require, shaped

Ints = npt.NDArray[np.int64]

_ROOM = 64
_MOST = 1 << 20
"""Whole numbers below this are looked up in a table."""
_FEW = 128
"""Up to this many keys are looked up one by one: Arrow's price does not depend on their number."""


class Keys:
    """Numbers for keys, in the order in which they were first seen.

    Batches are read before anybody knows whether they will be taken in, so the keys of a batch are
    new until `keep` is called.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}
        self._new: dict[Any, int] = {}
        """Keys of what was read last."""
        self.table: Ints = np.full(_ROOM, -1)
        """The numbers of keys that are whole numbers and not large; -1 if they are not known."""

    def codes(self, values: list[Any]) -> Ints:
        """The numbers of these keys."""
        known = self._codes
        try:
            return np.array([known[value] for value in values], np.int64)
        except KeyError:
            return np.array([self._code(value) for value in values], np.int64)

    def _code(self, value: Any) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._new.setdefault(value, len(self.values) + len(self._new))
        return code

    def keep(self) -> None:
        """Note that what was read last is taken in: its keys stay."""
        if self._new:
            self.values += self._new
            self._codes |= self._new
            self._enter(self._new)
            self._new.clear()

    def drop(self) -> None:
        """Discard what was read last, unless it was kept."""
        self._new.clear()

    def resume(self, values: list[Any]) -> None:
        """Resume with these keys."""
        self.values = shaped(values, list[Any], "the keys")
        hashable(values, "the keys")
        require(len(set(values)) == len(values), "keys are there twice")
        self._codes = {value: code for code, value in enumerate(values)}
        self._enter(self._codes)

    def _enter(self, keys: dict[Any, int]) -> None:
        """Enter keys into the table."""
        for key, code in keys.items():
            if type(key) is int and 0 <= key < _MOST:
                if key >= len(self.table):
                    more = np.full(2 * key + 1 - len(self.table), -1)
                    self.table = np.concatenate((self.table, more))
                self.table[key] = code


def key_codes(node: Node, keys: Keys, part: EventBatch, groups: Coded | None) -> Ints:
    """The numbers of the keys of events that a detector takes; `groups` are the engine's keys."""
    by, who = node.by, f"detector {node.name!r}"
    if not len(part):
        return np.empty(0, np.int64)
    if by is None:
        if groups is None:
            return np.full(len(part), keys.codes([None])[0])
        found = groups.compact()
        return keys.codes(found.values).take(found.codes)
    if groups is None and isinstance(part.payload, list):
        try:
            return keys.codes([row[by] for row in part.payload])
        except (KeyError, TypeError):
            pass  # what follows names the event, or accepts it
    if groups is None and isinstance(part, ArrayBatch) and by in part.arrays and len(part) <= _FEW:
        return keys.codes(part.arrays[by].tolist())
    if any(map(node.may_lack_key, part.types)) and not has_column(part, by):
        part = _with_column(part, by, node)
    found = Coded.of(part, by, who)
    if groups is not None:
        found = groups.with_own(found)
    return keys.codes(found.values).take(found.codes)


def has_column(batch: EventBatch, name: str) -> bool:
    """Whether the payload has columns, and this is one of them."""
    return isinstance(batch.payload, pa.Table) and name in batch.payload.column_names


def _with_column(batch: EventBatch, column: str, node: Node) -> EventBatch:
    """The batch with a column in every row that may lack it, null where it was missing."""
    rows = [
        {column: None, **event.payload} if node.may_lack_key(event.type) else event.payload
        for event in batch.rows()
    ]
    return EventBatch(batch.ts, batch.codes, batch.types, rows)
