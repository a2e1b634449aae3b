"""Where the changes of a local job go, in such a way that restarts leave no trace.

Files are numbered by batch: `batch=3/changes.parquet` holds the changes of batch 3. A file appears
complete or not at all, and a batch that runs again after a stop replaces it. The layout is the same
as on Spark, so that the same readers work for both.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.cli.speaking import shown
from betimes.host.folder import put
from betimes.model import OptionError, readable

_LOOK = {"insert": ("+", "green"), "confirm": ("=", "blue"), "delete": ("-", "red")}
_DONE = "changes"


class Sink(Protocol):
    """Takes the changes of each batch; the same batch may come again after a restart."""

    def begin(self, first: int, *, known: bool) -> None:
        """Prepare for batch `first` and later ones: remove what an earlier attempt left of them.

        `known` says that the checkpoint of the job accounts for earlier batches.
        """
        ...

    def write(self, batch: int, changes: pa.Table) -> None: ...


def sink_of(job: JobFile, console: Console) -> Sink:
    """The sink of a local job."""
    if job.sink.format == "console":
        return ConsoleSink(console)
    return FileSink(Path(str(job.sink.path)), job.sink.format)


class FileSink:
    """A folder of files, one for each batch that has changes."""

    def __init__(self, folder: Path, format: str) -> None:  # noqa: A002
        self._folder = folder
        self._format = format

    def begin(self, first: int, *, known: bool) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        numbers = dict(batches_in(self._folder))
        if numbers and not known:
            raise OptionError(
                f"expected an empty folder {shown(self._folder)} for a new run, but it "
                f"holds the changes of {len(numbers)} batches; give the job another [sink] path, "
                "or start over with --fresh, which removes them"
            )
        for number, path in numbers.items():
            if number >= first:
                shutil.rmtree(path)

    def write(self, batch: int, changes: pa.Table) -> None:
        if not len(changes):
            return
        folder = self._folder / f"batch={batch}"
        folder.mkdir(exist_ok=True)
        put(folder / f"{_DONE}.{self._format}", encoded(changes, self._format))


def batches_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """The folders `batch=N` in a folder, with their numbers."""
    for path in folder.glob("batch=*"):
        number = path.name.partition("=")[2]
        if number.isdecimal() and path.is_dir():
            yield int(number), path


def encoded(changes: pa.Table, format: str) -> bytes:  # noqa: A002
    """A table as the content of a file."""
    content = io.BytesIO()
    if format == "parquet":
        pq.write_table(changes, content)
    elif format == "csv":
        pyarrow.csv.write_csv(changes, content)
    else:
        encoder = msgspec.json.Encoder()
        for row in changes.to_pylist():
            content.write(encoder.encode(row) + b"\n")
    return content.getvalue()


class ConsoleSink:
    """One line per change: `+` found, `=` confirmed, `-` taken back."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, first: int, *, known: bool) -> None:
        """Lines on a console cannot be removed."""

    def write(self, batch: int, changes: pa.Table) -> None:  # noqa: ARG002
        for row in changes.to_pylist():
            sign, style = _LOOK[row["change_type"]]
            # In a rejected row, any of the times can be missing.
            at = "" if row["ts"] is None else f" at {row['ts']}"
            if at and row["detected_at"] is not None:
                at += f" known after {readable(max(0, row['detected_at'] - row['ts']))}"
            line = f"{sign} {row['status']:11} {row['type']}{at}"
            why = f"  {row['cause']}" if row["change_type"] == "delete" else ""
            text = Text.assemble((line, style), f"  {row['payload']}", (why, "dim"))
            self._console.print(text, soft_wrap=True)
