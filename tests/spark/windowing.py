"""Windows of every kind on two levels, for the tests of windows on Spark; workers import this.

Their logs are short, so that engines are rebuilt from bases, too.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import betimes as bt
from tests.spark import short_logs

__all__ = ["short_logs"]


@dataclass
class Highs:
    """Reports each event that is stronger than all before it, and how many there were."""

    types: tuple[str, str] = ("high", "climb")
    folder: str = ""
    deadly: int = -1
    """At this time it kills its process, but only once: a file in the folder says that it did."""
    best: int = -1
    highs: int = 0

    def on_event(self, event: bt.Event) -> bt.Event | None:
        if event.ts == self.deadly:
            self._die_once()
        force = event["force"]
        if force <= self.best:
            return None
        self.best, self.highs = force, self.highs + 1
        return bt.Event(self.types[0], event.ts, {"key": event["key"], "force": force})

    def on_close(self, window: Any) -> bt.Event:
        return bt.Event(self.types[1], window.end, {"highs": self.highs, "of": window.count})

    def _die_once(self) -> None:
        grave = Path(self.folder, str(self.deadly))
        if not grave.exists():
            grave.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)


ALIVE = Highs()


def visit(table: Any) -> dict[str, Any]:
    """A function of a whole window."""
    return {"n": table.num_rows, "types": sorted(set(table.column("type").to_pylist()))}


def every_third(_event: bt.Event, state: list[int]) -> bool:
    state[0] += 1
    return state[0] % 3 == 1


def weak(event: bt.Event, window: Any, state: list[int]) -> bool:
    return bool(event["force"] < 20 or window.count == 6 or state[0] % 7 == 0)


def windows(by: str | None = "key", *, apart: Highs = ALIVE, here: Highs = ALIVE) -> bt.Hierarchy:
    """Windows over events, and over what other windows find.

    On Spark, the instances of the operator `apart` have slots of their own, in a chain; `here` runs
    in the engine's, and others in processes there.
    """
    hierarchy = bt.Hierarchy(clock="ball")

    def add(operator: Any, window: Any, on: Any, *emits: str, **options: Any) -> None:
        windowed = bt.windowed(operator, window, **options)
        hierarchy.add(windowed, on=on, emits=emits, by=by, name=f"windows of {emits[0]}")

    events = ("near", "hit")
    totals = bt.aggregate(n="count()", last="last(force)", half="quantile(force, 0.5)")
    add(totals, bt.window(time="20ms", slide="10ms"), events, "busy")
    add(apart, bt.window(count=5, slide=2), "hit", *apart.types, instances=2)
    add(visit, bt.window(gap="6ms"), events, "visit")
    free = bt.window(open=every_third, close=weak, state=[0])
    add(visit, free, events, "stretch", instances=2, workers="processes")
    above = replace(here, types=("higher", "tour"))
    add(above, bt.window(time="30ms", slide="15ms"), "high", *above.types)
    add(bt.aggregate(most="max(n)"), bt.window(count=4, slide=3), "busy", "most")
    return hierarchy
