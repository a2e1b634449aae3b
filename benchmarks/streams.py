"""The streams that several benchmarks run on, and how they are cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from betimes import EventBatch
from betimes.testing import sensor_stream

CLOCK = "ball"
"""The type of the clock events in `sensor_stream`."""
KEYS = 64
PHONES = Path(__file__).resolve().parents[2] / "shared" / "data" / "phones"
"""Recordings of phones. They are not part of the project and may be missing."""


def keyed_stream(n: int, *, keys: int = KEYS, seed: int = 1) -> EventBatch:
    """`sensor_stream` with a payload: a key, the key's team, a force."""
    stream = sensor_stream(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    columns = zip(rng.integers(0, keys, n).tolist(), rng.integers(0, 100, n).tolist(), strict=True)
    payload = [{"key": key, "team": key % 4, "force": force} for key, force in columns]
    return EventBatch(stream.ts, stream.codes, stream.types, payload)


def keyed_columns(n: int, *, keys: int = KEYS, seed: int = 1) -> EventBatch:
    """The same with the payload in Arrow columns."""
    stream = keyed_stream(n, keys=keys, seed=seed)
    assert isinstance(stream.payload, list)
    table = pa.Table.from_pylist(stream.payload)
    return EventBatch(stream.ts, stream.codes, stream.types, table)


def readings_stream(n: int, *, seed: int = 1) -> EventBatch:
    """`sensor_stream` with eight columns of numbers; about 22 peaks in 1,000 readings."""
    stream = sensor_stream(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    columns = {name: pa.array(rng.normal(size=n)) for name in ("x", "y", "z", "a", *"uvwq")}
    return EventBatch(stream.ts, stream.codes, stream.types, pa.table(columns))


def phone_streams() -> Iterator[tuple[str, EventBatch]]:
    """The recordings of phones that exist, with their names."""
    for path in sorted(PHONES.glob("*.csv")):
        table = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter=";"))
        ts = table["S.Client.Detection.Time"].to_numpy().astype(np.int64) * 1000
        payload = [{"device": device} for device in table["S.Device.ID"].to_pylist()]
        yield path.stem, EventBatch(ts, np.zeros(len(ts), np.int32), ("message",), payload)


def cut(stream: EventBatch, batch: int) -> Iterator[EventBatch]:
    for low in range(0, len(stream), batch):
        yield stream[low : low + batch]
