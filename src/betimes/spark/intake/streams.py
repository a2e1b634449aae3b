"""Tables as bytes, in Arrow's stream format.

Idle events are most of a stream, and they travel only in case the clock is in doubt: they are made
always and read hardly ever. To compress their times and numbers as they are would cost more than
everything else that is done to them. So such tables are *folded*: each column of whole numbers is
stored as the steps from one to the next, in as few bytes as the largest step needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from betimes.model.sifting import in_one

COMPRESSION = "zstd"
"""A quarter of the bytes for a few milliseconds; they are shuffled once and stored twice."""

_FIRST = b"betimes.first"
"""In the metadata of a column that is stored as steps: the number that they begin with."""

_WIDTHS = (np.int8, np.int16, np.int32)


def as_stream(rows: pa.Table, compression: Any = None) -> bytes:
    """A table as bytes, made by one thread: Spark keeps a worker busy for each core."""
    sink = pa.BufferOutputStream()
    rows = rows.combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def folded(rows: pa.Table) -> bytes:
    """A table as bytes that are few and soon made; `unfolded` reads them."""
    for place, field in enumerate(rows.schema):
        column = rows.column(place)
        if not pa.types.is_int64(field.type) or column.null_count or not len(column):
            continue
        values = in_one(column).to_numpy()
        steps = np.diff(values, prepend=values[0])  # if one overflows, so does the way back
        low, high = steps.min(), steps.max()
        for width in _WIDTHS:
            if np.iinfo(width).min <= low and high <= np.iinfo(width).max:
                small: pa.Array[Any] = pa.array(steps.astype(width))
                stored = field.with_type(small.type).with_metadata({_FIRST: str(values[0])})
                rows = rows.set_column(place, stored, small)
                break
    return as_stream(rows, COMPRESSION)


def unfolded(data: bytes) -> pa.Table:
    """The table that was folded.

    >>> rows = pa.table({"ts": [1_000_007, 1_000_000], "type": ["A", "B"]})
    >>> unfolded(folded(rows)).equals(rows)
    True
    """
    rows = pa.ipc.open_stream(data).read_all()
    for place, field in enumerate(rows.schema):
        if field.metadata and _FIRST in field.metadata:
            steps = in_one(rows.column(place)).to_numpy()
            values = int(field.metadata[_FIRST]) + np.cumsum(steps, dtype=np.int64)
            rows = rows.set_column(place, pa.field(field.name, pa.int64()), pa.array(values))
    return rows
