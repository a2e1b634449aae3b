"""Before the shuffle: the rows of a slot become one Arrow stream in one binary value.

Spark moves rows, and its stateful operators hand them to Python one by one. So the rows of a
partition are packed, slot by slot, into Arrow streams of up to 50,000 rows. These streams are what
is shuffled, stored in the log and fed to an engine; nothing looks at single rows. Each stream
carries its partition and its number there, which give the order of arrival if no column does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from betimes.spark.intake.routing import ROUTE, routes
from betimes.spark.intake.scouting import Scout
from betimes.spark.intake.streams import COMPRESSION, as_stream, folded, unfolded
from betimes.spark.intake.thinning import IDLE, NONE_YET, Packed, Thinner, set_aside, whole
from betimes.spark.job import ROW_SLOT, Job

STREAM = "stream"
PACKED = f"{ROUTE} int, {STREAM} binary"
"""The schema of packed rows: the route of their slot, and a `Packed` as bytes. The operator pays
for each column, so it is one."""

ROWS_PER_STREAM = 50_000


def packer(job: Job) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: takes rows with their slot, gives packed rows."""
    route_of = routes(job.partitions)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        thinner, scout = Thinner.of(job), Scout(job)
        number = seen = 0
        for table in _collected(batches):
            seen += len(table)
            for slot, rows in split(_marked(table, thinner), job.slots):
                highest = NONE_YET if thinner is None else thinner.highest(slot)
                named = with_names(rows, job)
                streams, foreseen = _streams(named), scout.run(named)
                packed = Packed(part, number, seen, highest, *streams, foreseen)
                yield _row(route_of[slot], packed)
                number += 1
                seen = 0

    return pack


def with_names(rows: pa.Table, job: Job) -> pa.Table:
    """The rows with the names of types instead of their numbers."""
    if job.numbered is None:
        return rows
    place = rows.column_names.index(job.columns.type)
    numbers: Any = rows.column(place).combine_chunks()
    names: Any = pa.DictionaryArray.from_arrays(numbers, pa.array(job.numbered))
    return rows.set_column(place, job.columns.type, names)


def _marked(rows: pa.Table, thinner: Thinner | None) -> pa.Table:
    """The rows, with a mark on those that need not be fed, if there are any."""
    idle = None if thinner is None else thinner.idle(rows)
    return rows if idle is None else rows.append_column(IDLE, pa.array(idle))


def _streams(rows: pa.Table) -> tuple[bytes, bytes]:
    """The rows as bytes, and separately those that were marked."""
    if IDLE not in rows.column_names:
        return as_stream(rows, COMPRESSION), b""
    idle = rows[IDLE].to_numpy()
    events, spare = set_aside(rows.drop_columns([IDLE]), idle)
    return as_stream(events, COMPRESSION), folded(spare) if len(spare) else b""


def put_back(events: bytes, spare: bytes) -> bytes:
    """The stream as it would be if no rows had been set aside."""
    rows = pa.ipc.open_stream(events).read_all()
    return as_stream(whole(rows, unfolded(spare)), COMPRESSION)


def _collected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches combined into tables that are worth a stream."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_STREAM:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def split(table: pa.Table, slots: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each slot, in order, without the column of the slot."""
    if slots == 1:
        yield 0, table
        return
    where = table[ROW_SLOT].to_numpy()
    rows = table.drop_columns([ROW_SLOT])
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(slots + 1))
    gathered = rows.take(order)
    for slot in range(slots):
        if ends[slot] < ends[slot + 1]:
            yield slot, gathered.slice(ends[slot], ends[slot + 1] - ends[slot])


def _row(route: int, packed: Packed) -> pa.RecordBatch:
    data = msgspec.msgpack.encode(packed)
    columns: list[Any] = [pa.array([route], pa.int32()), pa.array([data], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[ROUTE, STREAM])


def in_order(rows: Iterable[bytes]) -> list[Packed]:
    """Packed rows of a slot, in order of arrival."""
    packed = [msgspec.msgpack.decode(row, type=Packed) for row in rows]
    return sorted(packed, key=lambda each: (each.part, each.number))
