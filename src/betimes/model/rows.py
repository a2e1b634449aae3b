"""Tables at the edges: input that an engine can store, and changes for readers of final rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from betimes.model.errors import EventError


def as_arrow(frame: Any) -> pa.Table:
    """The columns of a pandas, polars or other frame."""
    try:
        table: pa.Table = pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = "; ".join(str(each) for each in error.args)
        raise EventError(
            f"expected a table whose columns have different names and one kind of value each, got "
            f"one that Arrow cannot read ({reason}); convert that column, or leave it out"
        ) from error
    return table


def decoded(table: pa.Table) -> pa.Table:
    """The same columns without encodings that Arrow can read but not join or compare.

    Columns that share a name are an error. Views become what they are views of, run ends become
    values, and dictionaries get room for those of other batches.

    >>> names = pa.array(["A", "B"]).cast(pa.string_view())
    >>> decoded(pa.table({"type": names})).schema.types
    [DataType(string)]
    """
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise EventError(
            f"expected a different name for each column, got {twice!r} twice among {names}; rename "
            "one of them, or leave it out"
        )
    for number, kind in enumerate(table.schema.types):
        if kind.id in _ENCODED:
            column = _ENCODED[kind.id](table.column(number))
            table = table.set_column(number, names[number], column)
    return table


def _with_room(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """A dictionary column whose codes do not run out when it is joined with others."""
    kind: Any = column.type
    if kind.index_type.bit_width >= _ROOM.bit_width:
        return column
    chunks: Any = column.chunks
    wide: Any = [
        pa.DictionaryArray.from_arrays(chunk.indices.cast(_ROOM), chunk.dictionary)
        for chunk in chunks
    ]
    kind = pa.dictionary(_ROOM, kind.value_type)
    joined: pa.ChunkedArray[Any] = pa.chunked_array(wide, kind)
    return joined


def _run_values(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    import pyarrow.compute as pc  # slow to load

    decode: Any = getattr(pc, "run_end_decode")  # noqa: B009 - the stubs do not know it
    values: pa.ChunkedArray[Any] = decode(column)
    return values


_ROOM = pa.int32()
_ENCODED = {
    pa.string_view().id: lambda column: column.cast(pa.string()),
    pa.binary_view().id: lambda column: column.cast(pa.binary()),
    pa.run_end_encoded(pa.int32(), pa.string()).id: _run_values,
    pa.dictionary(pa.int8(), pa.string()).id: _with_room,
}
"""How to read columns that are encoded, by the kind of their encoding."""


def plain(table: pa.Table) -> pa.Table:
    """The same columns as plain data that an engine can store.

    Timestamps become microseconds, as everywhere in betimes. Dates and decimals become text.

    >>> plain(pa.table({"at": pa.array([1500], pa.timestamp("ms"))})).to_pydict()
    {'at': [1500000]}
    """
    table = decoded(table)
    for number, field in enumerate(table.schema):
        column: pa.ChunkedArray[Any] = table.column(number)
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.timestamp("us", field.type.tz), safe=False).cast(pa.int64())
        elif pa.types.is_date(field.type) or pa.types.is_decimal(field.type):
            column = column.cast(pa.string())
        else:
            continue
        table = table.set_column(number, field.name, column)
    return table


def only_final(changes: pa.Table) -> pa.Table:
    """The rows that are never taken back, as inserts: their reader saw no provisional rows."""
    import pyarrow.compute as pc  # slow to load, and needed only for final results

    final = pc.is_in(changes["status"], pa.array(["final"]))
    stands = pc.invert(pc.is_in(changes["change_type"], pa.array(["delete"])))
    table = changes.filter(pc.and_(final, stands))
    place = table.column_names.index("change_type")
    inserted = pa.array(["insert"] * len(table), pa.string())
    return table.set_column(place, "change_type", inserted)
