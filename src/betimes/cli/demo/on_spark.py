"""The fourth part of `betimes demo`: the same detectors as a streaming query on Spark.

The game is written to a few parquet files, in order of arrival, and read back as a stream, one file
per micro-batch: what a data engineer would do with `bt.spark.detect`, on an embedded Spark.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from betimes.cli.demo.early import GameResult, Told, because, looks, result_of, seconds
from betimes.cli.demo.game import Game, soccer
from betimes.cli.jobs.io.sources import set_age
from betimes.model.change import Change

WAYS = {"1 on Spark (buffering)": 1.0, "0 on Spark (no waiting)": 0.0}
FILES = 20
_SHOWN = 4
"""Rows of a micro-batch that are printed."""


def why_not() -> str | None:
    """What Spark needs and does not find, and what to do; None if it can run."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed; run pip install 'betimes[spark]'"
    if shutil.which("java") is None and not _java_home():
        return "Java is not installed; install Java 17 or newer, or set JAVA_HOME"
    return None


def _java_home() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool(home) and Path(str(home), "bin", "java").exists()


def watch_on_spark(
    game: Game, console: Console, starting: AbstractContextManager[Any]
) -> list[GameResult]:
    """Let a streaming query watch the game, once for each attenuation."""
    with _folder() as folder:
        with starting:
            from betimes import spark as bt_spark

            session = bt_spark.session("betimes demo", master="local[2]", log=folder / "spark.log")
        session.sparkContext.setLogLevel("ERROR")
        _write(game, folder / "events")
        return [
            _watch(session, way, folder, f"checkpoint-{number}", console)
            for number, way in enumerate(WAYS)
        ]


def _watch(session: Any, way: str, folder: Path, checkpoint: str, console: Console) -> GameResult:
    from betimes import spark as bt_spark

    events = folder / "events"
    schema = session.read.parquet(str(events)).schema
    stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(events))
    changes = bt_spark.detect(stream, soccer(), arrival="seq", attenuation=WAYS[way], slots=1)
    run = GameResult(way)
    console.print(f"attenuation {way}", style="bold")

    def show(rows: Any, batch: int) -> None:
        fresh = [_change(row.asDict()) for row in rows.collect()]
        fresh.sort(key=lambda change: change.seq)
        run.told += (Told(change.detected_at, change) for change in fresh)
        _print(fresh, batch, console)

    query = bt_spark.write(
        changes, into=show, checkpoint=str(folder / checkpoint), available_now=True
    )
    query.wait()
    query.finish()
    return run


def _print(changes: list[Change], batch: int, console: Console) -> None:
    """A line about a micro-batch, and a few of its rows if something was taken back."""
    kinds = Counter(change.change_type for change in changes)
    if not changes:
        return
    console.print(
        f"  micro-batch {batch}: {kinds['insert']} found, {kinds['delete']} taken back, "
        f"{kinds['confirm']} confirmed"
    )
    wrong = [change for change in changes if change.change_type == "delete"]
    if not wrong:
        return
    for change in (wrong + [c for c in changes if c.change_type == "insert"])[:_SHOWN]:
        sign = "-" if change.change_type == "delete" else "+"
        line = f"    {sign} {result_of(change.event)} at {seconds(change.ts)}, {change.status}"
        if change.change_type == "delete":
            line += f", because of {because(change.cause)}"
        console.print(Text(line, style=looks(change.change_type)))


def _change(row: dict[str, Any]) -> Change:
    payload = msgspec.json.decode(row["payload"])
    fields = {name: row[name] for name in Change.__struct_fields__ if name != "payload"}
    return Change(**fields, payload=payload)


def _write(game: Game, folder: Path) -> None:
    """Write the events to files, in order of arrival."""
    folder.mkdir()
    size = -(-len(game.events) // FILES)
    for number, low in enumerate(range(0, len(game.events), size)):
        part = game.events[low : low + size]
        columns: dict[str, Any] = {
            "seq": pa.array(range(low, low + len(part)), pa.int64()),
            "ts": pa.array([event.ts for event in part], pa.int64()),
            "type": pa.array([event.type for event in part], pa.string()),
            "player": pa.array([event.payload.get("player") for event in part], pa.string()),
            "a": pa.array([event.payload.get("a") for event in part], pa.int64()),
        }
        file = folder / f"part-{number:03}.parquet"
        pq.write_table(pa.table(columns), file)
        set_age(file, number)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="betimes-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)
