"""Speculate as far as the machine allows, and stop in time when there is too much to do.

Run it: python examples/under_load.py

Parcels pass scanners; every fourth scan is up to 200 ms late. With `attenuation="adaptive"` an
engine looks twice a second at how busy its loop is. While there is time to spare, it waits less and
less for late scans; when a truck brings many parcels at once, it waits for them again, because to
handle each scan once is all that the machine can do.

Handling a scan takes 0.4 ms here. The time is simulated, so that you see the same everywhere; leave
`time=` out in a program of your own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import betimes as bt
from betimes.testing import oracle

SECOND = 1_000_000
BATCH = SECOND // 20
END = 20 * SECOND
TRUCK = range(8 * SECOND, 10 * SECOND)


@dataclass
class Machine:
    """Its time goes on while it works, and when it waits for the next batch."""

    now: float = 0.0

    def time(self) -> float:
        return self.now


class Counter:
    """Every fiftieth parcel, in the order in which they passed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.n = 0

    def on_event(self, scan: bt.Event) -> bt.Event | None:
        self.machine.now += 0.0004
        self.n += 1
        return bt.Event("fiftieth", scan.ts, {"n": self.n}) if self.n % 50 == 0 else None

    def snapshot(self) -> int:
        return self.n

    def restore(self, state: int) -> None:
        self.n = state


def sorting_hall(machine: Machine) -> bt.Hierarchy:
    hall = bt.Hierarchy(clock="gate")
    hall.add(lambda: Counter(machine), on=("gate", "belt"), emits="fiftieth", name="counter")
    return hall


def scans() -> list[tuple[int, bt.Event]]:
    """Scans and when they arrive: 400 per second, and 1,200 while there is a truck."""
    arriving = []
    ts = number = 0
    while ts < END:
        number += 1
        late = number % 4 == 0
        delay = 40_000 + number * 7_919 % 160_000 if late else 0
        arriving.append((ts + delay, bt.Event("belt" if late else "gate", ts)))
        ts += SECOND // (1200 if ts in TRUCK else 400)
    return sorted(arriving, key=lambda pair: pair[0])


def batches(arriving: list[tuple[int, bt.Event]]) -> Iterator[tuple[int, list[bt.Event]]]:
    for begin in range(0, END + SECOND, BATCH):
        yield begin + BATCH, [scan for at, scan in arriving if begin <= at < begin + BATCH]


def main() -> None:
    machine, arriving = Machine(), scans()
    hall = sorting_hall(machine)
    engine = bt.Engine(hall, attenuation="adaptive", min_slack="200ms", time=machine.time)
    changes: list[bt.Change] = []
    print("second  scans  attenuation  busy  behind")
    handled = 0
    for at, batch in batches(arriving):
        machine.now = max(machine.now, at / SECOND)
        changes += engine.feed(batch)
        handled += len(batch)
        if at % SECOND == 0:
            print(
                f"{at // SECOND:6} {handled:6} {engine.attenuation['counter']:12.2f} "
                f"{engine.busy_factor:5.2f} {machine.now - at / SECOND:5.2f} s"
            )
            handled = 0
    delays = engine.stats["counter"].delays
    changes += engine.finish()

    told = ", ".join(f"{name} {delay / 1000:.0f} ms" for name, delay in sorted(delays.items()))
    print(f"largest delays: {told}")
    taken_back = sum(change.change_type == "delete" for change in changes)
    same = bt.fold(changes) == oracle(hall, [scan for _, scan in arriving])
    print(f"taken back on the way: {taken_back}")
    print(f"the same as in perfect order: {'yes' if same else 'NO'}")


if __name__ == "__main__":
    main()
