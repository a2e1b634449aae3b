"""Where changes go, so that a restart does not show.

A micro-batch that was interrupted runs again after a restart, with the same number and the same
rows. Every sink is therefore given the number, and what it writes replaces whatever an earlier
attempt left under that number: no row is lost, and none is there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from betimes.model import OptionError
from betimes.spark.query.screen import Screen

BATCH = "batch"
"""The column, or the part of a folder's name, with the number of the micro-batch."""

FILE_FORMATS = ("parquet", "csv", "json", "orc")

_CSV = {"header": "true", "escape": '"'}
"""CSV as most tools read it: names in the first line, quotes doubled."""


class FrameSink(Protocol):
    """Takes the rows of a micro-batch, perhaps more than once."""

    @property
    def folder(self) -> str | None:
        """The folder that it fills, which then belongs to one checkpoint."""
        ...

    def write(self, changes: DataFrame, batch: int) -> None: ...


@dataclass(frozen=True)
class FileSink:
    """Files in a folder `batch=N` for each micro-batch."""

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FILE_FORMATS:
            raise OptionError(
                f"expected format to be one of {FILE_FORMATS} for a path, got "
                f"format={self.format!r}; for other formats, give a table= or a function into="
            )

    def write(self, changes: DataFrame, batch: int) -> None:
        options = _CSV | dict(self.options) if self.format == "csv" else self.options
        writer = changes.write.format(self.format).options(**options)
        writer.mode("overwrite").save(f"{self.path}/{BATCH}={batch}")

    @property
    def folder(self) -> str:
        return self.path


@dataclass(frozen=True)
class TableSink:
    """A table of the catalog, partitioned by a column `batch`."""

    name: str
    folder = None

    def write(self, changes: DataFrame, batch: int) -> None:
        rows = changes.withColumn(BATCH, F.lit(batch).cast("long"))
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        if rows.sparkSession.catalog.tableExists(self.name):
            writer.insertInto(self.name, overwrite=True)
        else:
            writer.partitionBy(BATCH).saveAsTable(self.name)


@dataclass(frozen=True)
class CallSink:
    """A function of the rows and the batch number; it must cope with getting a batch again."""

    function: Callable[[DataFrame, int], object]
    folder = None

    def write(self, changes: DataFrame, batch: int) -> None:
        self.function(changes, batch)


@dataclass(frozen=True)
class SideSink:
    """The rows of one type, such as `late` or `rejected`, go to another sink."""

    type: str
    column: str
    sink: FrameSink

    def write(self, changes: DataFrame, batch: int) -> None:
        self.sink.write(changes.filter(F.col(self.column) == self.type), batch)

    @property
    def folder(self) -> str | None:
        return self.sink.folder


@dataclass(frozen=True)
class NoSink:
    """Writes nowhere; for measurements."""

    folder = None

    def write(self, changes: DataFrame, batch: int) -> None:
        del batch
        changes.write.format("noop").mode("overwrite").save()


def console_sink(names: Mapping[str, str], console: Console | None = None) -> CallSink:
    """A live table for people."""
    return CallSink(Screen(names, console or Console()).show)


def write_all(sinks: Sequence[FrameSink], rows: DataFrame, batch: int) -> None:
    """Write the rows of a micro-batch to each sink."""
    if len(sinks) == 1:
        sinks[0].write(rows, batch)
        return
    with kept(rows):
        for sink in sinks:
            sink.write(rows, batch)


@contextmanager
def kept(rows: DataFrame) -> Iterator[None]:
    """Inside, rows are made once; otherwise everything that reads them would run the engines."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()
