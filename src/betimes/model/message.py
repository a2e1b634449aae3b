"""Tables of few rows, written as messages in the format in which Arrow streams tables.

For every column, Arrow makes something that builds it, which takes longer than everything else
about a few rows. To read a message takes none of that: it is a header, which says where in the body
each column is, and the body, which Arrow then uses as it is. The header depends on the number of
rows and on the room for text, which is rounded up, so that few headers are needed. Arrow itself
writes the first message of each kind, with sample rows. If we do not write the same, because
another version of Arrow arranges the body in another way, no messages are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

import pyarrow as pa

MOST = 63
"""A table has at most so many rows: a column of booleans is one word."""
_MOST_TEXT = 1 << 16
"""A column of text has at most so many bytes: samples are as long."""
_MOST_KINDS = 512
"""Of this many kinds, headers are kept."""

_BOOL, _TEXT = pa.bool_(), pa.string()
_FORMATS: dict[Any, str] = {
    pa.int64(): "{n}q", pa.float64(): "{n}d", _BOOL: "Q", _TEXT: "{ends}i{gap}x{room}s",
}  # fmt: skip
"""How columns are written: text as the places where each begins or ends, and then all of it."""
_SAMPLES: dict[pa.DataType, Any] = {pa.int64(): 1, pa.float64(): 0.5, _BOOL: True}


class _Kind(NamedTuple):
    """What tables have in common that have as many rows, and as much room for text."""

    header: bytes
    pack: Callable[..., bytes]


class Messages:
    """Writes tables with one schema, whose columns are 64-bit numbers, booleans and text.

    One of the columns may be a struct. Where columns are listed, its fields are side by side.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        # Arrow makes a new object of a type whenever it is asked for one.
        known: dict[Any, pa.DataType] = {type: type for type in _FORMATS}
        self._types = [known[each.type] for field in schema for each in _fields_of(field)]
        self._kinds: dict[tuple[int, ...], _Kind | None] = {}

    def table(self, columns: Sequence[Sequence[Any]]) -> pa.Table | None:
        """A table of Python's numbers and text; None if it cannot be written."""
        values: list[Any] = []
        try:
            rooms = self._spread(columns, values)
            key = (len(columns[0]), *rooms)
            kind = self._kinds[key] if key in self._kinds else self._make(key)
            if kind is None:
                return None
            message: Any = kind.header + kind.pack(*values)
        except (StructError, UnicodeEncodeError):  # a number too large, half of a surrogate pair
            return None
        return pa.Table.from_batches([pa.ipc.read_record_batch(message, self._schema)])

    def _spread(self, columns: Sequence[Sequence[Any]], values: list[Any]) -> list[int]:
        """Append what the body consists of to `values`; return the room for each text."""
        rooms = []
        for column, type in zip(columns, self._types, strict=True):
            if type is _TEXT:
                data = "".join(column).encode()
                texts = column if data.isascii() else [each.encode() for each in column]
                rooms.append(max(8, 1 << (len(data) - 1).bit_length()))
                values += accumulate(map(len, texts), initial=0)
                values.append(data)
            elif type is _BOOL:
                values.append(sum(value << row for row, value in enumerate(column)))
            else:
                values += column
        return rooms

    def _make(self, key: tuple[int, ...]) -> _Kind | None:
        """A kind of tables, unless Arrow writes them in another way."""
        count, *rooms = key
        if count > MOST or max(rooms, default=0) > _MOST_TEXT:
            return None
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        room = iter(rooms)
        samples = [_sample(type, count, room) for type in self._types]
        message = self._sample(samples)
        body: Any = pa.ipc.read_message(message).body
        body = body.to_pybytes()
        room, ends = iter(rooms), count + 1
        formats = [
            _FORMATS[type].format(
                n=count, ends=ends, gap=ends % 2 * 4, room=next(room) if type is _TEXT else 0
            )
            for type in self._types
        ]
        kind = _Kind(message.to_pybytes()[: -len(body)], Struct("<" + "".join(formats)).pack)
        values: list[Any] = []
        self._spread(samples, values)
        self._kinds[key] = found = kind if kind.pack(*values) == body else None
        return found

    def _sample(self, columns: list[list[Any]]) -> pa.Buffer:
        """The message that Arrow makes of these columns."""
        each = iter(columns)
        arrays: list[Any] = []
        for field in self._schema:
            made: Any = [pa.array(next(each), part.type) for part in _fields_of(field)]
            if pa.types.is_struct(field.type):
                made = [pa.StructArray.from_arrays(made, fields=[*field.type])]
            arrays += made
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema).serialize()


def _fields_of(field: pa.Field[Any]) -> list[pa.Field[Any]]:
    """The fields of a struct, or the field itself."""
    return [*field.type] if pa.types.is_struct(field.type) else [field]


def _sample(type: pa.DataType, count: int, rooms: Iterator[int]) -> list[Any]:
    if type is _TEXT:
        return ["-" * next(rooms)] + [""] * (count - 1)
    return [_SAMPLES[type]] * count
