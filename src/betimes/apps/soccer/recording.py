"""Positions as a table, and the stadium's file format.

The application works on tables with these columns:

| column | type | unit |
|---|---|---|
| `ts` | int64 | microseconds |
| `type` | string | `ball`, `player` or `referee` |
| `sid` | int32 | number of the sensor |
| `x`, `y`, `z` | float64 | metres |
| `speed` | float64 | m/s |
| `acceleration` | float64 | m/s² |
| `vx`, `vy`, `vz` | float64 | m/s |

and, if positions are in order of arrival, `seq` (int64, the number of the arrival) and `arrived`
(int64, microseconds).

The file format has thirteen integers per line, separated by commas, with or without a header line:
sensor, time in picoseconds, position in millimetres, speed in micrometres per second, acceleration
in micrometres per second squared, and the directions of both as unit vectors times 10,000. A table
has the velocity as a vector and only the magnitude of the acceleration, because no detector needs
its direction; columns `ax`, `ay`, `az` (m/s²) are read on request and written if present.

Reading is streamed: a file of any size is read in pieces. Times are truncated to microseconds.
Everything else keeps its value, so reading, writing and reading again gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from betimes.apps.soccer.stadium import NUREMBERG, TYPES, Stadium
from betimes.model import EventError, OptionError

RAW = ("sid", "ts", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az")
"""The columns of a file, in their order."""
COLUMNS = ("ts", "type", "sid", "x", "y", "z", "speed", "acceleration", "vx", "vy", "vz")
"""The columns of a table, without those of arrival."""

_BLOCK = 4 << 20
"""Bytes of a file that are parsed at once: about 50,000 positions."""
_INTEGER = r"^\s*[+-]?\d{1,18}\s*$"

Ints = npt.NDArray[np.int64]
Format = Literal["csv", "parquet"]


@dataclass
class Skipped:
    """Counts rows of a file that could not be used."""

    malformed: int = 0
    """Rows that do not have thirteen integers."""
    unknown: int = 0
    """Rows of sensors that the stadium does not know."""

    @property
    def rows(self) -> int:
        return self.malformed + self.unknown


def read_recording(
    path: str | Path,
    stadium: Stadium = NUREMBERG,
    rows: int = 100_000,
    *,
    skipped: Skipped | None = None,
    directions: bool = False,
) -> Iterator[pa.Table]:
    """The positions of a file, in tables of `rows` rows (the last may be shorter).

    The file may be compressed (`.gz`, `.bz2`, `.zst`, `.lz4`). A row that does not have thirteen
    integers, or has a sensor that the stadium does not know, is an `EventError`; with `skipped`,
    such rows are left out and counted there. `directions` adds `ax`, `ay`, `az`.
    """
    if rows < 1:
        raise OptionError(f"expected rows to be 1 or more, got rows={rows}")
    path = Path(path)
    if not path.is_file():
        raise EventError(f"expected a recording at {path}, there is no such file")
    blocks = _checked(_blocks(path, skipped), path, stadium, skipped)
    yield from cut((positions(raw, stadium, directions=directions) for raw in blocks), rows)


def write_recording(tables: Iterable[pa.Table], path: str | Path) -> int:
    """Write positions as `.parquet`, or otherwise in the stadium's format; return their number.

    The stadium's format gets a header line, and has no columns for `seq` and `arrived`: rows are
    written in the order in which they come.
    """
    path = Path(path)
    return _write_parquet(tables, path) if path.suffix == ".parquet" else _write_csv(tables, path)


def cut(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `rows` rows."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += len(table)
        if count >= rows:
            whole = pa.concat_tables(waiting).combine_chunks()
            for start in range(0, count - rows + 1, rows):
                yield whole.slice(start, rows)
            waiting, count = [whole.slice(count - count % rows)], count % rows
    if count:
        yield pa.concat_tables(waiting).combine_chunks()


def positions(
    raw: Mapping[str, Ints], stadium: Stadium, *, directions: bool = False
) -> pa.Table:  # fmt: skip
    """The integers of a file as a table of positions.

    >>> raw = {
    ...     name: np.array([value])
    ...     for name, value in zip(
    ...         RAW, (8, 7_000_000, 1500, 0, 0, 2_000_000, 0, 0, 10_000, 0, 0, 0, 0), strict=True
    ...     )
    ... }
    >>> positions(raw, NUREMBERG).select(["ts", "type", "x", "speed", "vy"]).to_pylist()
    [{'ts': 7, 'type': 'ball', 'x': 1.5, 'speed': 2.0, 'vy': 2.0}]
    """
    sid = raw["sid"]
    speed, acceleration = raw["v"] / 1e6, raw["a"] / 1e6
    columns: dict[str, Any] = {
        "ts": raw["ts"] // 1_000_000,
        "type": pa.array(TYPES).take(stadium.type_of[sid]),
        "sid": sid.astype(np.int32),
        **{name: raw[name] / 1e3 for name in ("x", "y", "z")},
        "speed": speed,
        "acceleration": acceleration,
        **{name: speed * (raw[name] / 1e4) for name in ("vx", "vy", "vz")},
    }
    if directions:
        columns |= {name: acceleration * (raw[name] / 1e4) for name in ("ax", "ay", "az")}
    return pa.table(columns)


def raw_positions(table: pa.Table) -> dict[str, Ints]:
    """A table of positions as the integers of a file: the inverse of `positions`."""
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise EventError(
            f"expected a table of positions, but it has no columns {missing}; got the columns "
            f"{table.column_names}"
        )

    def numbers(name: str) -> npt.NDArray[Any]:
        return table[name].to_numpy()

    def direction(names: tuple[str, ...], size: str) -> dict[str, Ints]:
        length = numbers(size)
        scale = np.divide(1e4, length, out=np.zeros(len(length)), where=length > 0)
        return {name: _whole(numbers(name) * scale) for name in names}

    raw = {
        "sid": numbers("sid").astype(np.int64),
        "ts": numbers("ts") * 1_000_000,
        **{name: _whole(numbers(name) * 1e3) for name in ("x", "y", "z")},
        "v": _whole(numbers("speed") * 1e6),
        "a": _whole(numbers("acceleration") * 1e6),
        **direction(("vx", "vy", "vz"), "speed"),
    }
    if "ax" in table.column_names:
        return raw | direction(("ax", "ay", "az"), "acceleration")
    return raw | {name: np.zeros(len(table), np.int64) for name in ("ax", "ay", "az")}


def _whole(values: npt.NDArray[np.float64]) -> Ints:
    return np.rint(values).astype(np.int64)


def _blocks(path: Path, skipped: Skipped | None) -> Iterator[pa.RecordBatch]:
    """The file as columns of text or numbers, block by block."""

    def odd(_row: csv.InvalidRow) -> Literal["skip", "error"]:
        if skipped is None:
            return "error"
        skipped.malformed += 1
        return "skip"

    kind = pa.int64() if skipped is None else pa.string()
    reading = csv.ReadOptions(
        block_size=_BLOCK, column_names=list(RAW), skip_rows=_lines_of_names(path),
        use_threads=False,
    )  # fmt: skip
    parsing = csv.ParseOptions(invalid_row_handler=odd)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(RAW, kind), strings_can_be_null=True
    )  # fmt: skip
    try:
        with _opened(path) as stream, csv.open_csv(stream, reading, parsing, converting) as reader:
            yield from reader
    except (pa.ArrowInvalid, OSError) as error:
        raise EventError(
            f"{path} cannot be read as a recording, 13 whole numbers a line ({', '.join(RAW)}): "
            f"{error}; correct the file, or skip such rows"
        ) from None


def _lines_of_names(path: Path) -> int:
    """The number of header lines; also checks the number of columns."""
    try:
        with _opened(path) as stream:
            line = stream.read(4096).decode("utf-8", "replace").split("\n", 1)[0]
    except OSError as error:
        raise EventError(f"{path} cannot be read: {error}") from None
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(RAW):
        raise EventError(
            f"expected {len(RAW)} columns ({', '.join(RAW)}) in {path}, got {len(fields)} in its "
            f"first line: {line[:100]!r}"
        )
    return 0 if fields[0].lstrip("+-").isdigit() else 1


def _opened(path: Path) -> Any:
    return pa.input_stream(str(path), compression="detect")


def _checked(
    batches: Iterable[pa.RecordBatch], path: Path, stadium: Stadium, skipped: Skipped | None
) -> Iterator[dict[str, Ints]]:
    """The valid rows, as integers."""
    for batch in batches:
        if skipped is None and any(column.null_count for column in batch.columns):
            raise EventError(
                f"expected {len(RAW)} whole numbers in every line of {path}, got an empty field"
            )
        sound = batch if skipped is None else _sound(batch, skipped)
        raw = {name: sound.column(name).to_numpy() for name in RAW}
        known = _known(raw["sid"], stadium)
        if not known.all():
            if skipped is None:
                sid = raw["sid"][~known][0]
                raise EventError(
                    f"expected sensors of the stadium {stadium.name!r} in {path}, got the sensor "
                    f"{sid}; pass the right stadium, or skip such rows"
                )
            skipped.unknown += int((~known).sum())
            raw = {name: column[known] for name, column in raw.items()}
        yield raw


def _known(sid: Ints, stadium: Stadium) -> npt.NDArray[np.bool_]:
    types = stadium.type_of
    inside = (sid >= 0) & (sid < len(types))
    return inside & (types[np.where(inside, sid, 0)] >= 0)


def _sound(batch: pa.RecordBatch, skipped: Skipped) -> pa.RecordBatch:
    """The rows of text that are integers, as integers."""
    import pyarrow.compute as pc  # slow to load, and only text needs it

    keep = np.ones(len(batch), dtype=bool)
    for column in batch.columns:
        fits: Any = pc.match_substring_regex(column, _INTEGER)
        keep &= fits.fill_null(False).to_numpy(zero_copy_only=False)
    skipped.malformed += int((~keep).sum())
    kept = batch.filter(pa.array(keep))
    numbers = [pc.cast(pc.utf8_trim_whitespace(column), pa.int64()) for column in kept.columns]
    return pa.RecordBatch.from_arrays(numbers, names=list(RAW))


def _write_csv(tables: Iterable[pa.Table], path: Path) -> int:
    schema = pa.schema([pa.field(name, pa.int64()) for name in RAW])
    options = csv.WriteOptions(include_header=False)
    stream: Any
    count = 0
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(f"{','.join(RAW)}\n".encode())
        with csv.CSVWriter(stream, schema, write_options=options) as writer:
            for table in tables:
                raw = raw_positions(table)
                writer.write_table(pa.table({name: pa.array(raw[name]) for name in RAW}))
                count += len(table)
    return count


def _write_parquet(tables: Iterable[pa.Table], path: Path) -> int:
    writer: pq.ParquetWriter | None = None
    count = 0
    try:
        for table in tables:
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
            count += len(table)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise EventError(f"expected positions to write to {path}, got none")
    return count
