"""`write`: starts a query that writes changes, and the `Run` that it answers with."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from betimes.model import BetimesError, Duration, OptionError, microseconds
from betimes.model.change import LATE, REJECTED
from betimes.spark.job import Job
from betimes.spark.query.detection import job_of, names_of
from betimes.spark.query.ending import final_changes, last_batch, plain_place
from betimes.spark.query.guard import CheckpointGuard
from betimes.spark.query.places import is_remote
from betimes.spark.query.settings import query_settings
from betimes.spark.query.sinks import (
    FILE_FORMATS,
    CallSink,
    CurrentSink,
    FileSink,
    NoSink,
    SideSink,
    Sink,
    TableSink,
    console_sink,
)
from betimes.spark.telemetry.tally import TALLIED, Tally

_POLL = 0.2
"""Seconds between looks at a query: so long may a signal have to wait."""


LOOK = 500_000
"""Microseconds between micro-batches of a query that watches for silence."""


PACKAGES = {
    "kafka": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
    "delta": "io.delta:delta-spark_2.13:VERSION",
}
"""Where formats come from that are no part of Spark. Delta has versions of its own."""


class RunError(BetimesError, RuntimeError):
    """A query has failed: why, and what to do."""


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
    """Start a query that writes the changes of a stream, exactly once whatever happens.

    They go to files at `path` (`format` parquet, csv, json or orc), to a `table` of the catalog, to
    a function `into(changes, batch)`, or with `format="console"` to the screen; with
    `format="noop"` nowhere. `current` keeps the table as it stands at another path; `late` and
    `rejected` are paths for rows of these types. `checkpoint` is where the query keeps what it
    needs to go on after a restart. It looks for new input all the time, or `every` so often, or
    with `available_now` takes what is there and ends.
    """
    job = job_of(changes)
    if job is None or not changes.isStreaming:
        raise OptionError(
            "expected the streaming DataFrame that detect() has made, got "
            + ("another one" if job is None else "one that is not a stream")
            + "; transform the events before detect(), or the changes in into="
        )
    if every is not None and available_now:
        raise OptionError("expected every= or available_now=True, got both")
    if format == "console" and is_remote(changes):
        raise OptionError(
            "format='console' would print where Spark is, not here: with Spark Connect batches are "
            "written by the server; write to a path, and read that"
        )
    names = names_of(changes)
    sinks = _sinks(names, path, format, table, into, options, console)
    if current is not None:
        sinks.append(CurrentSink(current, names))
    for type, place in ((LATE, late), (REJECTED, rejected)):
        if place is not None:
            file = FileSink(place, format if format in FILE_FORMATS else "parquet")
            sinks.append(SideSink(type, names.get("type", "type"), file))
    guard = CheckpointGuard(checkpoint, job)
    guard.acquire()
    try:
        query = _start(changes, job, guard, sinks, every, available_now)
    except BaseException:
        guard.release()
        raise
    return Run(query, changes.sparkSession, job, names, guard, sinks, ends=available_now)


def _sinks(
    names: Mapping[str, str],
    path: str | None,
    format: str,  # noqa: A002
    table: str | None,
    into: Callable[[DataFrame, int], object] | None,
    options: Mapping[str, str] | None,
    console: Console | None,
) -> list[Sink]:
    if format in ("console", "noop"):
        if path is not None or table is not None:
            raise OptionError(f"format={format!r} takes neither a path nor a table")
        first: list[Sink] = [NoSink() if format == "noop" else console_sink(names, console)]
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
    sinks: Sequence[Sink],
    every: Duration | None,
    available_now: bool,
) -> StreamingQuery:
    writer = changes.writeStream.outputMode("append").option("checkpointLocation", guard.query)
    if len(sinks) == 1 and isinstance(sinks[0], NoSink):
        writer = writer.format("noop")
    else:
        writer = writer.foreachBatch(lambda rows, batch: _write_all(sinks, rows, batch))
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif every is not None or job.idle:
        # Who watches for silence must look now and then, but need not do so all the time.
        look = min(job.idle * 1000 // 2, LOOK) if every is None else microseconds(every, "every")
        milliseconds = max(1, look // 1000)
        writer = writer.trigger(processingTime=f"{milliseconds} milliseconds")
    session, idle = changes.sparkSession, bool(job.idle)
    with query_settings(session, job.slots, idle=idle, narrow=job.narrow):
        return writer.start()


def _write_all(sinks: Sequence[Sink], rows: DataFrame, batch: int) -> None:
    if len(sinks) == 1:
        sinks[0].write(rows, batch)
        return
    with _kept(rows):
        for sink in sinks:
            sink.write(rows, batch)


@contextmanager
def _kept(rows: DataFrame) -> Iterator[None]:
    """Inside, rows are made once; otherwise everybody who reads them would run the engines."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


class Run:
    """A query at work. Use it in a `with` statement, or call `stop()`."""

    def __init__(
        self,
        query: StreamingQuery,
        spark: SparkSession,
        job: Job,
        names: Mapping[str, str],
        guard: CheckpointGuard,
        sinks: Sequence[Sink],
        *,
        ends: bool,
    ) -> None:
        self.query = query
        """Spark's own view of it."""
        self._spark = spark
        self._job = job
        self._names = names
        self._guard = guard
        self._sinks = sinks
        self._ends = ends

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends; whether it has. A failure is a `RunError`."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._explained():
            while not self.query.awaitTermination(_POLL):  # type: ignore[arg-type]
                if until is not None and time.monotonic() >= until:
                    return False
        return True

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in plain words why a query has failed."""
        try:
            yield
        except StreamingQueryException as error:
            self._guard.release()
            raise RunError(reason(str(error))) from error

    def stop(self) -> None:
        """Stop after the micro-batch at work; it will be gone on with after a restart."""
        self.query.stop()
        self._guard.release()

    def _take_all(self) -> None:
        """Wait until all input that is there was taken."""
        if not self._job.idle:
            self.query.processAllAvailable()
            return
        # A query that watches for silence never comes to rest: Spark would wait for ever. But a
        # micro-batch without rows says that there was nothing left.
        before = self.query.lastProgress
        known = -1 if before is None else before.batchId
        while self.query.isActive:
            now = self.query.lastProgress
            if now is not None and now.batchId > known and now.numInputRows == 0:
                return
            time.sleep(_POLL)

    def finish(self, *, advance: bool = True) -> Tally:
        """The end of the stream: stop, let everything settle, and write what that changes.

        Time runs out: open windows close, and what did not happen is reported. With
        `advance=False` it stays at the last event. The checkpoint is closed with it: no run can
        go on from there. The answer says how many changes of which kind the end has brought.
        """
        if not self._ends:
            with self._explained():
                self._take_all()
            self.query.stop()
        self.wait()
        with plain_place(self._guard.query) as query:
            batch = last_batch(self._spark, query)
            rows = final_changes(self._spark, self._job, query, batch, advance=advance)
            renamed = rows.withColumnsRenamed(dict(self._names)) if self._names else rows
            with _kept(rows):
                _write_all(self._sinks, renamed, batch + 1)
                told = Tally.of(rows.select(*TALLIED).toArrow())
        self._guard.mark_ended(batch + 1)
        self._guard.release()
        return told

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def reason(text: str) -> str:
    """What a failed query says, in words that help."""
    if "No space left on device" in text:
        return (
            "the disk is full: a batch could not be stored. Free space and start again: the run "
            "goes on from the last batch that was complete"
        )
    missing = re.search(r"[Ff]ailed to find (?:the )?data source: (\w+)", text)
    if missing is not None:
        return _missing_package(missing[1])
    if "CONCURRENT" in text and "LOG" in text:
        return "another run is at work on the same checkpoint; stop one of them"
    # An error of betimes may have several lines; Spark adds its own behind it.
    own = re.findall(r"^betimes\.[\w.]+: (.+(?:\n(?!\s*$|\s+at |=== ).+)*)", text, re.M)
    if own:
        return str(own[-1]).partition(" SQLSTATE:")[0].strip()
    lines = [line for line in text.splitlines() if re.match(r"^[\w.]+(Error|Exception): ", line)]
    return lines[-1] if lines else text


def _missing_package(format: str) -> str:  # noqa: A002
    """What to do where Spark does not know a format."""
    package = PACKAGES.get(format)
    if package is None:
        return f"Spark does not know the format {format!r}; add the package that brings it"
    return (
        f"Spark does not know the format {format!r}: it is in a package that Spark must be given. "
        f'Set "spark.jars.packages" = "{package}" where the session is made ([engine.config] of a '
        f"job file), or start with spark-submit --packages {package}"
    )
