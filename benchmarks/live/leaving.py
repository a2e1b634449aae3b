"""What it costs to stop speculating: `python -m benchmarks.live.leaving`.

An engine at attenuation 0 has released everything, and its detector goes back with every batch.
Then the attenuation becomes 1. Until the slack has passed, what is out may still turn out to be
wrong, so the engine has to go on like before; it must not cost more. CPU time per batch of 5,000
events of the live stream, up to 0.1 s late, without work in the detector: before, the median and
the largest; and after, until three times the largest delay has passed.
"""

from __future__ import annotations

import gc
import statistics
import time

from rich.console import Console
from rich.table import Table

from benchmarks.live.local import MOST
from benchmarks.live.schedule import Idle, Phase, Schedule, hierarchy
from betimes import Engine

RATES = (10_000, 100_000, 740_000)
POLICIES = ("largest", "quantile", "decaying")
LATEST = 100_000
"""Microseconds by which an event may be late."""
LEAST = 8
"""Batches of each part, at least."""


def measure(rate: int, policy: str) -> tuple[list[float], list[float]]:
    """CPU seconds of each batch before the attenuation was raised, and after."""
    engine = Engine(hierarchy(Idle), by="key", slack=policy, attenuation=0.0)
    schedule = Schedule([Phase(1e4, rate)], latest=LATEST)
    part = max(LEAST, round(rate * LATEST / 1e6 / MOST))
    took: list[float] = []
    gc.collect()
    for number in range(6 * part):
        if number == 3 * part:
            engine.set_attenuation(1.0)
        batch = schedule.batch(number * MOST, (number + 1) * MOST)
        began = time.process_time()
        engine.feed(batch)
        took.append(time.process_time() - began)
    return took[2 * part : 3 * part], took[3 * part :]


def main() -> None:
    measure(RATES[0], POLICIES[0])  # what is compiled, is compiled now
    table = Table(
        "events/s", "slack", "attenuation 0: median, largest", "after: median, largest",
        "largest over largest", "largest over median", title="CPU time per batch",
    )  # fmt: skip
    for rate in RATES:
        for policy in POLICIES:
            before, after = measure(rate, policy)
            usual, most, worst = statistics.median(before), max(before), max(after)
            table.add_row(
                f"{rate:,}", policy, f"{1e3 * usual:.1f}, {1e3 * most:.1f} ms",
                f"{1e3 * statistics.median(after):.1f}, {1e3 * worst:.1f} ms",
                f"{worst / most:.2f}", f"{worst / usual:.2f}",
            )  # fmt: skip
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
