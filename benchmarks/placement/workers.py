"""Worker processes against one process: light detectors, and heavy ones.

* *match*: the football hierarchy in pure buffering, in batches of 0.1 s and of 1 s. Its detectors
  are compiled or see few events: most of the time goes into ordering and wiring.
* *heavy*: eight Python detectors on two levels that compute for some tens of microseconds per
  event; they publish something of each event, or of one in fifty.

The first third is not counted: processes start, functions are compiled, detectors find their place.
CPU seconds are those of all processes together.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from benchmarks.snippet import Snippet
from betimes.apps.soccer.disorder import PRESETS
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED
from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.model.change import Change, fold

SECONDS = 30.0
LOOPS = 400


class Computes:
    """Something that takes a while."""

    def __init__(self, out: str, every: int) -> None:
        self.out = out
        self.every = every
        self.total = 0

    def on_event(self, event: Event) -> Event | None:
        x: int = event["v"]
        for n in range(LOOPS):
            x = (x * 31 + n) & 0xFFFF
        self.total += 1
        if self.total % self.every:
            return None
        return Event(self.out, event.ts, {"v": x})


def heavy(every: int) -> Hierarchy:
    found = Hierarchy(clock="in")
    for n in range(4):
        for name, on in ((f"low{n}", ("in",)), (f"high{n}", ("in", f"low{n}"))):
            found.add(Computes(name, every), on=on, emits=name, name=name)
    return found


def heavy_stream() -> list[Any]:
    events = [Event("in", 1000 * n - n % 7 * 900 + 10_000, {"v": n}) for n in range(24_000)]
    return [events[at : at + 200] for at in range(0, len(events), 200)]


def match_stream(each: int) -> list[Any]:
    """Batches of the match, so many of 0.1 s together."""
    snippet = Snippet.of(SECONDS, next(iter(PRESETS.values())))
    tables = [table for _, table in snippet.batches()]
    return [pa.concat_tables(tables[at : at + each]) for at in range(0, len(tables), each)]


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(hierarchy: Hierarchy, batches: Sequence[Any], workers: int | None) -> tuple[Any, ...]:
    """Seconds and CPU seconds of the last two thirds, and the result."""
    engine, changes = Engine(hierarchy, workers=workers, attenuation=1.0), list[Change]()
    pids = [os.getpid()] + ([] if workers is None else list(engine._order._crew.pool.pids))
    third = len(batches) // 3
    for batch in batches[:third]:
        changes += engine.feed(batch)
    engine.stats  # noqa: B018 - waits until nothing is in transit
    began, before = time.perf_counter(), sum(map(cpu_of, pids))
    for batch in batches[third:]:
        changes += engine.feed(batch)
    engine.stats  # noqa: B018
    took, cpu = time.perf_counter() - began, sum(map(cpu_of, pids)) - before
    changes += engine.finish()
    if workers is not None:
        engine._order._crew.pool.close()
    return took, cpu, fold(changes)


def show(rounds: int) -> None:
    jobs: dict[str, tuple[Any, list[Any]]] = {
        "match, batches of 0.1 s": (lambda: soccer(SIMULATED), match_stream(1)),
        "match, batches of 1 s": (lambda: soccer(SIMULATED), match_stream(10)),
        "heavy, publish everything": (lambda: heavy(1), heavy_stream()),
        "heavy, publish 2 %": (lambda: heavy(50), heavy_stream()),
    }
    print("| job | one process, s | 1 worker | 2 workers | CPU s: one process | 2 workers |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, (hierarchy, batches) in jobs.items():
        found: dict[int | None, list[tuple[Any, ...]]] = {None: [], 1: [], 2: []}
        for _ in range(rounds):
            for workers, mine in found.items():
                mine.append(run(hierarchy(), batches, workers))
        assert all(each[2] == found[None][0][2] for mine in found.values() for each in mine)
        alone = found[None]
        faster = {
            workers: statistics.median(a[0] / b[0] for a, b in zip(alone, mine, strict=True))
            for workers, mine in found.items()
        }
        cpu = {w: statistics.median(each[1] for each in mine) for w, mine in found.items()}
        print(
            f"| {name} | {statistics.median(each[0] for each in alone):.2f} | {faster[1]:.2f} x "
            f"| {faster[2]:.2f} x | {cpu[None]:.2f} | {cpu[2]:.2f} |", flush=True,
        )  # fmt: skip
