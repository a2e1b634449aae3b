"""Watch the machines of a workshop with patterns: report early, and take back what was wrong.

Run it: python examples/patterns.py

Every machine sends a beat once a second, and reports when its hood is opened or closed and when it
starts. Most reports are quick; now and then a machine loses its network for a while, and then its
reports arrive seconds later. Three questions, one pattern each:

* unsafe: a machine starts after its hood was opened and not closed again;
* silent: a machine sends a beat, and then none for three seconds;
* alarm: a machine falls silent within ten seconds after an unsafe start. This pattern reads what
  the other two find, and is taken back when one of them is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import betimes as bt
from betimes.testing import oracle

SECOND = 1_000_000
MACHINES = ("drill", "lathe", "press", "saw")

UNSAFE = bt.pattern(
    "opened !closed started",
    by="machine",
    within="30s",
    emits="unsafe",
    select={"machine": "opened.machine"},
)
SILENT = bt.pattern(
    "beat !beat",
    by="machine",
    within="3s",
    emits="silent",
    select={"machine": "beat.machine"},
)
ALARM = bt.pattern(
    "unsafe silent",
    by="machine",
    within="10s",
    emits="alarm",
    select={"machine": "unsafe.machine"},
)


def workshop() -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="beat", inputs=("beat", "opened", "closed", "started"))
    for pattern in (UNSAFE, SILENT, ALARM):
        hierarchy.add(pattern)
    return hierarchy


def reports(rng: random.Random) -> list[bt.Event]:
    """A minute of reports, in order of arrival."""
    arriving = []
    for machine in MACHINES:
        back = 0
        for ts, type in sorted(life(machine, rng)):
            if ts > back and rng.random() < 0.04:  # no network: reports arrive afterwards
                back = ts + rng.randrange(2 * SECOND, 6 * SECOND)
            arrival = max(ts, back) + rng.randrange(SECOND // 20)
            arriving.append((arrival, bt.Event(type, ts, {"machine": machine})))
    return [event for _, event in sorted(arriving, key=lambda pair: pair[0])]


def life(machine: str, rng: random.Random) -> Iterator[tuple[int, str]]:
    """What happens to a machine in a minute."""
    for second in range(60):
        if machine != "lathe" or not 37 <= second < 45:  # when it stands still
            yield second * SECOND + rng.randrange(SECOND // 10), "beat"
    for second in (10, 30, 50):
        opened = second * SECOND + rng.randrange(SECOND)
        yield opened, "opened"
        if machine != "lathe" and rng.random() < 0.8:
            yield opened + 2 * SECOND, "closed"
        yield opened + 4 * SECOND, "started"


def main() -> None:
    for pattern in (UNSAFE, SILENT, ALARM):
        print(pattern.explain(), end="\n\n")

    arrivals = reports(random.Random(4))
    engine = bt.Engine(workshop(), attenuation=0.1)
    changes: list[bt.Change] = []
    for low in range(0, len(arrivals), 4):
        changes += engine.feed(arrivals[low : low + 4])
    # The recording ends, but the machines keep running: its end is not a silence.
    changes += engine.finish(advance=False)

    for change in changes:
        print(
            f"{change.change_type:8} {change.status:12} {change.type:7}"
            f"{change.ts / SECOND:7.2f} s  {change.payload['machine']:6} because of {change.cause}"
        )

    kinds = [change.change_type for change in changes]
    found = bt.fold(changes)
    print(f"announced {kinds.count('insert')}, taken back {kinds.count('delete')}, ", end="")
    print(f"in the end {found.total()}")
    right = found == oracle(workshop(), arrivals, advance=False)
    print(f"the same as in perfect order: {'yes' if right else 'NO'}")


if __name__ == "__main__":
    main()
