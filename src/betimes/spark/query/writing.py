"""`write`: starts a query that writes changes to sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from betimes.model import Duration, OptionError, microseconds
from betimes.model.change import LATE, REJECTED
from betimes.model.hints import known_options
from betimes.spark.intake.scouting import FOLDER
from betimes.spark.job import Job
from betimes.spark.query.current import CurrentSink
from betimes.spark.query.guard import CheckpointGuard
from betimes.spark.query.origin import Origin, names_of, origin_of, published, require
from betimes.spark.query.places import is_remote
from betimes.spark.query.run import Run
from betimes.spark.query.screen import SHOWN
from betimes.spark.query.settings import query_settings
from betimes.spark.query.sinks import (
    FILE_FORMATS,
    CallSink,
    FileSink,
    FrameSink,
    NoSink,
    SideSink,
    TableSink,
    console_sink,
    write_all,
)
from betimes.spark.telemetry.load import TriggerLoad

LOOK = 500_000
"""Microseconds between the micro-batches of a query that has to notice silence."""


@known_options
def write(
    changes: DataFrame,
    path: str | None = None,
    *,
    checkpoint: str,
    format: str = "parquet",  # noqa: A002
    table: str | None = None,
    into: Callable[[DataFrame, int], object] | None = None,
    current: str | None = None,
    late: str | None = None,
    rejected: str | None = None,
    every: Duration | None = None,
    available_now: bool = False,
    options: Mapping[str, str] | None = None,
    console: Console | None = None,
) -> Run:
    """Start a query that writes a stream of changes exactly once, whatever happens.

    You can filter, select, rename, and join the changes with tables before you write them. Keep at
    least one column of `detect` as it is, such as `match_id`: it tells `write` which job made them.

    Say where the changes go, with one of `path`, `table`, `into`, or a `format` that needs none:

    Parameters:
        changes: What `detect` made of a stream.
        path: A folder for files.
        checkpoint: A folder for what the query needs to resume after a restart.
        format: Of the files: "parquet", "csv", "json" or "orc". "console" shows the changes on the
            screen, "noop" writes them nowhere.
        table: A table of the catalog.
        into: A function `into(changes, batch)`. It is called again with the same batch number and
            the same rows if a batch was interrupted.
        current: A folder for the table as it stands; read it with `current`.
        late: A folder for events that came too late.
        rejected: A folder for rows that are not events.
        every: Time between micro-batches; without it, the next starts when the last has ended.
        available_now: Take the input that is there now, then end.
        options: Options of Spark's writer of files.
        console: Where `format="console"` prints.
    """
    origin = _check(changes, format, every, available_now)
    names = names_of(changes)
    sinks = _sinks(names, path, format, table, into, options, console)
    if current is not None:
        require(names, CurrentSink.NEEDS, "current=")
        sinks.append(CurrentSink(current, names))
    for type, place in ((LATE, late), (REJECTED, rejected)):
        if place is not None:
            require(names, ["type"], f"{type}=")
            file = FileSink(place, format if format in FILE_FORMATS else "parquet")
            sinks.append(SideSink(type, names["type"], file))
    guard = CheckpointGuard(checkpoint, origin.job)
    guard.acquire()
    try:
        for sink in sinks:
            if sink.folder is not None:
                guard.hold(sink.folder)
        query = _start(changes, origin.job, guard, sinks, every, available_now)
    except BaseException:
        guard.release()
        raise
    return Run(query, changes, origin, guard, sinks, ends=available_now)


def _check(
    changes: DataFrame,
    format: str,  # noqa: A002
    every: Duration | None,
    available_now: bool,
) -> Origin:
    """Refuse what cannot be written; otherwise, where the changes come from."""
    if not changes.isStreaming:
        raise OptionError(
            "expected the stream of changes that detect() makes of a stream, got a DataFrame that "
            "is not a stream; write it with changes.write, or read the events with "
            "spark.readStream"
        )
    origin = origin_of(changes)
    if origin is None:
        raise OptionError(
            "expected a stream of changes that detect() has made, got one with the columns "
            f"{changes.columns}, none of which comes from detect() as it was; keep at least one "
            "of its columns when you transform the changes, such as match_id (you can rename it)"
        )
    if every is not None and available_now:
        raise OptionError("expected every= or available_now=True, got both")
    if format == "console" and is_remote(changes):
        raise OptionError(
            "format='console' would print where Spark is, not here: with Spark Connect the server "
            "writes the batches; write to a path, and read from there"
        )
    return origin


def _sinks(
    names: Mapping[str, str],
    path: str | None,
    format: str,  # noqa: A002
    table: str | None,
    into: Callable[[DataFrame, int], object] | None,
    options: Mapping[str, str] | None,
    console: Console | None,
) -> list[FrameSink]:
    if format in ("console", "noop"):
        if path is not None or table is not None:
            raise OptionError(f"format={format!r} takes neither a path nor a table")
        if format == "console":
            require(names, SHOWN, "format='console'")
        first: list[FrameSink] = [NoSink() if format == "noop" else console_sink(names, console)]
        return [*first, CallSink(into)] if into is not None else first
    given = [path is not None, table is not None, into is not None]
    if sum(given) != 1:
        raise OptionError(
            "expected one place for the changes: a path, a table=, a function into=, or "
            f"format='console', got path={path!r}, table={table!r}, into={into!r}"
        )
    if path is not None:
        return [FileSink(path, format, dict(options or {}))]
    return [TableSink(table)] if table is not None else [CallSink(into)] if into else []


def _start(
    changes: DataFrame,
    job: Job,
    guard: CheckpointGuard,
    sinks: Sequence[FrameSink],
    every: Duration | None,
    available_now: bool,
) -> StreamingQuery:
    rows = published(changes, changes)
    # A query that has to notice silence must look now and then, but not all the time.
    look = min(job.idle * 1000 // 2, LOOK) if every is None else microseconds(every, "every")
    load = TriggerLoad(every=look / 1e6)
    tells = job.adaptive and not is_remote(changes)

    def take(rows: DataFrame, batch: int) -> None:
        if tells:
            load.tell(rows.sparkSession)
        write_all(sinks, rows, batch)

    writer = rows.writeStream.outputMode("append").option("checkpointLocation", guard.query)
    if len(sinks) == 1 and isinstance(sinks[0], NoSink):
        writer = writer.format("noop")
    else:
        writer = writer.foreachBatch(take)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif every is not None or job.idle:
        milliseconds = max(1, look // 1000)
        writer = writer.trigger(processingTime=f"{milliseconds} milliseconds")
    session, idle = changes.sparkSession, bool(job.idle)
    place = f"{guard.place}/{FOLDER}" if job.scouted and not is_remote(changes) else ""
    with query_settings(session, job.partitions, idle=idle, narrow=job.narrow, published=place):
        query = writer.start()
    if tells:
        load.query = query
    return query
