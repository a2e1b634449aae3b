"""A DataFrame that is not a stream: one pass, including the end, and no state is left behind.

A DataFrame is complete, and its rows have no order that means anything, so they are brought to
their slots and sorted by time there, unless a column says in which order they arrived. An engine
takes them in pieces, so only one piece of the input is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, FractionalType, LongType, NullType, StringType, StructType

from betimes.host import Host
from betimes.model import times
from betimes.model.texts import comparable
from betimes.spark.intake.selection import quoted
from betimes.spark.job import ROW_SLOT, Job
from betimes.spark.slots.rows import change_schema

POSITION = "_betimes_position"
TIME = "_betimes_time"
TEXT = "_betimes_text_"
"""How the names of columns begin that have the text of nested ones."""
ROWS_PER_FEED = 100_000


def detect_batch(rows: DataFrame, job: Job) -> DataFrame:
    """All changes of a stream that has ended."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in run_slots(job, batches):
            yield from changes.to_batches()

    placed = in_slots(rows if job.columns.arrival else timed(rows, job), job)
    return placed.mapInArrow(run, change_schema())


def in_slots(rows: DataFrame, job: Job) -> DataFrame:
    """The rows slot by slot: in order of arrival, or of time if rows are `timed`.

    Rows of the same time are in order of type, then of the other columns, alphabetically, as in
    `betimes.detect`: where rows come from makes no difference.
    """
    if ROW_SLOT not in rows.columns:
        rows = rows.withColumn(ROW_SLOT, F.lit(0))
    arrival = job.columns.arrival
    if TIME not in rows.columns:
        position = F.col(quoted(arrival)) if arrival else F.monotonically_increasing_id()
        placed = rows.withColumn(POSITION, position).repartition(job.slots, F.col(ROW_SLOT))
        return placed.sortWithinPartitions(ROW_SLOT, POSITION).drop(POSITION)
    added = [name for name in rows.columns if name == TIME or name.startswith(TEXT)]
    others = set(rows.columns) - {*added, job.columns.type, job.columns.time}
    names = [name for name in (job.columns.type, *sorted(others)) if name in rows.columns]
    contents = [TEXT + name if TEXT + name in added else name for name in names]
    order = [F.col(quoted(name)).asc_nulls_last() for name in contents]
    floats = [name for name in names if isinstance(rows.schema[name].dataType, FractionalType)]
    order += [F.col(quoted(name)).cast("string") for name in floats]  # 0.0 and -0.0 are equal
    placed = rows.repartition(job.slots, F.col(ROW_SLOT))
    return placed.sortWithinPartitions(ROW_SLOT, TIME, *order).drop(*added)


def timed(rows: DataFrame, job: Job) -> DataFrame:
    """The rows with columns to sort by: times that are text as they are read, and nested columns,
    which Spark cannot always compare, as the text by which `betimes.detect` sorts them."""
    name = job.columns.time
    nested = [
        field.name for field in rows.schema if not isinstance(field.dataType, AtomicType | NullType)
    ]
    reads = isinstance(rows.schema[name].dataType, StringType)
    if not reads:
        rows = rows.withColumn(TIME, F.col(quoted(name)))
        if not nested:
            return rows

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if reads:
                found, _ = times.from_arrow(pa.chunked_array([batch.column(name)]), name)
                batch = batch.append_column(TIME, pa.array(found))
            for each in nested:
                batch = batch.append_column(TEXT + each, comparable(batch.column(each)))
            yield batch

    schema = StructType([*rows.schema.fields])
    schema = schema.add(TIME, LongType()) if reads else schema
    for each in nested:
        schema = schema.add(TEXT + each, StringType())
    return rows.mapInArrow(add, schema)


def run_slots(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Feed rows that come slot by slot, each slot in order."""
    for slot, mine in groupby(pieces(batches), key=itemgetter(0)):
        host = Host(job.setup, slot=slot)
        for _, rows in mine:
            yield host.feed(rows)
        yield host.finish()


def pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Tables of one slot each, large enough to be worth a call."""
    waiting: list[pa.Table] = []
    slot, rows = 0, 0
    for batch in batches:
        for its_slot, part in _runs(pa.Table.from_batches([batch])):
            if waiting and (its_slot != slot or rows >= ROWS_PER_FEED):
                yield slot, pa.concat_tables(waiting)
                waiting, rows = [], 0
            slot = its_slot
            waiting.append(part)
            rows += len(part)
    if waiting:
        yield slot, pa.concat_tables(waiting)


def _runs(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each slot in a table that is sorted by slot."""
    slots = table[ROW_SLOT].to_numpy()
    rows = table.drop_columns([ROW_SLOT])
    start = 0
    while start < len(slots):
        stop = int(slots.searchsorted(slots[start], side="right"))
        yield int(slots[start]), rows.slice(start, stop - start)
        start = stop
