"""What aggregates take of events: the values of their expressions, for a whole batch.

Numbers become columns of floats, with a flag that says which of them are integers; null is NaN, as
in the expression language. Anything else (text, truth values, integers that no float can hold) is a
column of Python objects. Columns are calculated as a whole if they can be, else row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.arrays import ArrayBatch
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.patterns.expressions import parse
from betimes.patterns.syntax import Column as Named
from betimes.windows.aggregates import Column
from betimes.windows.kernel import EXACT

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass
class Values:
    """The values of some expressions for some events."""

    floats: Floats
    """One row per expression."""
    whole: Flags
    objects: dict[int, list[Any]]
    """Expressions whose values are no plain numbers."""
    failed: dict[int, Exception]
    """Events for which an expression fails."""


class Expressions:
    """The different expressions of some aggregates."""

    def __init__(self, columns: Sequence[Column]) -> None:
        named = {column.expression: column for column in columns if column.expression is not None}
        self.texts = list(named)
        self._columns = columns
        self._parsed = [parse(text, column.name) for text, column in named.items()]
        self._value = [column.value for column in named.values()]

    def number_of(self, column: Column) -> int:
        """Which expression an aggregate is of; -1 if it counts events."""
        return -1 if column.expression is None else self.texts.index(column.expression)

    def read(self, batch: EventBatch) -> Values:
        """Their values for each event of a batch."""
        shape = len(self.texts), len(batch.ts)
        found = Values(np.empty(shape), np.ones(shape, np.bool_), {}, {})
        events: list[Event] | None = None
        for number in range(len(self.texts)):
            known = self._as_column(number, batch)
            if known is not None:
                found.floats[number], found.whole[number] = known
                continue
            events = batch.rows() if events is None else events
            self._one_by_one(number, events, found)
        return found

    def _as_column(self, number: int, batch: EventBatch) -> tuple[Floats, bool] | None:
        """All values at once, and whether they are integers; None if that is not possible."""
        expr = self._parsed[number]
        if isinstance(expr, Named) and isinstance(batch, ArrayBatch):
            values: Any = batch.array(expr.name)
            if values is None:
                return None
            if values.dtype.kind == "f":
                return values.astype(np.float64, copy=False), False
            return (values.astype(np.float64), True) if _is_exact(values) else None
        from betimes.patterns.columns import numbers  # loads pyarrow.compute

        column = numbers(expr, batch)
        if column is None:
            return None
        whole = pa.types.is_integer(column.type)
        if whole:
            import pyarrow.compute as pc  # slow to load

            ends = pc.min_max(column)
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is not None and not (low > -EXACT and high < EXACT):
                return None
        floats = column.to_numpy(zero_copy_only=False)
        if column.null_count == len(column):
            floats = np.full(len(column), np.nan)
        return floats.astype(np.float64, copy=False), whole

    def _one_by_one(self, number: int, events: list[Event], found: Values) -> None:
        """The same, row by row; an aggregate that cannot take a value fails."""
        value_of = self._value[number]
        mine = [column for column in self._columns if self.number_of(column) == number]
        values: list[Any] = []
        for row, event in enumerate(events):
            value = None
            try:
                value = value_of(event)
                if type(value) not in (int, float):
                    for column in mine:
                        column.take(column.begin(), value)
            except Exception as error:  # noqa: BLE001 - a value may be anything
                found.failed.setdefault(row, error)
                value = None
            values.append(value)
        if all(value is None or _is_plain(value) for value in values):
            found.floats[number] = [np.nan if value is None else value for value in values]
            found.whole[number] = [type(value) is int for value in values]
        else:
            found.objects[number] = values


def _is_plain(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -EXACT < value < EXACT)


def _is_exact(values: npt.NDArray[Any]) -> bool:
    return not len(values) or (int(values.min()) > -EXACT and int(values.max()) < EXACT)
