"""`windowed`: an operator over windows, to be added to a hierarchy like any detector."""

from __future__ import annotations

from functools import partial
from typing import Any

from betimes.engine.describe import Types, describe, type_names
from betimes.engine.node import Node
from betimes.engine.snapshots.spacing import SnapshotModel, parse_snapshots
from betimes.engine.stages.tactic import TacticMaker
from betimes.model.detector import DescribedMaker
from betimes.model.errors import OptionError
from betimes.model.hints import did_you_mean, known_options
from betimes.windows.aggregates import Aggregate
from betimes.windows.detector import WindowDetector
from betimes.windows.operators import (
    FRAMES,
    OWN,
    Frame,
    OperatorSpec,
    checked,
    is_of_whole,
)
from betimes.windows.plan import WORKERS, Windowed, Workers
from betimes.windows.runs import RunTactic
from betimes.windows.schedules import Schedule, parse_schedule
from betimes.windows.shapes import CountWindow, FreeWindow, GapWindow, TimeWindow, Window
from betimes.windows.summing import AggregateTactic
from betimes.windows.tactic import WindowTactic
from betimes.windows.team import Recruit, check_travels

MOST = 1024
"""The most instances of an operator."""


@known_options
def windowed(
    operator: Any,
    window: Window,
    *,
    frame: Frame = "arrow",
    instances: int = 1,
    schedule: str | Schedule = "round_robin",
    snapshots: str | int | SnapshotModel | None = None,
    workers: Workers = "auto",
) -> Windowed:
    """Run an operator over windows; add it to a hierarchy with `on`, `emits` and `by`.

    Parameters
    ----------
    operator
        One of three kinds. A class with `on_event(event)` and maybe `on_close(window)`: each
        window has its own object, which may make events at any time. A function of a table with all
        events of the window (`ts`, `type` and the payload's columns), or of that and the window;
        it returns rows. Or `aggregate(...)`.
    window
        What `window(...)` returns.
    frame : "arrow"
        What a function gets: an Arrow table, or with "pandas" a frame.
    instances : 1
        How many instances of the operator share the windows. Each goes back alone.
    schedule : "round_robin"
        Which instance gets a window: one after the other, "least_loaded" (the one with the fewest
        open windows), "locality" (overlapping windows together, so that an event goes to few
        instances), or a function of the window's number and of how many windows each instance has.
    snapshots
        When splitter and instances take snapshots, as for an engine, whose model is the default.
    workers : "auto"
        Where instances run: "processes" gives each a process on this machine, which starts with the
        first event; "inline" runs them here, one after the other. If there are several instances,
        "auto" means processes, and on Spark a slot for each. What is found is the same.

    What a function or an aggregate gives is dated at the end of the window (a function may
    return a column `ts`), and carries `window.start`, `window.end`, `window.count`,
    `window.complete`, and the key if there is one. When the stream ends, open windows close;
    `window.complete` is False for those that were waiting for more events.

    If windows overlap and several of them make equal events with `on_event` or `on_close`, these
    count once.

    >>> from betimes.engine import Engine, Hierarchy
    >>> from betimes.model import Event
    >>> from betimes.windows import aggregate, window
    >>> speed = Hierarchy(clock="position")
    >>> speed.add(windowed(aggregate(mean="avg(v)"), window(count=2)), on="position", emits="mean")
    >>> engine = Engine(speed)
    >>> events = [Event("position", ts, {"v": v}) for ts, v in [(1, 5), (3, 8), (2, 6), (9, 2)]]
    >>> changes = [*engine.feed(events), *engine.finish()]
    >>> [(change.ts, change.payload["mean"]) for change in changes if change.status == "final"]
    [(2, 5.5), (9, 5.0)]
    """
    if not isinstance(window, CountWindow | TimeWindow | GapWindow | FreeWindow):
        raise OptionError(f"expected a window, as window(count=100) makes it, got {window!r}")
    if frame not in FRAMES:
        raise OptionError(
            f"expected frame to be one of {', '.join(FRAMES)}, got frame={frame!r}"
            + did_you_mean(frame, FRAMES)
        )
    if isinstance(instances, bool) or not isinstance(instances, int) or not 1 <= instances <= MOST:
        raise OptionError(
            f"expected instances to be a whole number from 1 to {MOST}, got instances={instances!r}"
        )
    if workers not in WORKERS:
        raise OptionError(
            f"expected workers to be one of {', '.join(WORKERS)}, got workers={workers!r}"
            + did_you_mean(workers, WORKERS)
        )
    parse_schedule(schedule, window)
    if snapshots is not None:
        parse_snapshots(snapshots)
    checked(operator)
    return Windowed(operator, window, frame, instances, schedule, snapshots, workers)


@describe.register
def _windowed(
    detector: Windowed, *, on: Types, emits: Types, by: str | None, name: str | None
) -> Node:
    """A windowed operator is a detector with deadlines, with a tactic of its own."""
    types = type_names(emits, "emits")
    called = name or (types[0] if isinstance(detector.operator, Aggregate) else detector.name)
    if isinstance(detector.operator, Aggregate) and by in detector.operator.texts:
        raise OptionError(
            f"expected another name for the aggregate {by!r} of {called!r}: its results have the "
            f"key in a column {by!r}, as by={by!r}"
        )
    if by in OWN and (isinstance(detector.operator, Aggregate) or is_of_whole(detector.operator)):
        raise OptionError(
            f"expected {called!r} to be by another column: its results have a {by!r} of their own, "
            f"got by={by!r}; rename that column in a detector between the two"
        )
    spec = OperatorSpec(detector.operator, detector.frame, types, by, called)
    if detector.apart:
        check_travels(Recruit(spec, detector.snapshots))
    operator = spec.operator()
    maker = DescribedMaker(detector, lambda: WindowDetector(detector.window, operator))
    tactic: TacticMaker = partial(WindowTactic, detector, spec)
    if detector.compiles:
        compiled: Any = AggregateTactic if isinstance(detector.window, TimeWindow) else RunTactic
        tactic = partial(compiled, detector.window, spec)
    return Node(called, maker, type_names(on, "on"), types, by, tactic)
