"""Watch machines through windows: a mean every two seconds, and a shape that takes long to judge.

Run it: python examples/windows.py

Machines report their power ten times a second; reports arrive up to a second late. Two questions
are about stretches of time. How much does a machine take, over ten seconds? That is an aggregate.
And does it wear out: does its power rise and fall ever more often, from a start to a stop? That
takes a while to judge, so two processes share the windows.
"""

from __future__ import annotations

import random
from typing import Any

import betimes as bt
from betimes.testing import oracle

SECOND = 1_000_000


class Wear:
    """Counts how often power turns from rising to falling, from a start to a stop."""

    def __init__(self) -> None:
        self.machine = ""
        self.before: list[float] = []
        self.turns = 0

    def on_event(self, report: bt.Event) -> None:
        self.machine = report["machine"]
        self.before = [*self.before[-2:], report["watts"]]
        if len(self.before) == 3 and self.before[0] < self.before[1] > self.before[2]:
            self.turns += 1

    def on_close(self, run: Any) -> bt.Event | None:
        """The run is over: `run` has its start, its end, and how many reports it had."""
        if self.turns < 0.3 * run.count:
            return None
        worn = {"machine": self.machine, "turns": self.turns, "reports": run.count}
        return bt.Event("worn", run.end, worn)


def plant() -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="report")
    mean = bt.aggregate(mean="avg(watts)", most="max(watts)")
    hierarchy.add(
        bt.windowed(mean, bt.window(time="10s", slide="2s")),
        on="report", emits="load", by="machine",
    )  # fmt: skip
    run = bt.window(open="state == 'start'", close="state == 'stop'")
    hierarchy.add(bt.windowed(Wear, run, instances=2), on="report", emits="worn", by="machine")
    return hierarchy


def reports(rng: random.Random) -> list[bt.Event]:
    """A minute of reports of two machines, in order of arrival; the lathe is worn."""
    arriving = []
    for tenth in range(600):
        for machine, jitter in (("lathe", 30.0), ("press", 0.1)):
            ts = tenth * SECOND // 10 + rng.randrange(SECOND // 20)
            state = {0: "start", 199: "stop"}.get(tenth % 200, "on")
            watts = 100 + tenth % 200 / 4 + rng.uniform(-jitter, jitter)
            report = {"machine": machine, "state": state, "watts": round(watts, 1)}
            late = rng.randrange(SECOND) if rng.random() < 0.1 else rng.randrange(20_000)
            arriving.append((ts + late, bt.Event("report", ts, report)))
    return [event for _, event in sorted(arriving, key=lambda pair: pair[0])]


def main() -> None:
    arrivals = reports(random.Random(3))
    engine = bt.Engine(plant(), attenuation=0)
    changes: list[bt.Change] = []
    for low in range(0, len(arrivals), 20):
        changes += engine.feed(arrivals[low : low + 20])
    changes += engine.finish()

    for change in changes:
        if change.type == "worn":
            print(f"{change.change_type:8}{change.ts / SECOND:7.2f} s  {change.payload}")
    loads = [change for change in changes if change.type == "load"]
    kinds = [change.change_type for change in loads]
    print(f"means: announced {kinds.count('insert')}, taken back {kinds.count('delete')}")
    same = bt.fold(changes) == oracle(plant(), arrivals)
    print(f"the same as in perfect order: {'yes' if same else 'NO'}")


if __name__ == "__main__":
    main()
