"""Put the readings of three weather stations in order, although their radio links differ.

Run it: python examples/order_a_stream.py

Every station sends one reading per second. The valley's link is quick and steady, so its readings
are the clock; the ridge is up to two seconds late, and the summit sends in bursts when the weather
allows. One question needs the right order: when does the wind jump from one reading to the next,
across all stations?
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta

import betimes as bt

SECOND = 1_000_000
MINUTES = 10


def readings(rng: random.Random) -> list[tuple[int, bt.Event]]:
    """What the stations measured, with the time at which each reading arrived."""
    arrivals = []
    for second in range(MINUTES * 60):
        for station, latest in (("valley", 0.05), ("ridge", 2.0), ("summit", 0.3)):
            ts = second * SECOND + rng.randrange(SECOND // 2)
            delay = round(rng.uniform(0, latest) * SECOND)
            if station == "summit":  # a burst every five seconds
                delay += (4 - second % 5) * SECOND
            wind = round(rng.gauss(8.0, 2.5), 1)
            arrivals.append((ts + delay, bt.Event(station, ts, {"wind": wind})))
    return sorted(arrivals, key=lambda arrival: arrival[0])


def jumps(events: Iterator[bt.Event]) -> Iterator[bt.Event]:
    """Readings that are far above the previous one; this only makes sense in order."""
    before: bt.Event | None = None
    for event in events:
        if before is not None and event["wind"] - before["wind"] > 10:
            yield event
        before = event


def ordered(unit: bt.OrderingUnit, arrivals: list[bt.Event]) -> Iterator[bt.Event]:
    """Feed the readings as they arrive, in small batches, and yield what is in order."""
    for low in range(0, len(arrivals), 20):
        yield from unit.feed(arrivals[low : low + 20]).released.events
    yield from unit.finish().released.events


def main() -> None:
    arrivals = [event for _, event in readings(random.Random(7))]
    truth = list(jumps(iter(sorted(arrivals, key=lambda event: event.ts))))
    naive = list(jumps(iter(arrivals)))

    unit = bt.OrderingUnit(clock="valley", slack="largest", margin=1.0)
    found = list(jumps(ordered(unit, arrivals)))

    stats = unit.stats
    print(f"{stats.arrived} readings, {len(truth)} jumps")
    print(f"in order of arrival:  {_score(naive, truth)}")
    print(f"in order of time:     {_score(found, truth)}")
    print(
        f"learned slack: {timedelta(microseconds=stats.slack)}, "
        f"late before it was learned: {stats.late}, most events held at once: {stats.peak}"
    )


def _score(found: list[bt.Event], truth: list[bt.Event]) -> str:
    right = sum(event in truth for event in found)
    return f"{right} found, {len(found) - right} false, {len(truth) - right} missed"


if __name__ == "__main__":
    main()
