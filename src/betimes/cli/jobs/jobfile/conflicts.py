"""A job as a whole: keys that are valid one by one but contradict each other."""

from __future__ import annotations

from pathlib import Path

from betimes.cli.jobs.jobfile.keys import Problems
from betimes.cli.jobs.jobfile.lines import Heading
from betimes.cli.jobs.jobfile.tables import FILES, JobFile, read_tables

_FOR_FORMATS: dict[str, tuple[str, ...]] = {
    "path": (*FILES,),
    "columns": (*FILES, "kafka", "socket"),
    "options": (*FILES, "kafka", "socket"),
    "servers": ("kafka",),
    "topic": ("kafka",),
    "host": ("socket",),
    "port": ("socket",),
    **dict.fromkeys(("rows", "seed", "keys", "stragglers", "rate"), ("simulate",)),
}
"""Keys of [source] that only some formats take."""


def read_job(file: Path) -> JobFile:
    """Read a job file whose tables are valid, or report every problem with them."""
    job = look_over(file)
    job.problems.stop_if_any()
    return job


def look_over(file: Path) -> JobFile:
    """Read a job file, and note everything that is wrong with its tables."""
    job = read_tables(file)
    _check_source(job, job.problems)
    _check_sink(job, job.problems)
    _check_together(job, job.problems)
    return job


def _check_source(job: JobFile, problems: Problems) -> None:
    source, here = job.source, Heading("source")
    if source.format is None:
        return
    for key, formats in _FOR_FORMATS.items():
        if job.has("source", key) and source.format not in formats:
            problems.add(
                here, key, f"format {source.format!r} has no such key; only these formats do: "
                f"{', '.join(formats)}"
            )  # fmt: skip
    needs = {"kafka": ("servers", "topic", "columns"), "socket": ("port", "columns")}
    for key in needs.get(source.format, ("path",) if source.format in FILES else ()):
        if not getattr(source, key) and not job.has("source", key):
            problems.add(here, None, f"format {source.format!r} needs the key {key!r}")
    if source.format == "simulate":
        if source.time != "ts" or source.type != "type":
            problems.add(
                here,
                None,
                "a simulated stream has the columns 'ts' and 'type'; leave out time and type",
            )
        if source.by not in (None, "key"):
            problems.add(here, "by", f"a simulated stream is split by 'key', got {source.by!r}")


def _check_sink(job: JobFile, problems: Problems) -> None:
    sink, here = job.sink, Heading("sink")
    needs: dict[str, tuple[str, ...]] = {
        **dict.fromkeys((*FILES, "delta"), ("path",)),
        "kafka": ("servers", "topic"),
    }
    for key in ("path", "servers", "topic"):
        needed = key in needs.get(sink.format, ())
        if needed and getattr(sink, key) is None:
            problems.add(here, None, f"format {sink.format!r} needs the key {key!r}")
        elif sink.format is not None and not needed and getattr(sink, key) is not None:
            problems.add(here, key, f"format {sink.format!r} has no such key")


def _check_together(job: JobFile, problems: Problems) -> None:
    """Look for keys in different tables that contradict each other."""
    source, detect, engine, sink = job.source, job.detect, job.engine, job.sink
    options = detect.options
    named = detect.hierarchy is not None or detect.patterns or detect.windows
    if not named and "detect" in job.given:
        problems.add(
            Heading("detect"), None, "nothing to detect: add a [[detect.pattern]] with match and "
            "emits, or set hierarchy = \"module:name\""
        )  # fmt: skip
    if (engine.slots or 1) > 1 and source.by is None and engine.kind == "spark":
        problems.add(
            Heading("engine"), "slots", "only a stream that is split by a column can use several "
            "slots; name the column with by in [source], or leave slots out"
        )  # fmt: skip
    if options.get("order") == "key" and source.by is None:
        problems.add(Heading("detect"), "order", 'order = "key" needs by in [source]')
    if sink.results == "final" and options.get("late") == "repair":
        problems.add(
            Heading("detect"), "late", "late = \"repair\" may take back final rows, but [sink] "
            "results = \"final\" promises that none is taken back; use \"side\" or \"drop\""
        )  # fmt: skip
    if source.path is not None and sink.path == source.path:
        problems.add(
            Heading("sink"), "path", "the output would become input; choose another folder"
        )
    (_check_local if engine.kind == "local" else _check_spark)(job, problems)


def _check_local(job: JobFile, problems: Problems) -> None:
    source, engine, sink = job.source, job.engine, job.sink
    needs_spark = 'this needs kind = "spark" in [engine]'
    if source.format in ("kafka", "socket"):
        problems.add(Heading("source"), "format", needs_spark)
    if source.options:
        problems.add(Heading("source"), "options", needs_spark)
    if sink.format in ("delta", "kafka"):
        problems.add(Heading("sink"), "format", needs_spark)
    for key in ("current", "options"):
        if getattr(sink, key):
            problems.add(Heading("sink"), key, needs_spark)
    for key in ("master", "slots", "config"):
        if getattr(engine, key):
            problems.add(
                Heading("engine"), key, f'kind = "local" runs in one process; {needs_spark}'
            )
    for table, key, path in (
        ("source", "path", source.path), ("sink", "path", sink.path),
        ("engine", "checkpoint", engine.checkpoint),
    ):  # fmt: skip
        if path is not None and "://" in path:
            problems.add(Heading(table), key, f"expected a path on this machine; {needs_spark}")


def _check_spark(job: JobFile, problems: Problems) -> None:
    if job.engine.checkpoint_every is not None:
        problems.add(
            Heading("engine"), "checkpoint_every", "this key is for kind = \"local\"; Spark "
            "writes its checkpoint with every micro-batch"
        )  # fmt: skip
    if job.source.rate is not None:
        problems.add(Heading("source"), "rate", 'this needs kind = "local" in [engine]')
