"""Where events come from: sources that yield tables of rows, starting at any position."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from betimes.cli.jobs.io.files import TYPES, FileSource, Position
from betimes.cli.jobs.jobfile.hierarchies import heading_of, key_of
from betimes.cli.jobs.jobfile.keys import Problems
from betimes.cli.jobs.jobfile.lines import Heading
from betimes.cli.jobs.jobfile.tables import FILES, JobFile, SourceTable
from betimes.cli.speaking import say
from betimes.engine import Hierarchy
from betimes.model import EventError
from betimes.model.hints import did_you_mean, nearest
from betimes.ordering.clock import EVERY
from betimes.patterns.needs import missing_columns
from betimes.testing import sensor_stream

_SOURCE = Heading("source")
_PIECE = 50_000
"""Rows of a simulated stream that are generated at once."""
_BETWEEN = 100
"""Mean number of microseconds between two simulated events."""


class Source(Protocol):
    """Rows in order of arrival."""

    def schema(self) -> pa.Schema: ...

    def news(self) -> bool: ...

    def batches(self, position: Position, rows: int) -> Iterator[tuple[pa.Table, Position]]: ...


class SimulatedSource:
    """The sensor stream of `betimes.testing` with a key and a value, generated while it is read.

    Each piece depends only on the seed and on its number, so reading can start anywhere.
    """

    def __init__(self, source: SourceTable) -> None:
        self._source = source
        self._made: tuple[int, pa.Table] | None = None

    def schema(self) -> pa.Schema:
        return self._piece(0).schema

    def types(self) -> list[str]:
        """The types of its events."""
        return sorted(map(str, self._piece(0)["type"].unique().to_pylist()))

    def news(self) -> bool:
        return False

    def batches(self, position: Position, rows: int) -> Iterator[tuple[pa.Table, Position]]:
        done = position.rows
        while done < self._source.rows:
            stop = min(done + rows, self._source.rows)
            numbers = range(done // _PIECE, (stop - 1) // _PIECE + 1)
            pieces = pa.concat_tables([self._piece(number) for number in numbers])
            yield pieces.slice(done - numbers[0] * _PIECE, stop - done), Position(rows=stop)
            done = stop

    def _piece(self, number: int) -> pa.Table:
        if self._made is None or self._made[0] != number:
            self._made = number, self._make(number)
        return self._made[1]

    def _make(self, number: int) -> pa.Table:
        source = self._source
        seed = int(np.random.SeedSequence([source.seed, number]).generate_state(1)[0])
        start = number * _PIECE * _BETWEEN
        events = sensor_stream(_PIECE, seed=seed, stragglers=source.stragglers, start=start)
        rng = np.random.default_rng(seed + 1)
        return pa.table(
            {
                "ts": pa.array(events.ts),
                "type": pa.array(events.types).take(events.codes),
                "key": pa.array(rng.integers(0, source.keys, _PIECE)),
                "value": pa.array(rng.integers(0, 100, _PIECE)),
                "seq": pa.array(np.arange(number * _PIECE, (number + 1) * _PIECE)),
            }
        )

    def write_files(self, folder: Path, rows: int) -> None:
        """Write the stream to files, for readers such as Spark that cannot generate it."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, (table, _) in enumerate(self.batches(Position(), rows)):
            file = folder / f"part-{number:06}.parquet"
            if not file.exists():
                pq.write_table(table, file.with_name(f".{file.name}"))
                set_age(file.with_name(f".{file.name}"), number)
                file.with_name(f".{file.name}").rename(file)


def set_age(file: Path, number: int) -> None:
    """Set the age of a file: Spark reads the oldest first, and files of equal age in any order."""
    os.utime(file, (1_000_000_000 + number,) * 2)


def source_of(job: JobFile) -> Source:
    """The source of a local job."""
    source = job.source
    if source.format == "simulate":
        return SimulatedSource(source)
    return FileSource(source, job.detect.options.get("max_skew", "1h"))


def check_source(job: JobFile, hierarchy: Hierarchy) -> None:
    """Check that the files exist and have the columns that the job names."""
    compare(job, hierarchy)
    job.problems.stop_if_any()


def compare(job: JobFile, hierarchy: Hierarchy) -> None:
    """Compare a job with its source, and note what is wrong."""
    source, problems = job.source, job.problems
    for name, kind in source.columns.items():
        if kind not in TYPES:
            problems.add(
                Heading("source.columns"), name, f"unknown type {kind!r}"
                f"{nearest(kind, TYPES)}"
            )  # fmt: skip
    if problems.are_in("source", "source.columns"):
        return
    try:
        schema = _schema(job)
    except EventError as error:
        problems.add(_SOURCE, "path", str(error))
        schema = None
    if schema is not None:
        _check_columns(job, hierarchy, schema, problems)
    if schema is None or problems.are_in("source", "source.columns"):
        return
    if source.format == "simulate":
        types = SimulatedSource(source).types()
        _hint_at_missing_types(hierarchy, types, "which never comes", nearest)
    elif source.format in FILES and "://" not in str(source.path):
        types = FileSource(source).types()
        _hint_at_missing_types(hierarchy, types, "which the first rows do not have", did_you_mean)


def _hint_at_missing_types(
    hierarchy: Hierarchy, types: list[str], why: str, near: Callable[[object, list[str]], str]
) -> None:
    """Types that are neither in the source nor published by a detector may be misspelled."""
    published = {type for node in hierarchy for type in node.emits}
    read = [(repr(node.name), "reads", type) for node in hierarchy for type in node.on]
    clock = [("the clock", "follows", type) for type in hierarchy.clock or ()]
    for who, does, type in [*clock, *read]:
        if type not in published and type not in (*types, EVERY) and (hint := near(type, types)):
            say(f"hint: {who} {does} {type!r}, {why}{hint}")


def _schema(job: JobFile) -> pa.Schema | None:
    """The columns of the source, if they are known without starting Spark."""
    source = job.source
    if source.format == "simulate":
        return SimulatedSource(source).schema()
    if source.format in FILES and "://" not in str(source.path):
        return FileSource(source).schema()
    if source.columns:
        return pa.schema([pa.field(name, TYPES[kind]) for name, kind in source.columns.items()])
    return None


def _check_columns(
    job: JobFile, hierarchy: Hierarchy, schema: pa.Schema, problems: Problems
) -> None:
    source = job.source
    for role in ("time", "type", "arrival", "by", "source"):
        name = getattr(source, role)
        if role == "source" and name == "off":
            continue
        if name is not None and name not in schema.names:
            problems.add(
                _SOURCE, role, f"the source has no column {name!r}{nearest(name, schema.names)}"
            )
        elif name is not None and (wanted := _unfit(role, schema.field(name).type)):
            problems.add(
                _SOURCE, role, f"expected {wanted} in the column {name!r}, got "
                f"{schema.field(name).type}"
            )  # fmt: skip
    published = {type for node in hierarchy for type in node.emits}
    payload = [name for name in schema.names if name not in (source.time, source.type)]
    for node in hierarchy:
        reads_input = not published.issuperset(node.on)
        if node.by is not None and reads_input and node.by not in payload:
            problems.add(
                heading_of(job, node.name), "by", f"detector {node.name!r} has by={node.by!r}, but "
                f"the source has no such column{nearest(node.by, payload)}"
            )  # fmt: skip
        if node.pattern is not None:
            for error in missing_columns(node.pattern, payload, published):
                problems.add(heading_of(job, node.name), key_of(error), str(error))


def _unfit(role: str, kind: pa.DataType) -> str | None:
    """What the column should hold; None if it does."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    whole, text = pa.types.is_integer(kind), pa.types.is_string(kind)
    text = text or pa.types.is_large_string(kind)
    if role == "time":
        fits = whole or text or pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
        return None if fits else "numbers, timestamps or ISO 8601 text"
    if role == "type":
        return None if text else "text"
    if role == "by":
        return None if whole or text else "whole numbers or text"
    fits = whole or text or pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
    return None if fits else "numbers, times or text"
