"""*Retraction*: the events that it touches and its CPU time, by technique."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.engines import snapshots
from benchmarks.racing import Race, Result, Target, progress_bar
from benchmarks.speculation.measuring import Found, Readings, Size, check_same
from benchmarks.streams import cut, keyed_stream
from betimes import Change, Engine, EventBatch, Hierarchy, fold

TECHNIQUES = ("full", "on-demand", "auto")


@dataclass(frozen=True)
class Taken:
    """A run with one technique."""

    seconds: float
    found: Found
    retracted: int
    replayed: int
    chosen: dict[str, str]


def run_retraction(hierarchy: Hierarchy, stream: EventBatch, technique: Any, batch: int) -> Taken:
    gc.collect()
    engine = Engine(hierarchy, attenuation=0.0, retraction=technique, **snapshots(1))
    changes: list[Change] = []
    began = time.process_time()
    for part in cut(stream, batch):
        changes += engine.feed(part)
    changes += engine.finish()
    seconds = time.process_time() - began
    stats = engine.stats.values()
    return Taken(
        seconds,
        fold(changes),
        sum(s.retracted for s in stats),
        sum(s.replayed for s in stats),
        {s.detector: s.retraction for s in stats},
    )


def race_retraction(
    size: Size, states: str, hierarchy: Hierarchy, *, batch: int
) -> tuple[Race, Readings, list[Target]]:
    stream = keyed_stream(min(size.events, 50_000))
    title = f"Retraction, five levels, {states}, CPU time"
    laps: dict[str, list[Taken]] = {technique: [] for technique in TECHNIQUES}
    with progress_bar() as bar:
        task = bar.add_task(title, total=(size.rounds + 1) * len(TECHNIQUES))
        for _ in range(size.rounds + 1):
            for technique in TECHNIQUES:
                laps[technique].append(run_retraction(hierarchy, stream, technique, batch))
                check_same(technique, laps[technique][-1].found, laps["full"][0].found)
                bar.advance(task)
    results = {
        name: Result(name, len(stream), tuple(lap.seconds for lap in mine[1:]))
        for name, mine in laps.items()
    }
    found = Race(title, results, ("full", "on-demand"))
    rows = {name: _touched(mine[-1]) for name, mine in laps.items()}
    rows |= {f"auto, {name}": why for name, why in laps["auto"][-1].chosen.items()}
    name = f"retraction, {states}: auto, x the better of the two"
    got = min(found.ratio("auto", other) for other in ("full", "on-demand"))
    return found, {f"Events touched by retraction, {states}": rows}, [Target(name, 1 / 1.1, got)]


def _touched(taken: Taken) -> str:
    both = taken.retracted + taken.replayed
    return f"{both:,}: {taken.retracted:,} retracted, {taken.replayed:,} handled again"
