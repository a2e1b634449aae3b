"""The paper on speculation, section 5: latency, adaptation, CPU, memory, retraction."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.papers.machine import (
    TRIAL,
    Arrivals,
    Live,
    Machine,
    batches,
    slowness_for,
    tables_of,
)
from benchmarks.snippet import Snippet
from betimes.apps.soccer.disorder import PRESETS, disordered
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.simulator import simulate
from betimes.apps.soccer.stadium import SIMULATED
from betimes.engine import DetectorStats, Engine, Hierarchy
from betimes.model.change import Change, ChangeBatch, fold

MODES: dict[str, float | str] = {"buffering": 1, "adaptive": "adaptive", "attenuation 0": 0}
TECHNIQUES = ("full", "on-demand")
PASSES = ("pass", "unsuccessful_pass")
UNKNOWN_SENSOR = 4_000
"""A sensor that nobody wears: its positions are work, and change nothing."""
BURST = (8.5, 11.5)
"""From when to when more positions arrive, in seconds."""
Watch = Callable[[Engine, ChangeBatch], None]


@dataclass
class Trace:
    """What was seen of a run, batch by batch; times are seconds of the stream."""

    machine: Machine
    times: list[float] = field(default_factory=list)
    attenuation: list[float] = field(default_factory=list)
    """The mean of all detectors."""
    busy: list[float] = field(default_factory=list)
    """The busy factor that the engine's control loop sees."""
    lags: list[float] = field(default_factory=list)
    """How long after it was due a batch was done."""
    told: dict[str, tuple[Change, float]] = field(default_factory=dict)
    """Results of the watched types that still hold, with when they were told."""
    stats: dict[str, Any] = field(default_factory=dict)

    def latencies(self) -> list[tuple[float, float]]:
        """When a pass was received, and how much later it was told, in seconds."""
        found = ((c.payload["received"] / 1e6, at) for c, at in self.told.values())
        return sorted((received, at - received) for received, at in found)

    def mean_latency(self) -> float:
        """In milliseconds."""
        return statistics.mean(latency for _, latency in self.latencies()) * 1e3

    def steady(self, values: list[float]) -> float:
        """The mean over time, weighted by how long each value held."""
        return float(np.average(values[:-1], weights=np.diff(self.times)))


def run(
    machine: Machine,
    tables: Iterable[pa.Table],
    watch: Watch | None = None,
    match: Hierarchy | None = None,
    **options: Any,
) -> Trace:
    """Feed a stream to the match as it arrives at a machine."""
    engine = Engine(soccer(SIMULATED) if match is None else match, time=machine, **options)
    trace = Trace(machine)
    for due, batch in batches(machine, tables):
        with machine.working(due):
            changes = engine.feed(batch)
        _note(trace, engine, changes, due)
        if watch is not None:
            watch(engine, changes)
    trace.stats = engine.stats
    # What only the end of the stream makes known says nothing about latency.
    changes = engine.finish()
    if watch is not None:
        watch(engine, changes)
    return trace


def _note(trace: Trace, engine: Engine, changes: ChangeBatch, due: float) -> None:
    now = trace.machine()
    trace.times.append(now)
    trace.lags.append(now - due)
    trace.attenuation.append(statistics.mean(engine.attenuation.values()))
    trace.busy.append(engine.busy_factor)
    for change in changes:
        if change.type in PASSES and change.change_type == "insert":
            trace.told[change.match_id] = change, now
        elif change.type in PASSES and change.change_type == "delete":
            del trace.told[change.match_id]


def modes(snippet: Snippet, *, live: bool) -> tuple[float, dict[str, Trace]]:
    """The same snippet with pure buffering, adaptive speculation, and no waiting at all."""
    slowness = slowness_for(snippet)
    found: dict[str, Trace] = {}
    results: dict[str, Counter[tuple[str, int, str]]] = {}
    for name, attenuation in MODES.items():
        machine = Live(slowness) if live else Machine(slowness)
        seen: list[Change] = []
        keep = partial(_keep, seen)
        found[name] = run(machine, tables_of(snippet), keep, attenuation=attenuation)
        results[name] = fold(seen)
        if results[name] != results["buffering"]:
            raise RuntimeError(f"expected {name} to give the same final result as buffering")
    return slowness, found


def _keep(seen: list[Change], _: Engine, changes: ChangeBatch) -> None:
    seen.extend(changes)


def with_burst(snippet: Snippet, copies: int = 2) -> Snippet:
    """The snippet with more positions for some seconds: of sensors that nobody wears."""
    table = snippet.arrivals
    arrived = table["arrived"].to_numpy()
    inside = (arrived >= BURST[0] * 1e6) & (arrived < BURST[1] * 1e6)
    players = np.asarray(table["type"].to_numpy(zero_copy_only=False) == "player")
    rows = np.flatnonzero(inside & players)
    more = table.take(rows)
    column = more.schema.get_field_index("sid")
    strange = pa.array(np.full(len(rows), UNKNOWN_SENSOR), more.schema.field("sid").type)
    more = more.set_column(column, more.schema.field("sid"), strange)
    whole = pa.concat_tables([table, *[more] * copies])
    order = np.argsort(whole["arrived"].to_numpy(), kind="stable")
    return Snippet(snippet.seconds, snippet.in_order, whole.take(order).combine_chunks())


def adaptation(snippet: Snippet, *, live: bool) -> tuple[float, Trace]:
    """Adaptive speculation with a burst of positions on the way."""
    slowness = slowness_for(snippet)
    machine = Live(slowness) if live else Machine(slowness)
    return slowness, run(machine, tables_of(with_burst(snippet)), attenuation="adaptive")


@dataclass(frozen=True)
class Touched:
    """How many events a technique of retraction had to do with."""

    retracted: int
    hits_retracted: int
    replayed: int
    """Derived events that were handled again. Level 1 goes back over raw positions, as columns:
    these are not what the papers count."""

    @classmethod
    def of(cls, stats: Mapping[str, DetectorStats]) -> Touched:
        return cls(
            retracted=sum(each.retracted for each in stats.values()),
            hits_retracted=stats["PlayerHitsBall"].retracted,
            replayed=sum(each.replayed for each in stats.values() if each.level > 1),
        )

    @property
    def total(self) -> int:
        return self.retracted + self.replayed


@dataclass(frozen=True)
class Retracted:
    """What one technique did over a match."""

    touched: Touched
    attenuation: float
    latency: float
    load: float


def retraction(minutes: float, *, attenuation: float | str) -> dict[str, Retracted]:
    """Both techniques over the first minutes of a match.

    If they are to be compared at the same attenuation, events that are handled again are counted
    as in the paper.
    """
    slowness = slowness_for(Snippet.of(min(TRIAL, minutes * 60), PRESETS["bursts"]))
    found = {}
    for technique in TECHNIQUES:
        tables = disordered(simulate(minutes * 60, seed=1).tables(), PRESETS["bursts"], seed=1)
        machine = Machine(slowness)
        match = None if attenuation == "adaptive" else as_in_the_paper()
        trace = run(machine, tables, None, match, attenuation=attenuation, retraction=technique)
        found[technique] = Retracted(
            touched=Touched.of(trace.stats),
            attenuation=trace.steady(trace.attenuation),
            latency=trace.mean_latency(),
            load=float(np.mean(machine.load(minutes * 60))),
        )
    return found


def as_in_the_paper() -> Hierarchy:
    """The match with a snapshot before each derived event: what is handled again is countable.

    By default, how often a detector takes one depends on measured time.
    """
    match = soccer(SIMULATED)
    for name, level in match.levels().items():
        if level > 1:
            match.adjust(name, snapshots=1)
    return match


def retraction_by_length(snippet: Snippet, length: float) -> dict[str, Touched]:
    """Both techniques without waiting, with batches of this length on a machine that keeps up.

    If the length is 0, each position is a batch.
    """
    found = {}
    for technique in TECHNIQUES:
        engine = Engine(
            as_in_the_paper(), attenuation=0, retraction=technique, time=time.process_time
        )
        for batch in _cut(snippet, length):
            engine.feed(batch)
        found[technique] = Touched.of(engine.stats)
    return found


def _cut(snippet: Snippet, length: float) -> Iterator[pa.Table]:
    """The arrivals of a snippet in batches of this length, in seconds; if it is 0, one by one."""
    if not length:
        rows = snippet.arrivals.drop_columns(["seq", "arrived"])
        yield from (rows.slice(row, 1) for row in range(len(rows)))
        return
    arrivals, due = Arrivals(tables_of(snippet)), length
    while (batch := arrivals.until(due)) is not None:
        yield batch
        due += length
