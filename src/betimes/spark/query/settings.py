"""The Spark settings that this pipeline runs best with, and what each of them gains."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from betimes.model.hints import known_options
from betimes.spark.intake.scouting import PUBLISHED
from betimes.spark.query.launcher import start_unzipped
from betimes.spark.query.places import is_remote
from betimes.spark.telemetry.load import SHARING

_STATE = "spark.sql.streaming.stateStore"

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"

QUERY_SETTINGS: dict[str, str] = {
    # The operator needs it; state lives outside the JVM's heap.
    f"{_STATE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A commit uploads what changed instead of a snapshot: the largest single gain.
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # To count the rows of its state, Spark reads the old value before it writes a new one; for a
    # log, that is the whole log for each entry.
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    # No extra checksum file for each small file of a commit.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Nothing happens in a micro-batch without data, unless the query has to notice silence.
    NO_DATA: "false",
    # On a local disk, no extra checksum file for each file, and so half as many renames, each of
    # which starts a process. This does not affect other file systems.
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # Only some of Spark's operators hand this setting on to their workers, and workers that were
    # started under different settings are never shared: with it, each query starts twice as many.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Fewer, larger batches to Python.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
"""Settings of a query; `write` sets them for the query that it starts."""

SESSION_SETTINGS: dict[str, str] = {
    # Workers start with everything imported, which saves seconds in the first micro-batch.
    "spark.python.daemon.module": "betimes.spark.daemon",
    # Over TCP, handing over a few rows waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


@known_options
def session(
    name: str = "betimes",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    log: str | Path | None = None,
) -> SparkSession:
    """A session with the settings that this pipeline runs best with.

    Workers run the same Python as this process, unless `PYSPARK_PYTHON` says otherwise.

    Parameters:
        name: The name of the application.
        master: The address of the cluster, such as `"local[4]"`.
        config: More settings; they take precedence over those of betimes.
        log: A file that Spark's messages are appended to, instead of stderr, if this call starts
            Spark.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in (QUERY_SETTINGS | SESSION_SETTINGS | dict(config or {})).items():
        # Those of Hadoop would cause a warning here; `query_settings` sets them.
        if key.startswith("spark."):
            builder = builder.config(key, value)
    with nullcontext() if log is None else _stderr_to(Path(log)):
        spark = builder.getOrCreate()
    if not is_remote(spark):
        start_unzipped(spark.sparkContext)
    return spark


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Processes that are started inside write their stderr to a file.

    For each query, PySpark's stateful operator prints five lines to the stderr of its JVM, whatever
    the log level. There is no other way to get rid of them.
    """
    kept, opened = os.dup(2), os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(opened, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(opened)


@contextmanager
def query_settings(
    spark: SparkSession,
    slots: int,
    *,
    idle: bool = False,
    narrow: bool = False,
    published: str = "",
) -> Iterator[None]:
    """For a query that is started inside: the settings above, and as many partitions as slots.

    With `idle`, it also runs micro-batches when there is nothing new. With `narrow`, Spark does not
    measure the size of the batches that it hands to Python. `published` is a folder for what
    transactions that run ahead have to know. A query keeps the settings that it was
    started with; those of the session are restored.
    """
    wanted = QUERY_SETTINGS | {"spark.sql.shuffle.partitions": str(slots)}
    wanted[NO_DATA] = str(idle).lower()
    if not is_remote(spark):
        wanted[SHARING] = str(max(1.0, slots / spark.sparkContext.defaultParallelism))
    if narrow:
        # Below this limit, Spark computes the bytes of the batch after each row, which is a large
        # part of what it costs to hand a row of numbers to Python.
        wanted["spark.sql.execution.arrow.maxBytesPerBatch"] = str(2**31 - 1)
    if published:
        wanted[PUBLISHED] = published
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
