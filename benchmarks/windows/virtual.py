"""The experiments of the thesis on windows (chapter 7), in virtual time.

Its stream, operator and windows, a hundredth of the size: windows of 100 events, every 20; 10,000
events of three sources; a sequence operator that takes 100 us per event and window. Splitting,
messages and merging take 1 us each, a snapshot or going back to one 20 us. C is delayed as in
figure 7-1: after 100 events, by three more intervals every 50 events, until event 1,000.

Throughput is that of a stream that is there at once. Latency is from the time of the last event of
a window to its result at the merger, when events come at 80 % of the throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import betimes as bt
from betimes import Event, EventBatch, OrderingUnit
from betimes.engine.stages.handed import first_handed
from betimes.model.detector import Maker
from betimes.testing import source_stream
from betimes.testing.windowing import END, Arrival, World
from betimes.windows.cutting import Span
from betimes.windows.messages import Message, Parcel
from betimes.windows.operators import PerWindow
from betimes.windows.shapes import Window

LOAD, MESSAGE, SNAPSHOT = 100, 1, 20
"""Microseconds: the operator, per event and window; a message; saving or loading a state."""
EVENTS = 10_000
WINDOW = bt.window(count=100, slide=20)
BATCH = 20
"""How many events arrive together."""


class Sequence:
    """Reports each A, B, C within a window, events between them ignored (figure 7-2)."""

    def __init__(self) -> None:
        self.seen = 0
        self.first = 0

    def on_event(self, event: Event) -> Event | None:
        if event.type != "ABC"[self.seen]:
            return None
        if self.seen == 0:
            self.first = event.ts
        self.seen = (self.seen + 1) % 3
        return Event("sequence", event.ts, {"since": self.first}) if self.seen == 0 else None

    def on_close(self, window: Span) -> Event:
        return Event("over", window.end, {"count": window.count, "number": window.start})


class Heavy(PerWindow):
    """The operator with what it costs."""

    def __init__(self, spend: Callable[[int], None]) -> None:
        super().__init__(Maker(Sequence), "sequence")
        self._spend = spend

    def take(self, state: Any, event: Event, span: Span) -> Iterable[Event]:
        self._spend(LOAD)
        return super().take(state, event, span)

    def save(self, state: Any) -> Any:
        self._spend(SNAPSHOT)
        return super().save(state)

    def load(self, saved: Any) -> Any:
        self._spend(SNAPSHOT)
        return super().load(saved)


@dataclass(frozen=True)
class Case:
    """One run."""

    instances: int = 1
    disorder: bool = False
    attenuation: float = 1.0
    snapshots: Any = 50
    interval: int = 0
    """Microseconds between events; 0 if they come as fast as they can be cut."""
    window: Window = WINDOW
    schedule: str = "round_robin"


@dataclass
class Outcome:
    """What came of it."""

    events: int
    time: int
    """Microseconds until everything was done."""
    busy: int
    """Microseconds that all instances were at work."""
    latencies: list[int]
    """Of each window that an event has ended, until its last result."""
    found: Any
    recoveries: int

    @property
    def throughput(self) -> float:
        return self.events / self.time * 1e6


def run(case: Case) -> Outcome:
    """Run a case."""
    worlds: list[World] = []

    def operator() -> Heavy:
        return Heavy(lambda time: worlds[0].time.spend(time) if worlds else None)

    world = World(
        case.window, operator, instances=case.instances, schedule=case.schedule,
        snapshots=case.snapshots, transit=(1, 5), cost=_cost, seed=1,
    )  # fmt: skip
    worlds.append(world)
    closed: dict[Any, int] = {}

    def heard(message: Message) -> None:
        _, window, _, _, _, items = message
        for cause, phase, _ in items:
            if phase == 1 and cause[0] < END:
                closed[window] = world.time.now - cause[0]

    world.merger.heard = heard
    world.run_at(_batches(case))
    accounts = [a for name, a in world.time.accounts.items() if name.startswith("instance")]
    recoveries = sum(actor.instance.counts["recoveries"] for actor in world.instances)
    return Outcome(
        EVENTS, world.time.now, sum(a.busy for a in accounts), list(closed.values()),
        world.merger.found(), recoveries,
    )  # fmt: skip


def _cost(_name: str, message: Any) -> int:
    if isinstance(message, Parcel):
        return MESSAGE * len(message.messages)
    return MESSAGE * (len(message) if isinstance(message, list) else 1)


@lru_cache(maxsize=64)
def _stream(interval: int, disorder: bool) -> tuple[EventBatch, np.ndarray]:
    step = max(interval, 10)
    table = source_stream(
        EVENTS, interval=step, delayed="C" if disorder else None, start=100 * step,
        duration=900 * step, increment=3 * step, every=50 * step,
    )  # fmt: skip
    return EventBatch.from_arrow(table.select(["ts", "type"])), table["arrived"].to_numpy()


def _batches(case: Case) -> Iterator[tuple[int, list[Arrival]]]:
    """What an ordering unit hands out, and when."""
    stream, arrived = _stream(case.interval, case.disorder)
    unit = OrderingUnit(clock="*", attenuation=case.attenuation)
    for low in range(0, EVENTS, BATCH):
        part = stream.part(low, low + BATCH)
        at = np.arange(low, low + len(part))
        rows, _, _ = first_handed(unit.feed(part).step, at, low)
        yield _sent(arrived[at[-1]] if case.interval else low, stream, rows)
    answer = unit.finish()
    rows, _, _ = first_handed(answer.step, np.arange(EVENTS, EVENTS), EVENTS)
    yield _sent(arrived[-1] if case.interval else EVENTS, stream, rows)


def _sent(when: int, stream: EventBatch, rows: np.ndarray) -> tuple[int, list[Arrival]]:
    events = stream.take(rows).rows()
    places = zip(rows.tolist(), events, strict=True)
    return int(when), [(None, (e.ts, 0, n), e) for n, e in places]
