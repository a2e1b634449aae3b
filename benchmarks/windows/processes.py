"""A heavy operator in real processes, beside a plain loop and beside the engine as a black box.

The operator works for 100 us of CPU time per event and window; windows have 100 events and begin
every 20. The plain loop has the sorted events and cuts them by hand. The black box is what the
thesis criticises: one detector that holds all windows, with a snapshot of everything before each
event. What happens in other processes takes no CPU time of this one, so for these only the time on
the wall counts, and it means something only if the cores are free.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import betimes as bt
from betimes import Event
from betimes.model.detector import Maker
from betimes.windows.cutting import Span
from betimes.windows.detector import WindowDetector
from betimes.windows.operators import PerWindow

SIZE, SLIDE = 100, 20
LOAD = 100e-6
BATCH = 200


class Busy:
    """Works for a while, then counts."""

    def __init__(self) -> None:
        self.n = 0

    def on_event(self, _event: Event) -> None:
        until = time.thread_time() + LOAD
        while time.thread_time() < until:
            pass
        self.n += 1

    def on_close(self, window: Span) -> Event:
        return Event("count", window.end, {"n": self.n, "since": window.start})


def stream(events: int) -> list[Event]:
    return [Event("A", 1_000 * n, {"v": n}) for n in range(1, events + 1)]


def plain_loop(events: list[Event]) -> int:
    """Each window alone, over sorted events."""
    found = 0
    for low in range(0, len(events), SLIDE):
        part, operator = events[low : low + SIZE], Busy()
        for event in part:
            operator.on_event(event)
        operator.on_close(Span(low, part[0].ts, part[-1].ts, len(part)))
        found += 1
    return found


def of_engine(events: list[Event], detector: Any, **options: Any) -> int:
    """The same in an engine, in batches; return how many windows there are."""
    made = bt.Hierarchy(clock="A")
    made.add(detector, on="A", emits="count", name="busy")
    engine = bt.Engine(made, **options)
    found = 0
    for low in range(0, len(events), BATCH):
        found += sum(c.change_type == "insert" for c in engine.feed(events[low : low + BATCH]))
    return found + sum(c.change_type == "insert" for c in engine.finish())


def black_box() -> WindowDetector:
    return WindowDetector(bt.window(count=SIZE, slide=SLIDE), PerWindow(Maker(Busy), "busy"))


def rates(events: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Events per CPU second of this process, and per second on the wall; the best of some rounds.

    Contenders run in turn.
    """
    sorted_, window = stream(events), bt.window(count=SIZE, slide=SLIDE)
    contenders: dict[str, Callable[[], int]] = {
        "plain loop": partial(plain_loop, sorted_),
        "one instance, inline": partial(of_engine, sorted_, bt.windowed(Busy, window)),
        "black box": partial(of_engine, sorted_, black_box, attenuation=0, snapshots=1),
    }
    for n in (1, 2):
        several = bt.windowed(Busy, window, instances=n, workers="processes")
        contenders[f"instances in processes: {n}"] = partial(of_engine, sorted_, several)
    best = dict.fromkeys(contenders, (0.0, 0.0))
    for _ in range(rounds):
        for name, run in contenders.items():
            cpu, wall = time.process_time(), time.perf_counter()
            assert run() == -(-events // SLIDE), name
            took = time.process_time() - cpu, time.perf_counter() - wall
            best[name] = max(best[name][0], events / took[0]), max(best[name][1], events / took[1])
    return best
