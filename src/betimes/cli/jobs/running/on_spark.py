"""`kind = "spark"`: the job as a streaming query.

`betimes.spark` does the detecting and writing. This module turns a job file into a session, a
stream of rows, and calls of `detect` and `write`. It only uses methods of those objects and does
not import pyspark, so that local jobs never wait for it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow.parquet as pq
from rich.console import Console

from betimes.cli.jobs.io.files import FileSource, dataset
from betimes.cli.jobs.io.sources import SimulatedSource
from betimes.cli.jobs.jobfile.hierarchies import importing_from
from betimes.cli.jobs.jobfile.tables import ARRIVAL, FILES, PARTITION, JobFile
from betimes.cli.jobs.running.local import Outcome
from betimes.cli.jobs.running.progress import Progress, Reading
from betimes.cli.jobs.running.stopping import Stop
from betimes.cli.jobs.running.totals import Totals
from betimes.cli.speaking import say, shown
from betimes.engine import Hierarchy
from betimes.host.folder import CheckpointFolder, LockedFolder, SinkFolder, batches_in
from betimes.host.tally import TALLIED, Tally
from betimes.model import times

if TYPE_CHECKING:
    from betimes.spark import Run, Statistics

_LOOK = 0.5
"""Seconds between two checks of a query."""
_SAMPLE = 64 * 1024
"""Bytes of a text file from which the length of its lines is estimated."""
_CSV = {"header": "true", "escape": '"'}
"""CSV as most tools write and read it: names in the first line, quotes doubled."""


_ORIGIN = {PARTITION: "partition", ARRIVAL: "unix_millis(timestamp) * 65536 + partition"}
"""Of a Kafka record: its source, and its place by record time and partition. Records of one
partition are read in the order of their offsets, and sorting keeps that."""


class SparkJob:
    """A job at work as a streaming query."""

    def __init__(
        self, job: JobFile, hierarchy: Hierarchy, *, progress: Progress, console: Console
    ) -> None:
        self._job = job
        self._hierarchy = hierarchy
        self._progress = progress
        self._console = console
        self._totals = Totals()
        self._statistics: Statistics | None = None
        self._heard: set[int] = set()
        self._resumed = False
        self._counted: set[int] = set()
        self._doubts_unit = job.source.unit is None
        self._checkpoint = ""

    def run(self, stop: Stop, *, follow: bool) -> Outcome:
        """Run until the end of the input or a stop."""
        try:
            with in_words():
                return self._run(stop, follow=follow)
        except Exception:
            # Stopping a service often signals all of its processes, including Spark's. The
            # checkpoint survives any crash, so an error after a signal is part of the stop.
            if stop:
                return Outcome.stopped
            raise

    def _run(self, stop: Stop, *, follow: bool) -> Outcome:
        from betimes.spark import statistics

        with importing_from(self._job.folder), self._places() as (checkpoint, simulated):
            query = self._start(checkpoint, simulated, available_now=not follow)
            stop.listen()  # a new session installs its own handler for Ctrl-C
            self._progress.begin(0)
            with query, statistics(query) as self._statistics, self._progress:
                while not query.wait(_LOOK) and not stop:
                    self._read()
                self._read()
                if stop:
                    return Outcome.stopped
                if self._job.source.end == "open":
                    return Outcome.open
                end = query.finish(advance=self._job.source.end == "advance")
                if not self._in_files:
                    self._totals.tally += end
                self._count_written()
            return Outcome.ended

    def reading(self) -> Reading:
        read = [] if self._statistics is None else list(self._statistics.detectors.values())
        final = [each.latency_final for each in read if each.latency_final is not None]
        return Reading.of(
            self._totals, read, sum(final) / len(final) if final else None,
            " of this run" if self._resumed else "",
            waiting_for="" if self._heard else "the first micro-batch",
        )  # fmt: skip

    @contextmanager
    def _places(self) -> Iterator[tuple[str, Path]]:
        """The folders of the checkpoint and of simulated rows."""
        kept = self._job.engine.checkpoint
        if kept is not None and "://" not in kept:
            yield kept, Path(kept) / "simulated"
            return
        with tempfile.TemporaryDirectory(prefix="betimes-") as folder:
            yield kept or f"{folder}/checkpoint", Path(folder) / "simulated"

    def _start(self, checkpoint: str, simulated: Path, *, available_now: bool) -> Run:
        from betimes import spark as bs

        job, self._checkpoint = self._job, checkpoint
        session = session_of(job, self._progress)
        rows = self._rows(session, simulated)
        changes = bs.detect(
            rows, self._hierarchy, time=job.source.time, type=job.source.type,
            arrival=job.source.order, by=job.source.by, source=job.source.clocks,
            unit=job.source.unit,
            results=job.sink.results, idle=job.engine.idle, slots=job.engine.slots,
            **job.detect.options,
        )  # fmt: skip
        return bs.write(
            changes, checkpoint=checkpoint, current=job.sink.current, available_now=available_now,
            **self._sink(),
        )  # fmt: skip

    def _rows(self, session: Any, simulated: Path) -> Any:
        """The stream of rows that the job names."""
        from betimes.spark.query.places import literal

        source = self._job.source
        reader = session.readStream
        if source.format == "kafka":
            reader = reader.format("kafka").option("kafka.bootstrap.servers", source.servers)
            reader = reader.option("subscribe", source.topic)
            reader = reader.option("maxOffsetsPerTrigger", source.batch_rows)
            records = reader.options(**source.options).load()
            used = {
                name: _ORIGIN[name] for name in (source.clocks, source.order) if name in _ORIGIN
            }
            return _parsed(records, _columns(self._job), **used)
        if source.format == "socket":
            reader = reader.format("socket").option("host", source.host)
            reader = reader.option("port", source.port).options(**source.options)
            return _parsed(reader.load(), _columns(self._job))
        schema = static_rows(session, self._job, simulated).schema
        if source.format == "simulate":
            return (
                reader.schema(schema)
                .option("maxFilesPerTrigger", 1)
                .parquet(literal(str(simulated)))
            )
        reader = reader.format(source.format).schema(schema).options(**_file_options(self._job))
        folder, only = _folder_of(str(source.path))
        reader = reader.option("maxFilesPerTrigger", files_per_batch(self._job)).options(**only)
        return reader.load(folder)

    def _sink(self) -> dict[str, Any]:
        """The arguments of `write` for the sink."""
        sink = self._job.sink
        if sink.format == "console":
            return {"format": "console", "console": self._console}
        if sink.format in ("kafka", "delta"):
            return {"into": self._into}
        return {"path": sink.path, "format": sink.format, "options": sink.options}

    def _into(self, rows: Any, batch: int) -> None:
        sink = self._job.sink
        if sink.format == "delta":
            # Delta keeps the batch number under this name, and skips batches that it has.
            writer = rows.write.format("delta").mode("append").option("txnVersion", batch)
            writer = writer.option("txnAppId", f"betimes {self._checkpoint_id()}")
            writer.options(**sink.options).save(sink.path)
            return
        messages = rows.selectExpr("match_id as key", "to_json(struct(*)) as value")
        writer = messages.write.format("kafka").option("kafka.bootstrap.servers", sink.servers)
        writer.option("topic", sink.topic).options(**sink.options).save()

    def _checkpoint_id(self) -> str:
        """What tells the batches of this checkpoint from those of any other, even at its place."""
        from betimes.spark.query.guard import id_of

        return id_of(self._checkpoint)

    def _read(self) -> None:
        """Add the statistics that the query has published since the last call."""
        for batch in [] if self._statistics is None else self._statistics.batches:
            if batch.batch not in self._heard:
                self._resumed = self._resumed or (not self._heard and batch.batch > 0)
                self._heard.add(batch.batch)
                self._totals.rows += batch.rows
                self._totals.batches += 1
                if not self._in_files:
                    self._totals.tally += batch.tally
        self._count_written()
        self._doubt_unit()
        self._progress.show(self.reading)

    def _doubt_unit(self) -> None:
        """Say so if times seem to count another unit: what workers say ends up in a log file."""
        read = {} if self._statistics is None else self._statistics.detectors
        clocks = [reading.clock for reading in read.values() if reading.clock is not None]
        if clocks and self._doubts_unit:
            self._doubts_unit = False
            doubt = None if self._resumed else times.doubt(min(clocks), max(clocks))
            if doubt is not None:
                say(doubt)

    @property
    def _in_files(self) -> bool:
        """Whether all changes, even those of earlier runs, are in files that can be read here."""
        sink = self._job.sink
        return sink.format in FILES and "://" not in str(sink.path) and not sink.options

    def _count_written(self) -> None:
        """Count the changes in files that were written since the last call."""
        sink = self._job.sink
        if not self._in_files:
            return
        for number, folder in batches_in(Path(str(sink.path))):
            if number not in self._counted and (folder / "_SUCCESS").exists():
                self._counted.add(number)
                self._totals.tally += _told_in(folder, sink.format)


def session_of(job: JobFile, progress: Progress) -> Any:
    """The session of a job; its workers get the modules next to the job file."""
    from betimes import spark as bs

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started Spark already
    log = None if submitted else _log_file(job)
    where = "stderr" if log is None else shown(log)
    progress.note(f"starting Spark; its own messages go to {where}")
    session = bs.session(
        f"betimes {job.file.stem}", master=job.engine.master, log=log,
        config={"spark.ui.enabled": "false"} | job.engine.config,
    )  # fmt: skip
    ship_modules(session, job)
    return session


def static_rows(session: Any, job: JobFile, simulated: Path) -> Any:
    """The rows of files or of a simulated stream as a static DataFrame."""
    from betimes.spark.query.places import literal

    source = job.source
    if source.format == "simulate":
        SimulatedSource(source).write_files(simulated, source.batch_rows)
        return session.read.parquet(literal(str(simulated)))
    reader = session.read.format(source.format).options(**_file_options(job))
    if source.columns:
        reader = reader.schema(_columns(job))
    elif source.format == "csv":
        reader = reader.option("inferSchema", "true")
    folder, only = _folder_of(str(source.path))
    return reader.options(**only).load(folder)


def _folder_of(path: str) -> tuple[str, dict[str, str]]:
    """Where to look for files, and options: Spark follows folders, so a file is one of a folder.

    >>> _folder_of("s3a://bucket/events/")
    ('s3a://bucket/events/', {})
    """
    from betimes.spark.query.places import literal

    file = Path(path)
    if "://" in path or not file.exists():
        return path, {}
    if file.is_dir():
        return literal(path), {}
    return literal(str(file.parent)), {"pathGlobFilter": literal(file.name)}


def _file_options(job: JobFile) -> dict[str, str]:
    source = job.source
    return _CSV | source.options if source.format == "csv" else source.options


def _columns(job: JobFile) -> str:
    """The columns that the job file lists, as a schema of Spark."""
    return ", ".join(f"`{name}` {kind}" for name, kind in job.source.columns.items())


def _told_in(folder: Path, format: str) -> Tally:  # noqa: A002
    """Count the changes in a folder."""
    data = dataset(folder, format)
    if not set(TALLIED).issubset(data.schema.names):
        return Tally()  # a file without rows need not have columns
    return Tally.of(data.to_table(columns=list(TALLIED)))


@contextmanager
def in_words() -> Iterator[None]:
    """Say errors of Spark without the stack trace."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        from betimes.spark import RunError
        from betimes.spark.query.failures import reason

        said = reason(str(error)).partition("\n\tat ")[0].partition("JVM stacktrace")[0]
        raise RunError(said) from error


def _parsed(messages: Any, columns: str, **more: str) -> Any:
    """The columns of messages that are JSON objects, and more: expressions, by name."""
    event = f"from_json(cast(value as string), '{columns}') as event"
    others = (f"{expression} as {name}" for name, expression in more.items())
    return messages.selectExpr(event, *others).select("event.*", *more)


def _log_file(job: JobFile) -> Path:
    """The file for Spark's own messages: in the checkpoint folder, if there is one here."""
    kept = job.engine.checkpoint
    if kept is None or "://" in kept:
        return Path(tempfile.mkdtemp(prefix="betimes-")) / "spark.log"
    Path(kept).mkdir(parents=True, exist_ok=True)
    return Path(kept) / "spark.log"


def ship_modules(session: Any, job: JobFile) -> None:
    """Send the imported modules next to the job file to the workers."""
    folder = job.folder.absolute()
    tops = {
        name.partition(".")[0] for name, module in sys.modules.items() if _lies_in(module, folder)
    }
    for name in sorted(tops):
        if (folder / name).is_dir():
            archive = Path(tempfile.mkdtemp(prefix="betimes-")) / name
            session.sparkContext.addPyFile(
                shutil.make_archive(str(archive), "zip", root_dir=folder, base_dir=name)
            )
        else:
            session.sparkContext.addPyFile(str(folder / f"{name}.py"))


def _lies_in(module: object, folder: Path) -> bool:
    """Whether a module lies in a folder, and not in a virtual environment inside it."""
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_relative_to(folder):
        return False
    top = Path(file).relative_to(folder).parts[0]
    return "site-packages" not in file and getattr(module, "__name__", "").split(".")[0] in (
        top,
        top.removesuffix(".py"),
    )


def files_per_batch(job: JobFile) -> int:
    """How many files hold about `batch_rows` rows: Spark limits a batch by files, not rows."""
    source = job.source
    if "://" in str(source.path):
        return 1
    files = FileSource(source).found()
    if not files:
        return 1
    if source.format == "parquet":
        rows = pq.read_metadata(files[0]).num_rows
    else:
        with files[0].open("rb") as file:
            sample = file.read(_SAMPLE)
        rows = files[0].stat().st_size * sample.count(b"\n") // max(1, len(sample))
    return max(1, source.batch_rows // max(1, rows))


def forget_query(job: JobFile) -> None:
    """Remove what earlier runs of the job left on this machine, and nothing else.

    Nothing is removed if any of it is in use.
    """
    kept = job.engine.checkpoint
    with ExitStack() as held:

        def hold(folder: LockedFolder) -> Path:
            folder.acquire()
            held.callback(folder.release)
            return folder.path

        here = [Path(path) for path in (job.sink.path, job.sink.current) if _is_here(path)]
        sinks = [hold(SinkFolder(path)) for path in here if path.exists()]
        if kept is not None and _is_here(kept):
            folder = hold(CheckpointFolder(Path(kept)))
            shutil.rmtree(folder / "query", ignore_errors=True)
            shutil.rmtree(folder / "simulated", ignore_errors=True)
            (folder / "betimes.json").unlink(missing_ok=True)
        for sink in sinks:
            for _, batch in batches_in(sink):
                shutil.rmtree(batch)


def _is_here(path: str | None) -> TypeGuard[str]:
    return path is not None and "://" not in path
