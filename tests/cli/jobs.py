"""What the tests of `betimes run` share: a job, its data, and ways to run it and read its sink."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from betimes import Change, Event, Hierarchy, pattern
from betimes.cli import app
from betimes.cli.jobs.io.files import Position, dataset
from betimes.cli.jobs.io.sources import SimulatedSource
from betimes.cli.jobs.jobfile.conflicts import read_job

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "job" / "touches.toml"
ROWS, FILES = 6_000, 3

JOB = """
[source]
format = "parquet"
path = "events/"
arrival = "seq"
by = "key"
batch_rows = 500

[detect]
clock = "ball"
attenuation = 0.3

[[detect.pattern]]
match = "near !not_near hit"
by = "key"
within = "500ms"
emits = "touch"

[engine]
kind = "local"
checkpoint = "checkpoint/"

[sink]
format = "parquet"
path = "out/"
"""


def stream(rows: int = ROWS) -> pa.Table:
    """The first rows of the simulated stream."""
    source = SimulatedSource(read_job(EXAMPLE).source)
    return next(source.batches(Position(), rows))[0]


def write_events(folder: Path, table: pa.Table | None = None, *, format: str = "parquet") -> None:  # noqa: A002
    """The stream as a folder of files."""
    events = stream() if table is None else table
    folder.mkdir()
    size = -(-len(events) // FILES)
    for number in range(FILES):
        part, file = events.slice(number * size, size), folder / f"part-{number}.{format}"
        if format == "parquet":
            pq.write_table(part, file)
        elif format == "csv":
            pyarrow.csv.write_csv(part, file)
        else:
            lines = [msgspec.json.encode(row).decode() for row in part.to_pylist()]
            file.write_text("\n".join(lines) + "\n")


def make(folder: Path, *replaced: tuple[str, str]) -> Path:
    """A folder with events and a job file in which some texts were replaced."""
    job = JOB
    for old, new in replaced:
        assert old in job
        job = job.replace(old, new)
    if not (folder / "events").exists():
        write_events(folder / "events")
    file = folder / "job.toml"
    file.write_text(job)
    return file


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["run", *map(str, arguments)], env={"COLUMNS": "100"})


def process(*arguments: str | Path) -> subprocess.Popen[str]:
    """The same in a process of its own."""
    command = [sys.executable, "-W", "error", "-m", "betimes", "run", *map(str, arguments)]
    pipe = subprocess.PIPE
    environment = os.environ | {"COLUMNS": "100"}
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def written(folder: Path, format: str = "parquet") -> list[dict[str, Any]]:  # noqa: A002
    """The rows of a sink in order."""
    files = sorted(str(path) for path in folder.glob("batch=*/[!._]*"))
    if format == "csv":
        tables = [pyarrow.csv.read_csv(file) for file in files]
    else:
        tables = [dataset(Path(file), format).to_table() for file in files]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row["slot"], row["seq"]))


def changes(rows: list[dict[str, Any]]) -> list[Change]:
    """The rows of a sink as changes."""
    fields = Change.__struct_fields__
    return [
        Change(**{f: row[f] for f in fields if f != "payload"}, payload=_payload(row["payload"]))
        for row in rows
    ]


def _payload(text: str) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.json.decode(text)
    return payload


def touches() -> Hierarchy:
    """What the job looks for, said in Python."""
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(pattern("near !not_near hit", by="key", within="500ms", emits="touch"))
    return hierarchy


def events(table: pa.Table) -> list[Event]:
    """Rows as events, in order of arrival."""
    names = [name for name in table.column_names if name not in ("ts", "type")]
    return [
        Event(row["type"], row["ts"], {name: row[name] for name in names})
        for row in table.to_pylist()
    ]
