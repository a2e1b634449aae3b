"""The end of a stream: one more pass, over the state that the query has left.

A streaming query does not know that its input has ended, so the end is not one of its
micro-batches. Instead its state is read from the checkpoint, engines are rebuilt from it as after a
restart, and what they return from `finish()` is written as the batch after the last. The state
itself is not changed.

Of the three things that are stored per slot (see `betimes.host.log`), the log and its volumes are
enough to rebuild an engine. Spark reads each of them by itself, so a shuffle brings them together.
The head says whose state it is; it is read only where nothing else says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from betimes.host.log import read_head
from betimes.model.volumes import name_of
from betimes.spark.intake.routing import ROUTE, slot_of
from betimes.spark.job import Job
from betimes.spark.query.places import is_plain, local_path
from betimes.spark.slots.chain import LiveMerger
from betimes.spark.slots.live import LiveEngine
from betimes.spark.slots.operator import HEAD, LOG, VOLUMES
from betimes.spark.slots.rows import change_schema

LAST = {False: LiveEngine, True: LiveMerger}
"""What is at the end of a chain, or alone."""

_FIELDS = {HEAD: "value.note", LOG: "list_element.entry", VOLUMES: "user_map_value.volume"}


@contextmanager
def plain_place(query: str) -> Iterator[str]:
    """The checkpoint of a query under a name that Spark's state reader accepts.

    The reader escapes spaces and the like as in a URL, and then looks for a folder with the escaped
    name. A folder on this machine therefore gets a second, plain name for a while.
    """
    folder = local_path(query)
    if folder is None or is_plain(query):
        yield query
        return
    with tempfile.TemporaryDirectory(prefix="betimes-") as room:
        link = Path(room, "query")
        link.symlink_to(folder.absolute())
        yield str(link)


def last_batch(spark: SparkSession, query: str) -> int:
    """The number of the last batch that a query committed."""
    folder = local_path(query)
    commits = [] if folder is None else [int(f.name) for f in (folder / "commits").glob("[0-9]*")]
    if commits:
        return max(commits)
    # Elsewhere, or on the machine of a Spark Connect server.
    metadata = spark.read.format("state-metadata").load(query)
    return max(int(row.maxBatchId) for row in metadata.select("maxBatchId").collect())


def final_changes(
    spark: SparkSession, job: Job, query: str, batch: int, *, advance: bool
) -> DataFrame:
    """What changes when the stream ends after a batch; with `advance`, open windows close."""
    if local_path(query) is None:  # on this machine, the guard has checked it
        for row in _stored(spark, query, HEAD, batch).collect():
            read_head(job.identity, bytes(row.data))

    def finish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for route, log, volumes in _by_route(batches):
            live = LAST[bool(job.chained)](job, slot_of(route, job.partitions))
            live.rebuild(log, volumes={name_of(volume): volume for volume in volumes}.get)
            yield from live.finish(advance=advance).to_batches()

    log, volumes = (
        _stored(spark, query, name, batch).withColumn("is_log", F.lit(name == LOG))
        for name in (LOG, VOLUMES)
    )
    both = log.unionAll(volumes).repartition(ROUTE).sortWithinPartitions(ROUTE)
    return both.mapInArrow(finish, change_schema())


def _stored(spark: SparkSession, query: str, name: str, batch: int) -> DataFrame:
    # Spark numbers stateful operators from the top of the plan. Users may have some below ours, but
    # none above it (see `steps`), so ours is number 0, which the reader takes by default.
    state = spark.read.format("statestore").option("path", query).option("batchId", batch)
    rows = state.option("stateVarName", name).load()
    return rows.select(F.col(f"key.{ROUTE}"), F.col(_FIELDS[name]).alias("data"))


def _by_route(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
    """The log of each slot, and its volumes."""
    rows = (
        zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch in batches
    )
    for route, entries in groupby(chain.from_iterable(rows), key=itemgetter(0)):
        found: dict[bool, list[bytes]] = {True: [], False: []}
        for _, data, is_log in entries:
            found[is_log].append(data)
        yield route, found[True], found[False]
