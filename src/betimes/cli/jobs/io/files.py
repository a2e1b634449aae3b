"""Files as a stream: read one after the other, in the order of their names, in batches of rows.

Files of several sources are read side by side instead (`beside`).

A `Position` says how far a stream was read: `rows` rows of one file, and all files before it; or
so many rows of each file. Only one batch is in memory at a time; side by side, some of each open
file. What follows a position does not depend on how often the stream was stopped before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from betimes.cli.jobs.io.beside import Keys, Part, Reach, keys_of, merged
from betimes.cli.jobs.jobfile.tables import SourceTable
from betimes.cli.speaking import shown
from betimes.engine import CheckpointError
from betimes.model import Duration, EventError
from betimes.model.duration import or_off

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_READ_ROWS = 65_536
"""Rows decoded at once: few enough to stop soon, enough to be fast."""

TYPES: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us"),
}
"""The types that [source.columns] may name, as Spark calls them."""


class Position(msgspec.Struct, frozen=True):
    """How far a source was read."""

    file: str = ""
    """The name of the current file; empty at the beginning."""
    rows: int = 0
    """How many of its rows are done; without files, how many rows of the stream."""
    before: str = ""
    """A hash of the names of the files before it."""
    beside: dict[str, int] = {}
    """How many rows of each file are done, if files are read side by side."""


class FileSource:
    """A file, or the files of a folder."""

    def __init__(self, source: SourceTable, max_skew: Duration | None = "1h") -> None:
        """With `max_skew`, how far ahead a time is believed if files are read side by side."""
        self._source = source
        self._skew = or_off(max_skew, "max_skew") if source.arrival is None else None
        self._path = Path(str(source.path))
        self._format = source.format
        self._seen: list[tuple[str, int]] = []
        self._ended: set[tuple[str, int, int]] = set()
        """Files read to their ends: names, sizes and rows. They need not be opened again."""

    def found(self) -> list[Path]:
        """The files, in the order in which they are read."""
        if self._path.is_file():
            return [self._path]
        if not self._path.is_dir():
            raise EventError(f"expected a file or a folder at {shown(self._path)}, found nothing")
        visible = (path for path in self._path.iterdir() if not path.name.startswith((".", "_")))
        return sorted((path for path in visible if path.is_file()), key=lambda path: path.name)

    def schema(self) -> pa.Schema:
        """The columns of the first file; [source.columns] takes precedence."""
        files = self.found()
        if not files:
            raise EventError(f"expected files in {shown(self._path)}, found none")
        schema = _schema_of(files[0], self._format)
        for name, kind in self._source.columns.items():
            field = pa.field(name, TYPES[kind])
            at = schema.get_field_index(name)
            schema = schema.append(field) if at < 0 else schema.set(at, field)
        return schema

    def types(self) -> list[str]:
        """The types of the first rows."""
        files = self.found()
        rows = next(_read(files[0], self._format, self.schema(), skip=0), None) if files else None
        if rows is None:
            return []
        return sorted(map(str, rows[self._source.type].drop_null().unique().to_pylist()))

    def news(self) -> bool:
        """Whether any file is new or has grown since the last call."""
        before, self._seen = self._seen, [(path.name, path.stat().st_size) for path in self.found()]
        return before != self._seen

    def batches(self, position: Position, rows: int) -> Iterator[tuple[pa.Table, Position]]:
        """Tables of `rows` rows (the last may be shorter), each with the position after it."""
        if self._source.clocks is not None:
            yield from self._side_by_side(position, rows)
            return
        files, passed = self._rest(position)
        if not files:
            return
        schema = self._read_as()
        waiting: list[pa.Table] = []
        count = 0
        for file in files:
            done = position.rows if file.name == position.file else 0
            before = passed.hexdigest()
            for part in _read(file, self._format, schema, skip=done):
                left = part
                while count + len(left) >= rows:
                    take = rows - count
                    waiting.append(left.slice(0, take))
                    left, done, count = left.slice(take), done + take, 0
                    yield pa.concat_tables(waiting), Position(file.name, done, before)
                    waiting = []
                if len(left):
                    waiting.append(left)
                    done, count = done + len(left), count + len(left)
            position = Position(file.name, done, before)
            passed.update(f"{file.name}\n".encode())
        if count:
            yield pa.concat_tables(waiting), position

    def _read_as(self) -> pa.Schema:
        """The columns as they are read."""
        schema = self.schema()
        if self._format == "parquet" and self._source.type not in self._source.columns:
            schema = _coded(schema, self._source.type)
        return schema

    def _side_by_side(self, position: Position, rows: int) -> Iterator[tuple[pa.Table, Position]]:
        """Like `batches`: the files of several sources, merged."""
        files = {path.name: path for path in self.found()}
        missing = [name for name in position.beside if name not in files]
        if missing:
            raise CheckpointError(
                f"the files in {shown(self._path)} have changed: {missing} were read before the "
                "stop, and are gone; put them back, or start over with --fresh"
            )
        done = dict(position.beside)
        sizes = {name: path.stat().st_size for name, path in files.items()}
        new = [name for name in files if (name, sizes[name], done.get(name, 0)) not in self._ended]
        if not new:
            return
        schema = self._read_as()

        def keys(table: pa.Table) -> Keys:
            source = self._source
            return keys_of(table, source.time, source.arrival, source.unit)

        def first(name: str) -> Any:
            top = next(_read(files[name], self._format, schema, skip=0), None)
            return Reach(self._skew).of(keys(top))[0] if top is not None else None

        def part(name: str) -> Part:
            read = _read(files[name], self._format, schema, skip=0)
            rows = ((table, keys(table)) for table in read)
            return Part(name, done.get(name, 0), rows, self._skew)

        waiting: list[pa.Table] = []
        names: list[str] = []
        for table, of in merged(new, first, part):
            waiting.append(table)
            names += of
            while len(names) >= rows:
                ready = pa.concat_tables(waiting)
                done = _plus(done, names[:rows])
                yield ready.slice(0, rows), Position(beside=done)
                waiting, names = [ready.slice(rows)], names[rows:]
        done = _plus(done, names)
        self._ended.update((name, sizes[name], done.get(name, 0)) for name in new)
        if names:
            yield pa.concat_tables(waiting), Position(beside=done)

    def _rest(self, position: Position) -> tuple[list[Path], blake2b]:
        """The files from a position on, and a hash of the names before it."""
        files = self.found()
        passed = blake2b(digest_size=8)
        if not position.file:
            return files, passed
        names = [path.name for path in files]
        before = [name for name in names if name < position.file]
        passed.update("".join(f"{name}\n" for name in before).encode())
        if position.file not in names or passed.hexdigest() != position.before:
            raise CheckpointError(
                f"the files in {shown(self._path)} have changed: expected the files that were "
                f"read before the stop, and no others before {position.file!r}, because files are "
                "read in the order of their names; put the old files back and give new ones later "
                "names, or start over with --fresh"
            )
        return files[len(before) :], passed


def _plus(done: dict[str, int], names: list[str]) -> dict[str, int]:
    """How many rows of each file are done, with one more row for each of these names."""
    more = Counter(names)
    return done | {name: done.get(name, 0) + count for name, count in more.items()}


def dataset(place: Path, format: str, schema: pa.Schema | None = None) -> ds.FileSystemDataset:  # noqa: A002
    """A file, or all files in a folder, as Arrow reads them."""
    import pyarrow.dataset as ds  # loads pandas, too, which takes long

    formats = {"csv": ds.CsvFileFormat, "json": ds.JsonFileFormat}
    if format == "parquet":
        coded = {field.name for field in schema or () if pa.types.is_dictionary(field.type)}
        reader: ds.FileFormat = ds.ParquetFileFormat(dictionary_columns=coded)
    else:
        reader = formats[format]()
    return ds.dataset(str(place), format=reader, schema=schema)


def _coded(schema: pa.Schema, column: str) -> pa.Schema:
    """The schema with a column of text as codes: as Parquet stores it, and engines need it."""
    at = schema.get_field_index(column)
    if at < 0 or schema.field(at).type != pa.string():
        return schema
    return schema.set(at, pa.field(column, pa.dictionary(pa.int32(), pa.string())))


def _schema_of(file: Path, format: str) -> pa.Schema:  # noqa: A002
    try:
        schema: pa.Schema = dataset(file, format).schema
        return schema
    except (pa.ArrowInvalid, OSError) as error:
        raise EventError(f"{file} cannot be read as {format}: {error}") from None


def _read(file: Path, format: str, schema: pa.Schema, *, skip: int) -> Iterator[pa.Table]:  # noqa: A002
    """The rows of a file in order, without the first `skip`."""
    try:
        data = dataset(file, format, schema)
        own = next(iter(data.get_fragments())).physical_schema
        _check_names(file, own, schema)
        for batch in data.scanner(batch_size=_READ_ROWS, fragment_readahead=1).to_batches():
            if skip >= len(batch):
                skip -= len(batch)
                continue
            yield pa.Table.from_batches([batch]).slice(skip)
            skip = 0
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError) as error:
        raise EventError(
            f"{file} cannot be read with the columns of the first file: {error}; set the type of "
            'the column in [source.columns], as in v = "double"'
        ) from None
    if skip:
        raise CheckpointError(
            f"{file} has {skip} rows fewer than were read from it before the stop; restore the "
            "file, or start over with --fresh"
        )


def _check_names(file: Path, own: pa.Schema, schema: pa.Schema) -> None:
    more = [name for name in own.names if name not in schema.names]
    if more:
        raise EventError(
            f"{file} has columns that the first file does not have: {more}; add them to "
            f'[source.columns], as in {more[0]} = "double", so that their values are not lost'
        )
