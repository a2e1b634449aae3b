"""The job file: its tables and their keys.

```
[source]   where events come from      [engine]   what runs the job, and where it keeps its state
[detect]   what to detect              [sink]     where changes go
```

This module reads each key on its own. `conflicts` checks keys against each other, `hierarchies`
builds what the job detects, and `io.sources` checks the data.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from betimes.cli.jobs.jobfile.keys import (
    JobError,
    Key,
    Problems,
    Reader,
    Shape,
    choice,
    duration,
    either,
    mapping,
    model,
    number,
    read_table,
    retention,
    settings,
    slack,
    text,
    texts,
    whole,
    zone,
)
from betimes.cli.jobs.jobfile.lines import Heading
from betimes.engine import EngineOptions
from betimes.engine.options import LATE_POLICIES, OPTIONS, RESULTS
from betimes.engine.stages.retraction import TECHNIQUES
from betimes.host import Columns
from betimes.model.event import OWN
from betimes.model.hints import nearest
from betimes.model.times import UNITS
from betimes.windows.operators import FRAMES
from betimes.windows.plan import WORKERS
from betimes.windows.schedules import SCHEDULES

FILES = ("parquet", "csv", "json")
BATCH_ROWS = 100_000

PARTITION, ARRIVAL = f"{OWN}partition", f"{OWN}arrival"
"""Columns that the records of a Kafka topic have besides those of the events."""

SOURCE_KEYS: Shape = {
    "format": Key(choice(*FILES, "kafka", "socket", "simulate"), required=True),
    "time": Key(text, "ts"),
    "type": Key(text, "type"),
    "arrival": Key(text),
    "source": Key(text),
    "unit": Key(choice(*UNITS)),
    "by": Key(text),
    "batch_rows": Key(whole(1), BATCH_ROWS),
    "end": Key(choice("advance", "stay", "open"), "advance"),
    "columns": Key(mapping, {}),
    "options": Key(settings, {}),
    "path": Key(text),
    "servers": Key(text),
    "topic": Key(text),
    "host": Key(text, "localhost"),
    "port": Key(whole(1, 65535)),
    "rows": Key(whole(1), 100_000),
    "seed": Key(whole(0), 1),
    "keys": Key(whole(1), 16),
    "stragglers": Key(number(0, 1), 0.01),
    "rate": Key(number(1)),
}

OPTION_READERS: dict[str, Reader] = {
    **dict.fromkeys(("min_slack", "max_slack", "decay"), duration),
    "order": choice("shared", "key"),
    "slack": slack,
    "margin": number(0),
    "max_late": number(0, 1),
    **dict.fromkeys(("max_skew", "quiet"), either("off", duration)),
    "retention": retention,
    "attenuation": either("adaptive", number(0, 1)),
    "retraction": choice(*TECHNIQUES),
    "late": choice(*LATE_POLICIES),
    "snapshots": model,
    "errors": choice("stop", "skip"),
    "calibration": text,
    "zone": zone,
}
"""How the options of an engine are written in a job file."""

ELSEWHERE = {
    "by": "a key of [source]",
    "source": "a key of [source]",
    "unit": "a key of [source]",
}
"""Options that are not keys of [detect], and why."""

DETECT_KEYS: Shape = {
    "hierarchy": Key(text),
    "clock": Key(texts),
    "inputs": Key(texts),
    **{name: Key(OPTION_READERS[name]) for name in OPTIONS if name not in ELSEWHERE},
}

DETECTOR_KEYS: Shape = {
    "clock": Key(texts),
    **{
        name: Key(OPTION_READERS[name])
        for name in ("slack", "margin", "attenuation", "retraction", "snapshots")
    },
}
"""What a detector says for itself."""

PATTERN_KEYS: Shape = {
    "match": Key(text, required=True),
    "emits": Key(text, required=True),
    "by": Key(text),
    "within": Key(duration),
    "define": Key(mapping),
    "where": Key(text),
    "skip": Key(text),
    "select": Key(mapping),
    "timeouts": Key(text),
    "on": Key(texts),
    "name": Key(text),
    "limit": Key(whole(1)),
    "overflow": Key(choice("error", "side")),
}

WINDOW_KEYS: Shape = {
    "on": Key(texts, required=True),
    "emits": Key(text, required=True),
    "by": Key(text),
    "name": Key(text),
    "aggregate": Key(mapping),
    "function": Key(text),
    "frame": Key(choice(*FRAMES)),
    "instances": Key(whole(1)),
    "schedule": Key(choice(*SCHEDULES)),
    "workers": Key(choice(*WORKERS)),
    "count": Key(whole(1)),
    "time": Key(duration),
    "gap": Key(duration),
    "open": Key(text),
    "close": Key(text),
    "slide": Key(duration),
    "offset": Key(duration),
    "limit": Key(whole(1)),
}

ENGINE_KEYS: Shape = {
    "kind": Key(choice("spark", "local"), "spark"),
    "master": Key(text),
    "slots": Key(whole(1)),
    "checkpoint": Key(text),
    "checkpoint_every": Key(whole(1)),
    "idle": Key(duration),
    "config": Key(settings, {}),
}

SINK_KEYS: Shape = {
    "format": Key(choice(*FILES, "delta", "kafka", "console"), required=True),
    "path": Key(text),
    "results": Key(choice(*RESULTS), "provisional"),
    "current": Key(text),
    "servers": Key(text),
    "topic": Key(text),
    "options": Key(settings, {}),
}

TABLES = ("source", "detect", "engine", "sink")

HOMES = {
    key: table
    for table, shape in zip(TABLES, (SOURCE_KEYS, DETECT_KEYS, ENGINE_KEYS, SINK_KEYS), strict=True)
    for key in shape
}
"""In which table a key belongs that is in the wrong one."""


@dataclass(frozen=True)
class SourceTable:
    """`[source]`: where events come from."""

    format: str
    time: str
    type: str
    arrival: str | None
    source: str | None
    """The column with the source of an event; "off" for one clock."""
    unit: str | None
    by: str | None
    batch_rows: int
    end: str
    columns: dict[str, str]
    options: dict[str, str]
    path: str | None
    servers: str | None
    topic: str | None
    host: str
    port: int | None
    rows: int
    seed: int
    keys: int
    stragglers: float
    rate: float | None

    @property
    def clocks(self) -> str | None:
        """The column whose values have their own clocks: of a Kafka topic, the partition."""
        usual = PARTITION if self.format == "kafka" else None
        return None if self.source == "off" else self.source or usual

    @property
    def order(self) -> str | None:
        """The column that gives the order of arrival: of a Kafka topic, the time of the record."""
        return self.arrival or (ARRIVAL if self.format == "kafka" else None)


@dataclass(frozen=True)
class DetectTable:
    """`[detect]`: what to detect, and how."""

    hierarchy: str | None
    clock: tuple[str, ...] | None
    inputs: tuple[str, ...] | None
    options: dict[str, Any]
    """The options of the engine that the job file sets."""
    patterns: tuple[dict[str, Any], ...]
    windows: tuple[dict[str, Any], ...]
    detectors: dict[str, dict[str, Any]]
    """What detectors say for themselves, by name."""


@dataclass(frozen=True)
class EngineTable:
    """`[engine]`: what runs the job."""

    kind: str
    master: str | None
    slots: int | None
    checkpoint: str | None
    checkpoint_every: int | None
    idle: str | int | None
    """How long without an event until time passes with the wall clock."""
    config: dict[str, str]


@dataclass(frozen=True)
class SinkTable:
    """`[sink]`: where changes go."""

    format: str
    path: str | None
    results: str
    current: str | None
    servers: str | None
    topic: str | None
    options: dict[str, str]


@dataclass(frozen=True)
class JobFile:
    """A job file whose keys are valid; its paths are absolute or have a scheme, such as s3a://."""

    file: Path
    text: str
    given: dict[str, Any]
    """The tables as they are in the file."""
    source: SourceTable
    detect: DetectTable
    engine: EngineTable
    sink: SinkTable
    problems: Problems
    """What is wrong with it, as far as it has been checked."""

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def options(self) -> EngineOptions:
        """The options of the engine, with what `results` asks for."""
        return EngineOptions.of(
            self.detect.options, results=self.sink.results, by=self.source.by,
            source=self.source.clocks, unit=self.source.unit,
        )  # fmt: skip

    @property
    def columns(self) -> Columns:
        """The columns of the source that every event has."""
        return Columns(self.source.time, self.source.type, self.source.order)

    def has(self, table: str, key: str) -> bool:
        """Whether the file sets a key."""
        return key in self.given.get(table, {})


def read_tables(file: Path) -> JobFile:
    """Read a job file key by key; a value that is not valid is reported and left at its default."""
    content, whole_file = _parsed(file)
    problems = Problems(str(file), content, homes=HOMES)
    for name in whole_file:
        if name not in TABLES:
            _add_unknown(name, whole_file[name], problems)
    source, detect, engine, sink = (whole_file.get(name, {}) for name in TABLES)
    for name in ("source", "detect", "sink"):
        if name not in whole_file:
            problems.add(Heading(name), None, "the table is missing")
    sources = read_table(
        source, Heading("source"), _needed("source", SOURCE_KEYS, whole_file), problems
    )
    engines = read_table(engine, Heading("engine"), ENGINE_KEYS, problems)
    sinks = read_table(sink, Heading("sink"), _needed("sink", SINK_KEYS, whole_file), problems)
    lists = detect if isinstance(detect, dict) else {}
    patterns = _listed("pattern", PATTERN_KEYS, lists, problems)
    windows = _listed("window", WINDOW_KEYS, lists, problems)
    detectors = _named("detector", DETECTOR_KEYS, lists, problems)
    detects = read_table(detect, Heading("detect"), {**DETECT_KEYS}, problems)
    return JobFile(
        file,
        content,
        {name: table for name, table in whole_file.items() if isinstance(table, dict)},
        SourceTable(**_placed(sources, file, "path")),
        _detect(_placed(detects, file, "calibration"), patterns, windows, detectors),
        EngineTable(**_placed(engines, file, "checkpoint")),
        SinkTable(**_placed(sinks, file, "path", "current")),
        problems,
    )


def _add_unknown(name: str, value: object, problems: Problems) -> None:
    """Report a table, or a key above all tables, that a job file does not have."""
    if isinstance(value, dict):
        problems.add(Heading(name), None, f"unknown table{nearest(name, TABLES)}")
    else:
        tables = ", ".join(f"[{table}]" for table in TABLES)
        problems.add(Heading(""), name, f"this key is above all tables; put it in one of {tables}")


def _parsed(file: Path) -> tuple[str, dict[str, Any]]:
    try:
        content = file.read_text("utf-8")
        return content, tomllib.loads(content)
    except OSError as error:
        raise JobError(
            f"cannot read the job file {str(file)!r}: {error.strerror}; docs/running.md explains "
            "what belongs in one"
        ) from None
    except UnicodeDecodeError as error:
        raise JobError(f"expected the job file {str(file)!r} to be UTF-8 text: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise JobError(
            f"expected the job file {str(file)!r} to be TOML: {error}; put strings in quotes, and "
            "begin tables with [name]"
        ) from None


def _needed(name: str, shape: Shape, tables: dict[str, Any]) -> Shape:
    """A missing table is one problem, not one for each of its required keys."""
    if name in tables:
        return shape
    return {key: Key(known.read, known.default) for key, known in shape.items()}


def _placed(values: dict[str, Any], file: Path, *names: str) -> dict[str, Any]:
    """Make paths absolute: they are relative to the job file. Those with a scheme stay."""
    for name in names:
        path = values[name]
        if path is not None and "://" not in path:
            values[name] = str((file.parent / path).resolve())
    return values


def _listed(
    name: str, shape: Shape, detect: dict[str, Any], problems: Problems
) -> tuple[dict[str, Any], ...]:
    """The tables with double brackets of one name in `[detect]`, which are taken out of it."""
    tables = detect.pop(name, [])
    if not isinstance(tables, list):
        problems.add(Heading("detect"), name, f"expected double brackets: [[detect.{name}]]")
        return ()
    return tuple(
        read_table(table, Heading(f"detect.{name}", count), shape, problems)
        for count, table in enumerate(tables, start=1)
    )


def _named(
    name: str, shape: Shape, detect: dict[str, Any], problems: Problems
) -> dict[str, dict[str, Any]]:
    """The tables of one name in `[detect]` that have names themselves; they are taken out of it."""
    tables = detect.pop(name, {})
    if not isinstance(tables, dict):
        problems.add(Heading("detect"), name, f"expected tables with names: [detect.{name}.NAME]")
        return {}
    found = {
        each: read_table(table, Heading(f"detect.{name}.{each}"), shape, problems)
        for each, table in tables.items()
    }
    return {each: {k: v for k, v in t.items() if v is not None} for each, t in found.items()}


def _detect(
    values: dict[str, Any],
    patterns: tuple[dict[str, Any], ...],
    windows: tuple[dict[str, Any], ...],
    detectors: dict[str, dict[str, Any]],
) -> DetectTable:
    own = {name: values[name] for name in ("hierarchy", "clock", "inputs")}
    options = {name: values[name] for name in OPTIONS if values.get(name) is not None}
    return DetectTable(
        **own, options=options, patterns=patterns, windows=windows, detectors=detectors
    )
