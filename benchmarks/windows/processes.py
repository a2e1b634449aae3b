"""A heavy operator in real processes, beside a plain loop and beside the engine as a black box.

The operator works for 100 us of CPU time per event and window; windows have 100 events and begin
every 20. The plain loop has the sorted events and cuts them by hand. The black box is what the
thesis criticises: one detector that holds all windows, with a snapshot of everything before each
event. What happens in other processes takes no CPU time of this one, so for these only the time on
the wall counts, and it means something only if the cores are free. The first batch, for which the
processes start, is not counted.
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


class Clocks:
    """What a run takes, of the CPU and on the wall."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def took(self) -> tuple[float, float]:
        return time.process_time() - self._cpu, time.perf_counter() - self._wall


def of_loop(events: list[Event]) -> tuple[float, float]:
    """What the plain loop takes."""
    clocks = Clocks()
    assert plain_loop(events[BATCH:]) == -(-(len(events) - BATCH) // SLIDE)
    return clocks.took()


def of_engine(events: list[Event], detector: Any, **options: Any) -> tuple[float, float]:
    """What the same takes in an engine, in batches, without the first."""
    made = bt.Hierarchy(clock="A")
    made.add(detector, on="A", emits="count", name="busy")
    engine = bt.Engine(made, **options)
    found = _windows(engine.feed(events[:BATCH]))
    clocks = Clocks()
    for low in range(BATCH, len(events), BATCH):
        found += _windows(engine.feed(events[low : low + BATCH]))
    found += _windows(engine.finish())
    took = clocks.took()
    assert found == -(-len(events) // SLIDE)
    return took


def _windows(changes: bt.ChangeBatch) -> int:
    return sum(change.change_type == "insert" for change in changes)


def black_box() -> WindowDetector:
    return WindowDetector(bt.window(count=SIZE, slide=SLIDE), PerWindow(Maker(Busy), "busy"))


def rates(events: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Events per CPU second of this process, and per second on the wall; the best of some rounds.

    Contenders run in turn.
    """
    sorted_, window = stream(events + BATCH), bt.window(count=SIZE, slide=SLIDE)
    contenders: dict[str, Callable[[], tuple[float, float]]] = {
        "plain loop": partial(of_loop, sorted_),
        "one instance, inline": partial(of_engine, sorted_, bt.windowed(Busy, window)),
        "black box": partial(of_engine, sorted_, black_box, attenuation=0, snapshots=1),
    }
    for n in (1, 2):
        several = bt.windowed(Busy, window, instances=n, workers="processes")
        contenders[f"instances in processes: {n}"] = partial(of_engine, sorted_, several)
    best = dict.fromkeys(contenders, (0.0, 0.0))
    for _ in range(rounds):
        for name, run in contenders.items():
            cpu, wall = run()
            best[name] = max(best[name][0], events / cpu), max(best[name][1], events / wall)
    return best
