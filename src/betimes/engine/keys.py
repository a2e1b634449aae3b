"""Keys of events that come as columns: as numbers, in the order in which they were first seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.hierarchy import Node
from betimes.engine.stage import NOTHING, keys_of
from betimes.model.batch import EventBatch
from betimes.ordering.clock import EVERY

Ints = npt.NDArray[np.int64]


class Keys:
    """Numbers for keys, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}

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
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def resume(self, values: list[Any]) -> None:
        """Go on with these keys."""
        self.values = values
        self._codes = {value: code for code, value in enumerate(values)}


def encoded(batch: EventBatch, column: str, who: str) -> tuple[Ints, list[Any]]:
    """A payload column as numbers, and the values that they stand for."""
    payload = batch.payload
    if isinstance(payload, pa.Table) and column in payload.column_names:
        values = payload[column]
        if not pa.types.is_nested(values.type):
            whole: Any = values.unify_dictionaries().combine_chunks()
            if isinstance(whole, pa.ChunkedArray):
                whole = pa.concat_arrays(whole.chunks)
            if not pa.types.is_dictionary(whole.type):
                whole = whole.dictionary_encode(null_encoding="encode")
            indices = whole.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            return indices, whole.dictionary.to_pylist()
    keys = keys_of(batch.rows(), column, who)
    numbers = {value: number for number, value in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64), list(numbers)


def key_codes(node: Node, keys: Keys, part: EventBatch, groups: list[Any] | None) -> Ints:
    """The numbers of the keys of events that a detector takes; `groups` are the engine's own."""
    by, who = node.by, f"detector {node.name!r}"
    if not len(part):
        return NOTHING
    if by is None:
        return keys.codes([None] * len(part) if groups is None else groups)
    if EVERY in node.on and not has_column(part, by):
        # Nobody named the types: those without the column are a key of their own, as in SQL.
        part = _with_column(part, by)
    codes, values = encoded(part, by, who)
    if groups is None:
        return keys.codes(values)[codes]
    return keys.codes([(g, values[c]) for g, c in zip(groups, codes.tolist(), strict=True)])


def has_column(batch: EventBatch, name: str) -> bool:
    """Whether the payload is columns, and this is one of them."""
    return isinstance(batch.payload, pa.Table) and name in batch.payload.column_names


def _with_column(batch: EventBatch, column: str) -> EventBatch:
    """The batch with a column in every row, null where it was missing."""
    rows = [{column: None, **event.payload} for event in batch.rows()]
    return EventBatch(batch.ts, batch.codes, batch.types, rows)
