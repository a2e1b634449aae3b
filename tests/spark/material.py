"""What the tests of the pipeline run: a stream in disorder, a hierarchy, and ways to read results.

Detectors are defined in this module, which the workers import.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from betimes import Change, Engine, Event, EventBatch, Hierarchy, pattern
from betimes.testing import sensor_stream

OPTIONS: dict[str, Any] = {
    "arrival": "seq", "by": "key", "slots": 2, "attenuation": 0.3,
    # `auto` goes by the time that things take, and then the order of confirmations may differ.
    "retraction": "on-demand",
}  # fmt: skip
"""Of runs that are compared to the last number."""

SCHEMA = "ts long, type string, key long, force long, seq long"


@dataclass
class NotBetween:
    """`near !not_near hit`, for one key."""

    since: int | None = None

    def on_event(self, event: Event) -> Event | None:
        if event.type == "near":
            self.since = event.ts
        elif event.type == "not_near":
            self.since = None
        elif self.since is not None:
            since, self.since = self.since, None
            return Event("touch", event.ts, {"key": event["key"], "from": since})
        return None


@dataclass
class Pairs:
    """Every second touch of a key, with the time since the first."""

    first: int | None = None

    def on_event(self, event: Event) -> Iterator[Event]:
        if self.first is None:
            self.first = event.ts
            return
        yield Event("pair", event.ts, {"key": event["key"], "took": event.ts - self.first})
        self.first = None


def hierarchy() -> Hierarchy:
    """Two levels, by key, with a clock that no detector reads."""
    touches = Hierarchy(clock="ball")
    touches.add(NotBetween, on=("near", "not_near", "hit"), emits="touch", by="key")
    touches.add(Pairs, on="touch", emits="pair", by="key")
    return touches


@dataclass
class Fragile:
    """Breaks at a strong hit."""

    def on_event(self, event: Event) -> Event | None:
        if event["force"] > 5:
            raise ZeroDivisionError("too strong")
        return None


def followed() -> Hierarchy:
    """A compiled pattern, by key."""
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(pattern("A !(A|B) C", by="key", emits="match"))
    return hierarchy


def lettered(table: pa.Table) -> pa.Table:
    """The same stream with the types of that pattern."""
    letters = {"near": "A", "not_near": "B", "hit": "C"}
    types = pa.array([letters.get(str(type), str(type)) for type in table["type"].to_pylist()])
    return table.set_column(table.column_names.index("type"), "type", types)


def stream(n: int, *, keys: int = 16, seed: int = 0) -> pa.Table:
    """`sensor_stream` as a table, with a key, a force and the arrival number."""
    events = sensor_stream(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    return pa.table(
        {
            "ts": pa.array(events.ts),
            "type": pa.array(events.types).take(events.codes),
            "key": pa.array(rng.integers(0, keys, n)),
            "force": pa.array(rng.integers(0, 100, n)),
            "seq": pa.array(np.arange(n)),
        }
    )


def write_parts(table: pa.Table, folder: Path, rows: int) -> Path:
    """A folder of Parquet files, which a stream reads one after the other.

    Spark takes them in the order of their times, to the millisecond; so these are set apart.
    """
    folder.mkdir(parents=True)
    began = time.time() - 3600
    for number, low in enumerate(range(0, len(table), rows)):
        file = folder / f"part-{number:05}.parquet"
        pq.write_table(table.slice(low, rows), file)
        os.utime(file, (began + number, began + number))
    return folder


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The files of a folder as a stream, one in each micro-batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run_locally(
    table: pa.Table, detectors: Hierarchy | None = None, *, rows: int = 1000, **options: Any
) -> list[Change]:
    """What the local engine tells, with the whole stream behind one clock."""
    engine = Engine(detectors or hierarchy(), **({"by": "key"} | options))
    changes: list[Change] = []
    for low in range(0, len(table), rows):
        changes += engine.feed(EventBatch.from_arrow(table.slice(low, rows), arrival="seq"))
    return [*changes, *engine.finish()]


def standing(changes: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
    """What a table holds that is merged by `match_id`; the rows in the order of slot and seq."""
    rows: dict[str, tuple[Any, ...]] = {}
    for change in changes:
        if change.change_type == "delete":
            del rows[change.match_id]
        else:
            rows[change.match_id] = (change.type, change.ts, change.status)
    return rows


def in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row.slot, row.seq))


def defined_in_the_script(monkeypatch: pytest.MonkeyPatch, thing: Any) -> None:
    """What the script that is run would define: a test process need not have a file."""
    script = sys.modules["__main__"]
    monkeypatch.setattr(script, "__file__", __file__, raising=False)
    monkeypatch.setattr(script, thing.__name__, thing, raising=False)
