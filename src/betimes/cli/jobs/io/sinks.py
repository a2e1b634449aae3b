"""Where the changes of a local job go, in such a way that restarts leave no trace.

Files are numbered by batch: `batch=3/changes.parquet` holds the changes of batch 3. A file appears
complete or not at all, and a batch that runs again after a stop replaces it. The layout is the same
as on Spark, so that the same readers work for both.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.host.folder import SinkFolder, put
from betimes.model import readable

_LOOK = {"insert": ("+", "green"), "confirm": ("=", "blue"), "delete": ("-", "red")}
_DONE = "changes"


class Sink(Protocol):
    """Takes the changes of each batch; the same batch may come again after a restart."""

    def __enter__(self) -> Sink:
        """Take the sink: it has one run at a time."""
        ...

    def __exit__(self, *_: object) -> None: ...

    def begin(self, first: int, owner: str, *, known: bool) -> None:
        """Prepare for batch `first` and later ones: remove what an earlier attempt left of them.

        `owner` is the id of the job's checkpoint; `known` says that it accounts for earlier
        batches.
        """
        ...

    def write(self, batch: int, changes: pa.Table) -> None: ...

    def forget(self) -> None:
        """Remove all batches."""
        ...


def sink_of(job: JobFile, console: Console) -> Sink:
    """The sink of a local job."""
    if job.sink.format == "console":
        return ConsoleSink(console)
    return FileSink(Path(str(job.sink.path)), job.sink.format)


class FileSink:
    """A folder of files, one for each batch that has changes."""

    def __init__(self, folder: Path, format: str) -> None:  # noqa: A002
        self._folder = SinkFolder(folder)
        self._format = format

    def __enter__(self) -> FileSink:
        self._folder.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.release()

    def begin(self, first: int, owner: str, *, known: bool) -> None:
        self._folder.claim(owner, known=known)
        for number, path in self._folder.batches():
            if number >= first:
                shutil.rmtree(path)

    def forget(self) -> None:
        for _, path in self._folder.batches():
            shutil.rmtree(path)

    def write(self, batch: int, changes: pa.Table) -> None:
        if not len(changes):
            return
        folder = self._folder.path / f"batch={batch}"
        folder.mkdir(exist_ok=True)
        put(folder / f"{_DONE}.{self._format}", encoded(changes, self._format))


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

    def __enter__(self) -> ConsoleSink:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, first: int, owner: str, *, known: bool) -> None:
        """Lines on a console cannot be removed."""

    def forget(self) -> None:
        """Nor can they here."""

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
