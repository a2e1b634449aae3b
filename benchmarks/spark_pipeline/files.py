"""The stream as Parquet files, one per micro-batch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from betimes.testing import sensor_stream

NAMES = {"ball": "X", "near": "A", "not_near": "B", "hit": "C"}
SCHEMA = "ts long, type string, key long, seq long"


def write_stream(
    folder: Path, events: int, rows: int, keys: int, *, before: pa.Table | None = None
) -> Path:
    """Files of `rows` rows each; `before` comes first, in one file. Files that exist are kept."""
    if folder.exists():
        return folder
    folder.mkdir()
    stream = sensor_stream(events, seed=1)
    types = pa.array([NAMES[type] for type in stream.types]).take(stream.codes)
    of_keys = pa.array(np.random.default_rng(2).integers(0, keys, events))
    arrivals = pa.array(np.arange(events))
    columns: list[pa.Array[Any]] = [pa.array(stream.ts), types, of_keys, arrivals]
    table = pa.Table.from_arrays(columns, ["ts", "type", "key", "seq"])
    parts = [table.slice(low, rows) for low in range(0, events, rows)]
    if before is not None:
        after = len(before)
        for column in ("ts", "seq"):
            place = table.column_names.index(column)
            moved = pc.add(table[column], after)
            table = table.set_column(place, column, moved)
        parts = [before, *(table.slice(low, rows) for low in range(0, events, rows))]
    for number, part in enumerate(parts):
        # Spark takes files by their age, and equally old ones in any order.
        path = folder / f"{number:06}.parquet"
        pq.write_table(part, path)
        os.utime(path, (1_000_000_000 + number,) * 2)
    return folder
