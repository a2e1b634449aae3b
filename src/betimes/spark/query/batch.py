"""A DataFrame that is not a stream: one pass, including the end, and no state is left behind.

Rows are brought to their slots and sorted by arrival there. An engine takes them in pieces, so only
one piece of the input is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from betimes.host import Host
from betimes.spark.job import ROW_SLOT, Job
from betimes.spark.slots.rows import change_schema

POSITION = "_betimes_position"
ROWS_PER_FEED = 100_000


def detect_batch(rows: DataFrame, job: Job) -> DataFrame:
    """All changes of a stream that has ended."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in run_slots(job, batches):
            yield from changes.to_batches()

    return in_slots(rows, job).mapInArrow(run, change_schema())


def in_slots(rows: DataFrame, job: Job) -> DataFrame:
    """The rows slot by slot, each slot in order of arrival."""
    if ROW_SLOT not in rows.columns:
        rows = rows.withColumn(ROW_SLOT, F.lit(0))
    position = (
        F.col(job.columns.arrival) if job.columns.arrival else F.monotonically_increasing_id()
    )
    placed = rows.withColumn(POSITION, position).repartition(job.slots, F.col(ROW_SLOT))
    return placed.sortWithinPartitions(ROW_SLOT, POSITION).drop(POSITION)


def run_slots(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Feed rows that come slot by slot, each slot in order of arrival."""
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
