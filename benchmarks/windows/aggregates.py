"""Aggregates without Python, beside polars over the sorted table.

Both give the mean of each window, for each of 64 keys. polars gets the whole table, which it sorts;
the engine gets batches, finds the order itself, and could still take back what it has said. Both
find the same windows, except that polars leaves out windows of time that begin before the first
event.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import betimes as bt
from betimes import EventBatch

KEYS = 64
BATCH = 50_000
GAP = 20_000
WINDOWS = {
    "10 s every 2 s": bt.window(time="10s", slide="2s"),
    "1,000 events every 200": bt.window(count=1_000, slide=200),
    "sessions": bt.window(gap=GAP),
}


def stream(events: int, delay: int, seed: int = 1) -> pa.Table:
    """Readings of 64 machines, 10,000 per second, in order of arrival."""
    rng = np.random.default_rng(seed)
    ts = np.arange(events) * 100
    order = np.argsort(ts + rng.integers(0, delay + 1, events), kind="stable")
    columns: dict[str, pa.Array[Any]] = {
        "ts": pa.array(ts[order]),
        "type": pa.array(["reading"] * events),
        "machine": pa.array(rng.integers(0, KEYS, events)[order]),
        "watts": pa.array(rng.normal(100, 20, events)[order]),
    }
    return pa.table(columns)


def of_engine(table: pa.Table, shape: str, attenuation: float) -> int:
    """Feed the table; return how many windows there are."""
    plant = bt.Hierarchy(clock="reading")
    mean = bt.windowed(bt.aggregate(mean="avg(watts)"), WINDOWS[shape])
    plant.add(mean, on="reading", emits="load", by="machine")
    engine = bt.Engine(plant, attenuation=attenuation)
    found = 0
    for low in range(0, len(table), BATCH):
        found += _more(engine.feed(EventBatch.from_arrow(table.slice(low, BATCH))))
    return found + _more(engine.finish())


def _more(changes: bt.ChangeBatch) -> int:
    """How many windows there are more than before."""
    kinds = Counter(changes.to_arrow()["change_type"].to_pylist())
    return kinds["insert"] - kinds["delete"]


def of_polars(table: pa.Table, shape: str) -> int:
    """The same with polars, from the sorted table."""
    pl: Any = importlib.import_module("polars")  # not a dependency
    frame = pl.from_arrow(table.select(["ts", "machine", "watts"]))
    frame = frame.sort("ts")
    if shape == "10 s every 2 s":
        frame = frame.with_columns(pl.from_epoch("ts", time_unit="us").alias("ts"))
        groups = frame.group_by_dynamic("ts", every="2s", period="10s", group_by="machine")
    elif shape == "sessions":
        begins = pl.col("ts").diff().fill_null(0) >= GAP
        frame = frame.with_columns(begins.cum_sum().over("machine").alias("session"))
        groups = frame.group_by("machine", "session")
    else:
        frame = frame.with_columns(pl.int_range(pl.len()).over("machine").alias("n"))
        groups = frame.group_by_dynamic("n", every="200i", period="1000i", group_by="machine")
    return int(groups.agg(pl.col("watts").mean()).height)


def rates(contenders: dict[str, Callable[[], int]], events: int, repeats: int) -> dict[str, float]:
    """Events per CPU second of each contender, the best of several runs, taken in turn."""
    best = dict.fromkeys(contenders, 0.0)
    for _ in range(repeats):
        for name, run in contenders.items():
            began = time.process_time()
            run()
            best[name] = max(best[name], events / (time.process_time() - began))
    return best
