"""The output of `betimes simulate`: making room for it, writing files, and counting."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from betimes.apps.soccer.recording import cut, write_recording
from betimes.model import OptionError, readable


@dataclass
class Written:
    """Counts of the rows on their way to the files."""

    rows: int = 0
    longest: int = 0
    """The largest delay, in microseconds."""
    late: int = 0
    """Rows that arrived after a later one."""
    first: int | None = None
    """The earliest time in the first table, in microseconds."""
    _newest: int = field(default=-1, repr=False)

    @property
    def seconds(self) -> float:
        """The length of the stream in seconds."""
        return (self._newest - (self.first or 0)) / 1e6 if self.rows else 0.0

    @property
    def order(self) -> str:
        """How far from it the stream is, in words."""
        late = self.late / max(self.rows, 1)
        return f"largest delay {readable(self.longest)}; {late:.1%} arrive after a later event"

    def seen(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Pass tables on and count their rows."""
        for table in tables:
            ts = table["ts"].to_numpy()
            if len(ts):
                self.first = int(ts.min()) if self.first is None else self.first
                self.rows += len(ts)
                self.longest = max(self.longest, int((table["arrived"].to_numpy() - ts).max()))
                newest = np.maximum.accumulate(np.maximum(ts, self._newest))
                self.late += int((ts < newest).sum())
                self._newest = int(newest[-1])
            yield table


def make_room(out: Path, *, folder: bool, force: bool) -> None:
    """Refuse to overwrite anything, unless `force` is set."""
    if not folder and out.is_dir():
        raise OptionError(f"expected OUT to be a file for --format csv, but {out} is a folder")
    if folder and out.is_file():
        raise OptionError(
            f"expected OUT to be a folder for --format parquet, but {out} is a file; name a "
            "folder, or a file that ends in .csv"
        )
    taken = out.is_file() or (out.is_dir() and any(out.iterdir()))
    if not taken:
        return
    if not force:
        raise OptionError(f"{out} already exists; choose another OUT, or replace it with --force")
    if out.is_file():
        out.unlink()
        return
    strange = [path.name for path in out.iterdir() if not path.name.startswith("part-")]
    if strange:
        raise OptionError(
            f"expected only part-*.parquet in {out}, got {strange[0]!r}; --force replaces only the "
            "output of a simulation"
        )
    shutil.rmtree(out)


def write(tables: Iterable[pa.Table], out: Path, *, folder: bool, rows: int) -> None:
    """Write a folder of parquet files of `rows` rows, or one file in the stadium's format."""
    if not folder:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_recording(tables, out)
        return
    out.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(cut(tables, rows)):
        pq.write_table(table, out / f"part-{number:06}.parquet")


def with_progress(
    tables: Iterable[pa.Table], doing: str, seconds: float | None
) -> Iterator[pa.Table]:  # fmt: skip
    """Show progress on a terminal, in seconds of the stream; `seconds` is its length, if known."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f} s"),
        TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(doing, total=seconds)
        first = None
        for table in tables:
            yield table
            if len(table):
                arrived = table["arrived"]
                first = arrived[0].as_py() if first is None else first
                progress.update(task, completed=(arrived[-1].as_py() - first) / 1e6)
