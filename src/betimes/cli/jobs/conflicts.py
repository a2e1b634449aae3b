"""A job as a whole: what is right by itself but does not go together."""

from __future__ import annotations

from pathlib import Path

from betimes.cli.jobs.jobfile import FILES, JobFile, read_tables
from betimes.cli.jobs.keys import Problems
from betimes.cli.jobs.lines import Place

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
"""Keys of [source] that only some formats have."""


def read_job(file: Path) -> JobFile:
    """Read a job file and check everything that it says by itself."""
    job, problems = read_tables(file)
    _check_source(job, problems)
    _check_sink(job, problems)
    _check_together(job, problems)
    problems.stop_if_any()
    return job


def _check_source(job: JobFile, problems: Problems) -> None:
    source, here = job.source, Place("source")
    if source.format is None:
        return
    for key, formats in _FOR_FORMATS.items():
        if job.has("source", key) and source.format not in formats:
            problems.add(
                here, key, f"format {source.format!r} has no such key; it is for "
                f"{', '.join(formats)}"
            )  # fmt: skip
    needs = {"kafka": ("servers", "topic", "columns"), "socket": ("port", "columns")}
    for key in needs.get(source.format, ("path",) if source.format in FILES else ()):
        if not getattr(source, key) and not job.has("source", key):
            problems.add(here, None, f"format {source.format!r} needs the key {key!r}")
    if source.format == "simulate":
        if source.time != "ts" or source.type != "type":
            problems.add(
                here, None, "a simulated stream has its times in 'ts', its types in 'type'"
            )
        if source.by not in (None, "key"):
            problems.add(here, "by", f"a simulated stream has the column 'key', not {source.by!r}")


def _check_sink(job: JobFile, problems: Problems) -> None:
    sink, here = job.sink, Place("sink")
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
    """What is right by itself but does not go together."""
    source, detect, engine, sink = job.source, job.detect, job.engine, job.sink
    options = detect.options
    if detect.hierarchy is None and not detect.patterns and "detect" in job.given:
        problems.add(
            Place("detect"), None, "nothing is looked for: give hierarchy = \"module:name\", or a "
            "[[detect.pattern]] with match and emits"
        )  # fmt: skip
    if (engine.slots or 1) > 1 and source.by is None and engine.kind == "spark":
        problems.add(
            Place("engine"), "slots", "only a stream that is split by a column can be spread over "
            "several slots; name it with by in [source], or leave slots out"
        )  # fmt: skip
    if detect.order == "key" and source.by is None:
        problems.add(Place("detect"), "order", 'order = "key" needs by in [source]')
    if sink.results == "final" and options.get("late") == "repair":
        problems.add(
            Place("detect"), "late", "late = \"repair\" takes back even final rows, but [sink] "
            "results = \"final\" promises rows that are never taken back; use \"side\" or \"drop\""
        )  # fmt: skip
    if source.path is not None and sink.path == source.path:
        problems.add(Place("sink"), "path", "the output would become input; use another folder")
    (_check_local if engine.kind == "local" else _check_spark)(job, problems)


def _check_local(job: JobFile, problems: Problems) -> None:
    source, engine, sink = job.source, job.engine, job.sink
    needs_spark = 'this needs kind = "spark" in [engine]'
    if source.format in ("kafka", "socket"):
        problems.add(Place("source"), "format", needs_spark)
    if source.options:
        problems.add(Place("source"), "options", needs_spark)
    if sink.format in ("delta", "kafka"):
        problems.add(Place("sink"), "format", needs_spark)
    for key in ("current", "options"):
        if getattr(sink, key):
            problems.add(Place("sink"), key, needs_spark)
    for key in ("master", "slots", "config"):
        if getattr(engine, key):
            problems.add(Place("engine"), key, f'kind = "local" is one process; {needs_spark}')
    for table, key, place in (
        ("source", "path", source.path), ("sink", "path", sink.path),
        ("engine", "checkpoint", engine.checkpoint),
    ):  # fmt: skip
        if place is not None and "://" in place:
            problems.add(Place(table), key, f"expected a path on this machine; {needs_spark}")


def _check_spark(job: JobFile, problems: Problems) -> None:
    if job.engine.checkpoint_every is not None:
        problems.add(
            Place("engine"), "checkpoint_every", "Spark writes its checkpoint with every "
            "micro-batch; this is for kind = \"local\""
        )  # fmt: skip
    if job.source.rate is not None:
        problems.add(Place("source"), "rate", 'this needs kind = "local" in [engine]')
