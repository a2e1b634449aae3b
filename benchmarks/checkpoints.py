"""What a full checkpoint costs with a long history: `python -m benchmarks.checkpoints`.

An engine is fed until its history takes the default budget of 32 MB. Then, after each of some more
batches, it is saved twice: *whole*, as `Engine.checkpoint()` does, and *apart*, as hosts do, which
store history that no longer changes once, in volumes. Seconds are CPU time.

The detectors have all tactics but transactions: a Python detector by key, a per-batch detector, a
compiled pattern by key, an object per window, and compiled aggregates over windows of both kinds.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.patterns import stream_of
from benchmarks.streams import cut
from betimes import Engine, Event, EventBatch, Hierarchy, aggregate, pattern, window, windowed

DETECTORS = (
    "per event", "per batch", "pattern", "windows", "windows of time", "windows by count",
)  # fmt: skip
BATCH = 20_000
BUDGET = 32_000_000


class Counts:
    """How many events since the last C."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, event: Event) -> Event | None:
        if event.type != "C":
            self.seen += 1
            return None
        seen, self.seen = self.seen, 0
        return Event("count", event.ts, {"seen": seen, "key": event["key"]})


class CountsBatches:
    """The same for batches."""

    def __init__(self) -> None:
        self.seen = 0

    def on_batch(self, batch: EventBatch) -> list[Event]:
        made = []
        for code, ts in zip(batch.codes.tolist(), batch.ts.tolist(), strict=True):
            if batch.types[code] == "C":
                made.append(Event("count", ts, {"seen": self.seen}))
                self.seen = 0
            else:
                self.seen += 1
        return made


def hierarchy(name: str) -> Hierarchy:
    made = Hierarchy(clock="X")
    if name == "pattern":
        made.add(pattern("A !(A|B) C", by="key", emits="count"), name="searched")
    elif name.startswith("windows"):
        operator: Any = Counts if name == "windows" else aggregate(n="count()")
        shape = window(time="10s") if name == "windows of time" else window(count=100, slide=50)
        made.add(
            windowed(operator, shape), on=("A", "B", "C"), emits="count", by="key", name="searched"
        )
    elif name == "per event":
        made.add(Counts, on=("A", "B", "C"), emits="count", by="key", name="searched")
    else:
        made.add(CountsBatches, on=("A", "B", "C"), emits="count", name="searched")
    return made


def measured(save: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """CPU seconds, and what was saved."""
    gc.collect()
    began = time.process_time()
    saved = save(*arguments)
    return time.process_time() - began, saved


def compare(name: str, rounds: int) -> list[tuple[float, int, float, int]]:
    """Seconds and bytes of each checkpoint: whole, and apart."""
    engine = Engine(hierarchy(name), attenuation=0.3)
    stored: set[bytes] = set()
    found: list[tuple[float, int, float, int]] = []
    for part in cut(stream_of(20_000_000), BATCH):
        engine.feed(part)
        if engine.stats["searched"].history_bytes < 0.75 * BUDGET and not found:
            continue
        seconds, whole = measured(engine.checkpoint)
        took, (checkpoint, written) = measured(engine.checkpoint_apart, stored)
        stored = set(written.names)
        new = sum(map(len, written.new.values()))
        found.append((seconds, len(whole), took, len(checkpoint) + new))
        if len(found) > rounds:
            break
    return found[1:]  # with the first, everything is new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.checkpoints")
    parser.add_argument("--rounds", type=int, default=9, help="checkpoints to measure")
    rounds = parser.parse_args().rounds
    table = Table("detector", "whole, s", "whole, MB", "apart, s", "apart, MB")
    for name in DETECTORS:
        columns = list(zip(*compare(name, rounds), strict=True))
        seconds, whole, took, apart = (median(column) for column in columns)
        table.add_row(
            name, f"{seconds:.3f}", f"{whole / 1e6:.1f}", f"{took:.3f}", f"{apart / 1e6:.2f}"
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
