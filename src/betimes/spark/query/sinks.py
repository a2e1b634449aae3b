"""Where changes go, so that a restart does not show.

A micro-batch that was interrupted is run again after a restart, with the same number and the same
rows. Every sink here is therefore told the number and writes *what belongs to it*, in place of
whatever an earlier attempt left: nothing is lost, nothing is there twice.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from betimes.model import OptionError
from betimes.spark.query.folding import merged
from betimes.spark.query.places import local_path, subfolders

BATCH = "batch"
"""The column, or the part of a folder's name, that has the number of the micro-batch."""

FILE_FORMATS = ("parquet", "csv", "json", "orc")

_CSV = {"header": "true", "escape": '"'}
"""As everybody else writes and reads it: names in the first line, quotes doubled."""


class Sink(Protocol):
    """Something that takes the rows of a micro-batch, once or again."""

    def write(self, changes: DataFrame, batch: int) -> None: ...


@dataclass(frozen=True)
class FileSink:
    """A folder of files, with a folder `batch=N` in it for each micro-batch."""

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FILE_FORMATS:
            raise OptionError(
                f"expected format to be one of {FILE_FORMATS} for a path, got "
                f"format={self.format!r}; for other formats give a table= or a function into="
            )

    def write(self, changes: DataFrame, batch: int) -> None:
        options = _CSV | dict(self.options) if self.format == "csv" else self.options
        writer = changes.write.format(self.format).options(**options)
        writer.mode("overwrite").save(f"{self.path}/{BATCH}={batch}")


@dataclass(frozen=True)
class TableSink:
    """A table of the catalog, partitioned by a column `batch`."""

    name: str

    def write(self, changes: DataFrame, batch: int) -> None:
        rows = changes.withColumn(BATCH, F.lit(batch).cast("long"))
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        if rows.sparkSession.catalog.tableExists(self.name):
            writer.insertInto(self.name, overwrite=True)
        else:
            writer.partitionBy(BATCH).saveAsTable(self.name)


@dataclass(frozen=True)
class CallSink:
    """A function of the rows and the number of the micro-batch; it must be able to write again."""

    function: Callable[[DataFrame, int], object]

    def write(self, changes: DataFrame, batch: int) -> None:
        self.function(changes, batch)


@dataclass(frozen=True)
class CurrentSink:
    """The result as it stands: a table that every micro-batch is merged into, by `match_id`.

    Each micro-batch writes the whole table anew, beside the one before, which stays until the next
    micro-batch: a reader never meets a table that is half written.
    """

    path: str
    names: Mapping[str, str]

    def write(self, changes: DataFrame, batch: int) -> None:
        spark = changes.sparkSession
        versions = sorted(n for n in subfolders(spark, self.path, BATCH) if n < batch)
        before = None
        if versions:
            before = spark.read.parquet(f"{self.path}/{BATCH}={versions[-1]}")
        table = merged(before, changes, self.names)
        table.coalesce(1).write.mode("overwrite").parquet(f"{self.path}/{BATCH}={batch}")
        for version in versions[:-1]:
            folder = local_path(f"{self.path}/{BATCH}={version}")
            if folder is not None:
                shutil.rmtree(folder)


@dataclass(frozen=True)
class SideSink:
    """The rows of one type, such as `late` or `rejected`, for a sink of their own."""

    type: str
    column: str
    sink: Sink

    def write(self, changes: DataFrame, batch: int) -> None:
        self.sink.write(changes.filter(F.col(self.column) == self.type), batch)


@dataclass(frozen=True)
class NoSink:
    """Nowhere; for measuring."""

    def write(self, changes: DataFrame, batch: int) -> None:
        del batch
        changes.write.format("noop").mode("overwrite").save()


def console_sink(names: Mapping[str, str], console: Console | None = None) -> CallSink:
    """A live table for people."""
    from betimes.spark.query.screen import Screen

    return CallSink(Screen(names, console or Console()).show)


def newest_current(path: str) -> str:
    """The newest complete version of a table that a `CurrentSink` keeps."""
    root = Path(path)
    complete = [int(f.parent.name.partition("=")[2]) for f in root.glob(f"{BATCH}=*/_SUCCESS")]
    if not complete:
        raise FileNotFoundError(f"expected a table that write(current=...) keeps in {path!r}")
    return str(root / f"{BATCH}={max(complete)}")
