"""Events whose payload is columns of plain numbers: arrays, and a table only if somebody asks.

Per-batch detectors compute with arrays. Rows of arrays are taken and joined in a fraction of the
time that Arrow needs for a table, as long as a batch has no more than some thousand events.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.batch import Codes, EventBatch, Ints, Payload
from betimes.model.event import Event

Arrays = dict[str, npt.NDArray[Any]]


class _Room:
    """Columns of a batch, with room for more events behind those that are there."""

    __slots__ = ("columns", "used")

    def __init__(self, columns: list[npt.NDArray[Any]]) -> None:
        self.columns = columns
        """Times, types, then the columns of the payload."""
        self.used = 0


class ArrayBatch(EventBatch):
    """A batch with its payload as arrays, in the order of the columns of a schema.

    Nobody may change them: detectors get the same events again if they have to go back.
    """

    __slots__ = ("_room", "_table", "arrays", "schema")

    def __init__(
        self, ts: Ints, codes: Codes, types: tuple[str, ...], arrays: Arrays, schema: pa.Schema
    ) -> None:
        self._table: Payload | None
        super().__init__(ts, codes, types)
        self.arrays = arrays
        self.schema = schema
        self._room: tuple[_Room, int] | None = None
        """Where its columns are, and where it begins there, if there is room behind it."""
        for array in arrays.values():
            array.flags.writeable = False

    @property
    def payload(self) -> Payload | None:
        if self._table is None:
            columns = [
                pa.array(array, self.schema.field(name).type) for name, array in self.arrays.items()
            ]
            self._table = pa.Table.from_arrays(columns, schema=self.schema)
        return self._table

    @payload.setter
    def payload(self, payload: Payload | None) -> None:
        self._table = payload

    @property
    def nbytes(self) -> int:
        """How many bytes the payload takes, as arrays as well as in a table."""
        return sum(array.nbytes for array in self.arrays.values())

    def array(self, name: str) -> npt.NDArray[Any] | None:
        """A column, if there is one of this name."""
        return self.arrays.get(name)

    def numbers(self, name: str) -> npt.NDArray[Any]:
        array = self.arrays.get(name)
        return super().numbers(name) if array is None else array

    def rows(self) -> list[Event]:
        return [*map(Event, self.type_names(), self.ts.tolist(), self.dictionaries())]

    def dictionaries(self) -> list[dict[str, Any]]:
        """The payloads, one by one."""
        columns = [array.tolist() for array in self.arrays.values()]
        return [dict(zip(self.arrays, row)) for row in zip(*columns)]  # noqa: B905 - slow

    def take(self, rows: npt.NDArray[np.intp] | Ints) -> ArrayBatch:
        arrays = {name: array.take(rows) for name, array in self.arrays.items()}
        ts, codes = self.ts.take(rows), self.codes.take(rows)
        return ArrayBatch(ts, codes, self.types, arrays, self.schema)

    def part(self, start: int, stop: int) -> ArrayBatch:
        arrays = {name: array[start:stop] for name, array in self.arrays.items()}
        ts, codes = self.ts[start:stop], self.codes[start:stop]
        part = ArrayBatch(ts, codes, self.types, arrays, self.schema)
        if self._room is not None:
            room, low = self._room
            part._room = room, low + start
        return part

    def without_payload(self) -> EventBatch:
        return EventBatch(self.ts, self.codes, self.types)

    def followed_by(self, others: Sequence[ArrayBatch]) -> ArrayBatch:
        """This batch and others that have the same columns."""
        every = [self, *others]
        both = EventBatch.concat([batch.without_payload() for batch in every])
        arrays = {
            name: np.concatenate([batch.arrays[name] for batch in every]) for name in self.arrays
        }
        return ArrayBatch(both.ts, both.codes, both.types, arrays, self.schema)

    def grown_by(self, others: Sequence[ArrayBatch]) -> ArrayBatch:
        """The same, without moving the events of this batch if there is room behind them.

        For a batch that grows again and again; it may take twice the memory.
        """
        count = len(self.ts)
        total = count + sum(len(batch.ts) for batch in others)
        room, low = self._room or (None, 0)
        if room is None or room.used != low + count or low + total > len(room.columns[0]):
            mine: list[npt.NDArray[Any]] = [self.ts, self.codes, *self.arrays.values()]
            room, low = _Room([np.empty(2 * total, column.dtype) for column in mine]), 0
            for column, known in zip(room.columns, mine, strict=True):
                column[:count] = known
        at = low + count
        for batch in others:
            end, more = at + len(batch.ts), (batch.ts, batch.codes, *batch.arrays.values())
            for column, values in zip(room.columns, more, strict=True):
                column[at:end] = values
            at = end
        room.used = at
        ts, codes, *columns = [column[low:at] for column in room.columns]
        arrays = dict(zip(self.arrays, columns, strict=True))
        grown = ArrayBatch(ts, codes, self.types, arrays, self.schema)
        grown._room = room, low
        return grown

    def is_like(self, other: ArrayBatch) -> bool:
        """Whether another batch has the same columns."""
        return self.schema.equals(other.schema)


def in_arrays(batch: EventBatch) -> EventBatch:
    """The batch with its payload as arrays, if all columns are numbers without nulls.

    >>> table = pa.table({"ts": [3, 5], "type": ["A", "B"], "x": [0.5, 1.5]})
    >>> batch = in_arrays(EventBatch.from_arrow(table))
    >>> type(batch).__name__, batch.take(np.array([1])).numbers("x"), batch[1]
    ('ArrayBatch', array([1.5]), Event(type='B', ts=5, payload={'x': 1.5}))
    """
    if isinstance(batch, ArrayBatch):
        return batch
    table = batch.payload
    if not isinstance(table, pa.Table) or not table.num_columns:
        return batch
    schema = _numbers_in(table.schema)
    if schema is None:
        return batch
    arrays = {}
    for name, column in zip(schema.names, table.columns, strict=True):
        if column.null_count:
            return batch
        arrays[name] = column.to_numpy()
    return ArrayBatch(batch.ts, batch.codes, batch.types, arrays, schema)


def without_copy(batch: EventBatch, table: pa.Table) -> EventBatch | None:
    """The batch with its payload as arrays, if that is possible and takes no copy of a column."""
    if batch.head_start is not None or batch.source is not None:
        return None
    if any(column.num_chunks != 1 for column in table.columns):
        return None
    found = in_arrays(batch)
    return None if found is batch else found


@lru_cache(maxsize=256)
def _numbers_in(schema: pa.Schema) -> pa.Schema | None:
    """The schema, if all columns are numbers, and no two have the same name.

    Equal ones are the same object, so whoever plans by a schema knows it again at once.
    """
    plain = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in schema.types)
    return schema if plain and len({*schema.names}) == len(schema) else None


def concat(batches: Sequence[EventBatch], *, grows: bool = False) -> EventBatch:
    """Join batches that follow each other; every event keeps the columns that it had.

    If the result `grows` again and again, it gets room for more.
    """
    arrays = [batch for batch in batches if isinstance(batch, ArrayBatch)]
    if len(arrays) == len(batches) and all(map(arrays[0].is_like, arrays[1:])):
        first, *others = arrays
        if grows and all(batch.types == first.types for batch in others):
            return first.grown_by(others)
        return first.followed_by(others)
    return EventBatch.concat(batches, exact=True)
