"""Report a door opened without a badge before all reports are in, and take back what was wrong.

Run it: python examples/early_and_right.py

Doors report ten times a second whether they are open. Their reports are quick and steady, so they
are the clock; badge readers are up to a second late. Two questions need the right order: does
someone open a door without a badge, and does that happen twice within ten seconds? A guard wants to
know at once, and also wants to know when there was a badge after all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import betimes as bt
from betimes.testing import oracle

SECOND = 1_000_000


@dataclass
class Intrusion:
    """The door opens, and no badge was shown in the two seconds before."""

    shown: int | None = None

    def on_event(self, event: bt.Event) -> Iterator[bt.Event]:
        if event.type == "badge":
            self.shown = event.ts
        elif event["open"]:
            if self.shown is None or event.ts - self.shown > 2 * SECOND:
                yield bt.Event("intrusion", event.ts, {"door": event["door"]})
            self.shown = None


@dataclass
class Alarm:
    """Two intrusions within ten seconds, at any doors."""

    last: int | None = None

    def on_event(self, event: bt.Event) -> Iterator[bt.Event]:
        if self.last is not None and event.ts - self.last <= 10 * SECOND:
            yield bt.Event("alarm", event.ts, {"after": round((event.ts - self.last) / SECOND, 1)})
        self.last = event.ts


def building() -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="door", inputs=("door", "badge"))
    hierarchy.add(Intrusion, on=("door", "badge"), emits="intrusion", by="door")
    hierarchy.add(Alarm, on="intrusion", emits="alarm")
    return hierarchy


def reports(rng: random.Random) -> list[bt.Event]:
    """Half a minute of reports, in order of arrival."""
    arriving = []
    for tenth in range(300):
        for door in ("north", "south"):
            ts = tenth * SECOND // 10 + rng.randrange(SECOND // 20)
            opens = rng.random() < 0.02
            report = bt.Event("door", ts, {"door": door, "open": opens})
            arriving.append((ts + rng.randrange(20_000), report))
            if opens and rng.random() < 0.7:
                shown = max(0, ts - rng.randrange(100_000, 600_000))
                badge = bt.Event("badge", shown, {"door": door})
                arriving.append((shown + rng.randrange(100_000, SECOND), badge))
    return [event for _, event in sorted(arriving, key=lambda pair: pair[0])]


def main() -> None:
    arrivals = reports(random.Random(7))
    engine = bt.Engine(building(), attenuation=0.1)
    changes: list[bt.Change] = []
    for low in range(0, len(arrivals), 4):
        changes += engine.feed(arrivals[low : low + 4])
    changes += engine.finish()

    for change in changes:
        what = ", ".join(f"{name} {value}" for name, value in change.payload.items())
        print(
            f"{change.change_type:8} {change.status:12} {change.type:10}"
            f"{change.ts / SECOND:7.2f} s  {what:11} because of {change.cause}"
        )

    kinds = [change.change_type for change in changes]
    found = bt.fold(changes)
    print(f"announced {kinds.count('insert')}, taken back {kinds.count('delete')}, ", end="")
    print(f"in the end {found.total()}")
    print(
        f"the same as in perfect order: {'yes' if found == oracle(building(), arrivals) else 'NO'}"
    )


if __name__ == "__main__":
    main()
