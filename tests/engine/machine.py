"""A simulated machine, and work for it."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.engine import Hierarchy
from betimes.model import Event

SECOND = 1_000_000


@dataclass
class Machine:
    """A processor that needs `cost` seconds for an event, and whose time is the engine's."""

    now: float = 0.0
    cost: float = 0.0

    def time(self) -> float:
        return self.now

    def wait_until(self, ts: int) -> None:
        """Idle until stream time `ts`, unless that has passed while it was busy."""
        self.now = max(self.now, ts / SECOND)

    def lag(self, ts: int) -> float:
        """How many seconds it is behind the stream."""
        return self.now - ts / SECOND


@dataclass
class Works:
    """Counts, which takes the machine a while. The machine is no part of its state."""

    machine: Machine
    n: int = 0

    def on_event(self, event: Event) -> Event | None:
        self.machine.now += self.machine.cost
        self.n += 1
        return Event("tenth", event.ts, {"n": self.n}) if self.n % 10 == 0 else None

    def snapshot(self) -> int:
        return self.n

    def restore(self, state: int) -> None:
        self.n = state


def work(machine: Machine) -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(lambda: Works(machine), on=("A", "B"), emits="tenth", name="works")
    return hierarchy
