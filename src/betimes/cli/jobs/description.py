"""A job in words: what `betimes run --check` prints."""

from __future__ import annotations

from typing import Any

from betimes.cli.jobs.io.files import FileSource
from betimes.cli.jobs.io.sources import SimulatedSource
from betimes.cli.jobs.jobfile.tables import FILES, JobFile
from betimes.cli.speaking import shown
from betimes.engine import Hierarchy, Zone

_ENDS = {
    "advance": "when the input ends, time moves past every open window, and all results become "
    "final",
    "stay": "when the input ends, all results become final; time stays at the last event",
    "open": "the input has no end: a later run resumes after it",
}


def describe(job: JobFile, hierarchy: Hierarchy) -> str:
    """The whole job, one paragraph per table."""
    parts = {
        "job": [str(job.file)],
        "source": _source(job),
        "detect": [
            *_options(job, hierarchy),
            *hierarchy.explain().splitlines(),
            *_patterns(hierarchy),
        ],
        "engine": _engine(job),
        "sink": _sink(job),
    }
    return "\n".join(
        f"{name if number == 0 else '':7} {line}".rstrip()
        for name, lines in parts.items()
        for number, line in enumerate(lines)
    )


def _source(job: JobFile) -> list[str]:
    source = job.source
    named = [("time", source.time), ("type", source.type), ("arrival", source.arrival)]
    named += [
        ("unit", source.unit),
        ("by", source.by),
        ("source", "the partition" if _by_partition(job) else source.source),
    ]
    columns = ", ".join(f"{role} {name}" for role, name in named if name)
    return [
        _where(job),
        f"{columns}; batches of {source.batch_rows:,} rows",
        _ENDS[source.end],
    ]


def _by_partition(job: JobFile) -> bool:
    return job.source.source is None and job.source.clocks is not None


def _where(job: JobFile) -> str:
    source = job.source
    if source.format == "simulate":
        names = ", ".join(SimulatedSource(source).schema().names)
        return f"a simulated stream of {source.rows:,} rows, seed {source.seed}: {names}"
    if source.format == "kafka":
        return f"the Kafka topic {source.topic} at {source.servers}"
    if source.format == "socket":
        return f"JSON lines from {source.host}:{source.port}"
    if "://" in str(source.path):
        return f"{source.format} files in {source.path}"
    files = FileSource(source)
    found = files.found()
    size = sum(file.stat().st_size for file in found)
    columns = ", ".join(files.schema().names)
    count = f"{len(found)} {source.format} file{'s' if len(found) > 1 else ''}"
    return f"{count} at {shown(source.path)}, {size / 1e6:.1f} MB: {columns}"


def _options(job: JobFile, hierarchy: Hierarchy) -> list[str]:
    detect = job.detect
    clock = ", ".join(hierarchy.clock or ()) or "learned from the stream"
    options = [f"clock {clock}", *(_said(*option) for option in detect.options.items())]
    return [", ".join(options), *(
        f"{name}: {', '.join(_said(*option) for option in own.items())}"
        for name, own in detect.detectors.items()
    )]  # fmt: skip


def _said(name: str, value: Any) -> str:
    """An option in words."""
    if isinstance(value, Zone):
        return f"zone {value.low:g} to {value.high:g} busy"
    if isinstance(value, list | tuple):
        return f"{name} {', '.join(map(str, value))}"
    return f"{name} {shown(value) if name == 'calibration' else value}"


def _patterns(hierarchy: Hierarchy) -> list[str]:
    return [
        line
        for node in hierarchy
        if node.pattern is not None
        for line in node.pattern.explain().splitlines()
    ]


def _engine(job: JobFile) -> list[str]:
    engine = job.engine
    if engine.kind == "local":
        first = "local: in this process"
    else:
        slots = engine.slots or (1 if job.source.by is None else 4)
        master = engine.master or "from betimes submit or Spark's configuration"
        first = f"spark: master {master}, {slots} slot{'s' if slots > 1 else ''}"
    kept = "no checkpoint: every run starts over"
    if engine.checkpoint is not None:
        kept = f"checkpoint {shown(engine.checkpoint)}: a stopped run resumes"
    return [first, kept]


def _sink(job: JobFile) -> list[str]:
    sink = job.sink
    where = {"console": "the console", "kafka": f"the Kafka topic {sink.topic} at {sink.servers}"}
    lines = [where.get(sink.format) or f"{sink.format} at {shown(sink.path)}"]
    if sink.format in FILES:
        lines[0] += "/batch=N"
    if sink.current is not None:
        lines.append(f"the current table at {shown(sink.current)}")
    said = {
        "provisional": "results as soon as they are likely, later confirmed or taken back",
        "final": "only results that are never taken back",
    }
    return [*lines, said[sink.results]]
