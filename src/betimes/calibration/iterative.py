"""Iterative calibration: run a recorded stream until every detector starts with the right slack.

The slack of a detector on level 1 depends only on the input: one run over the recording reveals it.
What a detector on level 2 needs depends on when level 1 releases its events, and in the first run
that is too early, because level 1 is still learning. So the second run starts level 1 with what the
first run found, and reveals what level 2 needs; and so on. By induction, run *i* measures level *i*
under the conditions that will hold in the end, so it takes at most as many runs as there are levels
(paper *slack*, section III-A and Algorithm 2). One more run, in which nothing changes, is the
proof; it often comes early.

Every run measures from scratch, so a level forgets the wrong values that an early run measured on
wrongly ordered events. (Not with a `margin`: what a run adds to the slack depends on its course, so
there a slack only grows.) All runs wait for the whole slack (attenuation 1): the delays above level
1 are then the same for every cut into batches.

If the clock is learned, too, the first run is for that, and one more may be necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from betimes.calibration.parts import sub_delays
from betimes.calibration.probes import Measured, Measuring
from betimes.configuration.value import (
    Calibration,
    RunOutcome,
    Setting,
)
from betimes.engine.engine import Engine
from betimes.engine.hierarchy import Hierarchy
from betimes.engine.options import EngineOptions
from betimes.model import PSEUDO, Event, EventBatch, OptionError
from betimes.ordering.clock import EVERY

Batch = EventBatch | pa.Table | pa.RecordBatch | list[Event]
Recording = Batch | Iterable[Event] | Callable[[], Iterable[Batch]]
OnRun = Callable[[int, RunOutcome], None]

ENDS = ("advance", "stay", "open")


def calibrate(
    hierarchy: Hierarchy,
    events: Recording,
    *,
    end: str = "advance",
    max_runs: int | None = None,
    on_run: OnRun | None = None,
    measured_on: str = "a recorded stream",
    **engine_options: Any,
) -> Calibration:
    """Find what the detectors of a hierarchy should start with, from a recorded stream.

    `events` is the recording in order of arrival: anything that `Engine.feed` takes, or a function
    that returns the batches again for each run. `end` says what happens at its end: time
    moves past every open window (`"advance"`), time stays at the last event (`"stay"`), or the
    stream does not end (`"open"`). `on_run` is called after each run. Other options are those of
    the engine that will run the stream.

    >>> from betimes import Event, Hierarchy
    >>> pairs = Hierarchy(clock="A")
    >>> pairs.add(lambda event: Event("late B", event.ts), on="B", emits="late B", name="b")
    >>> found = calibrate(pairs, [Event("A", 0), Event("A", 9), Event("B", 5), Event("A", 10)])
    >>> found.detectors["b"].slack, len(found.runs), found.settled
    (5, 2, True)
    """
    check_end(end)
    options = measuring_options(EngineOptions.of(engine_options, function=calibrate))
    batches = batches_of(events)

    def measure(current: Calibration) -> Measured:
        return measure_stream(hierarchy, options.with_(calibration=current), batches(), end)

    return iterate(
        hierarchy, measure, margin=options.margin, max_runs=max_runs, on_run=on_run,
        measured_on=measured_on,
    )  # fmt: skip


def measure_stream(
    hierarchy: Hierarchy, options: EngineOptions, batches: Iterable[Batch], end: str
) -> Measured:
    """What one run over a recorded stream shows."""
    measuring = Measuring(hierarchy)
    engine = Engine(measurable(hierarchy), options, observers=[measuring])
    rows = 0
    for given in batches:
        batch = EventBatch.of(given, unit=options.unit)
        engine.feed(batch)
        rows += len(batch)
    if end != "open":
        engine.finish(advance=end == "advance")
    return measuring.measured(rows)


def measurable(hierarchy: Hierarchy) -> Hierarchy:
    """The same detectors with the same clocks, waiting as long as a measurement has to."""
    return hierarchy.adjusted(slack=None, margin=None, attenuation=None)


def check_end(end: str) -> None:
    if end not in ENDS:
        raise OptionError(f"expected end to be one of {', '.join(ENDS)}, got end={end!r}")


def iterate(
    hierarchy: Hierarchy,
    measure: Callable[[Calibration], Measured],
    *,
    margin: float,
    max_runs: int | None,
    on_run: OnRun | None,
    measured_on: str,
) -> Calibration:
    """Run and compare until nothing changes; `measure` does a run."""
    most = most_runs(hierarchy) if max_runs is None else max_runs
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise OptionError(f"expected max_runs to be a whole number from 1, got max_runs={most!r}")
    current, runs = Calibration.nothing(hierarchy, measured_on), []
    for number in range(1, most + 1):
        measured = measure(current)
        found = configuration(hierarchy, measured, current, margin)
        changed = {
            name: (current.detectors[name].slack, setting.slack)
            for name, setting in found.detectors.items()
            if setting.start != current.detectors[name].start
        }
        runs.append(RunOutcome(measured.rows, measured.late, changed))
        current = replace(found, runs=tuple(runs))
        if on_run is not None:
            on_run(number, runs[-1])
        if not changed:
            break
    return current


def most_runs(hierarchy: Hierarchy) -> int:
    """One per level, and one to see that nothing changes; a learned clock may need another."""
    clocks = [hierarchy.clock_of(node) for node in hierarchy]
    learned = any(clock is None or len(clock) > 1 for clock in clocks)
    return max(hierarchy.levels().values()) + 1 + learned


def measuring_options(options: EngineOptions) -> EngineOptions:
    """The options of an engine, adapted for measuring."""
    if options.policy.label == "fixed":
        raise OptionError(
            f"expected a slack that is learned, got slack={options.slack!r}: calibration finds out "
            "how long to wait, and a fixed slack leaves nothing to find; leave slack out"
        )
    return options.with_(slack="largest", attenuation=1.0, late="repair")


def batches_of(events: Recording) -> Callable[[], Iterable[Batch]]:
    if callable(events):
        return events
    kept: Batch
    if isinstance(events, EventBatch | pa.Table | pa.RecordBatch | list):
        kept = events
    else:
        kept = list(events)

    def once() -> Iterator[Batch]:
        yield kept

    return once


def configuration(
    hierarchy: Hierarchy, measured: Measured, current: Calibration, margin: float
) -> Calibration:
    """What detectors should start with, after a run that started with `current`.

    A detector waits at least as long as those below it, even if they have made nothing.
    """
    published = {type for node in hierarchy for type in node.emits}
    nodes = {node.name: node for node in hierarchy}
    settings: dict[str, Setting] = {}
    for name, before in current.detectors.items():
        node, delays = nodes[name], measured.delays.get(name, {})
        below = [settings[p].slack for p in settings if set(nodes[p].emits).intersection(node.on)]
        slack = max([*delays.values(), *below], default=0)
        if margin > 0:
            slack = max(slack, measured.slack.get(name, 0))
        jitter = {t: delays.get(t, 0) for t in node.on if t not in published and t != EVERY}
        if EVERY in node.on:
            jitter |= {t: d for t, d in delays.items() if t not in published and t != PSEUDO}
        settings[name] = Setting(
            before.level,
            slack,
            before.clock or measured.clocks.get(name),
            measured.offsets.get(name, {}),
            jitter,
        )
    found = replace(current, detectors=settings)
    parts = sub_delays(hierarchy, measured, found)
    return replace(
        found, detectors={name: replace(each, emits=parts[name]) for name, each in settings.items()}
    )
