"""Tables at the edges: input that an engine can store, and changes for readers of final rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def plain(table: pa.Table) -> pa.Table:
    """The same columns as plain data that an engine can store.

    Timestamps become microseconds, as everywhere in betimes. Dates and decimals become text.

    >>> plain(pa.table({"at": pa.array([1500], pa.timestamp("ms"))})).to_pydict()
    {'at': [1500000]}
    """
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
