"""*Snapshots*: the memory they take, by the size of the state."""

from __future__ import annotations

import gc
import tracemalloc

from benchmarks.engines import snapshots
from benchmarks.racing import progress_bar
from benchmarks.speculation.detectors import Ring
from benchmarks.speculation.measuring import Readings, Size
from benchmarks.streams import CLOCK, cut, keyed_stream
from betimes import Engine, EventBatch, Hierarchy


def measure_snapshots(size: Size) -> Readings:
    """The most that snapshots take at the end of a batch: as the engine counts it, and measured."""
    events = min(size.events, 3000)
    stream = keyed_stream(events)
    models: tuple[int | str, ...] = (1, 100, "speculative:20", "adaptive")
    elements = (10, 1000, 100_000)
    readings: Readings = {}
    # Warm up: what the process allocates once would count as part of the first run.
    _snapshots(stream, 1, 100)
    with progress_bar() as bar:
        task = bar.add_task("Snapshots", total=len(models) * len(elements))
        for count in elements:
            rows = readings[f"Snapshots of {count:,} numbers, {events:,} events"] = {}
            for model in models:
                # About 1,500 events are within the slack; a number takes 8 bytes.
                large = model == 1 and count > 10_000
                rows[f"snapshots={model!r}"] = (
                    f"not run: 1,500 snapshots, about {1500 * 8 * count / 2**20:,.0f} MiB"
                    if large
                    else _snapshots(stream, count, model)
                )
                bar.advance(task)
    return readings


def _snapshots(stream: EventBatch, count: int, model: int | str) -> str:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(Ring([0] * count), on=stream.types, emits="rise")
    gc.collect()
    tracemalloc.start()
    try:
        engine = Engine(hierarchy, attenuation=0.3, retention="0s", **snapshots(model))
        number = held = 0
        for part in cut(stream, 100):
            engine.feed(part)
            (stats,) = engine.stats.values()
            number, held = max(number, stats.snapshots), max(held, stats.snapshot_bytes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return f"{number:,} at most, {held / 2**20:.2f} MiB; total peak {peak / 2**20:.1f} MiB"
