"""`python -m benchmarks.windows [PART ...]`; the parts are in `PARTS`, all of them by default."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from statistics import median

from rich.console import Console
from rich.table import Table

import betimes as bt
from benchmarks.windows import aggregates, processes, virtual
from benchmarks.windows.virtual import Case

INSTANCES = (1, 2, 4, 8, 16)
SOME = (1, 4, 16)
RUNS = [("in order", 1.0), ("in order", 0.0), ("disorder", 1.0), ("disorder", 0.0)]
SPACINGS = (1, 5, 10, 50, 100, 500, 1_000, 5_000)
PARTS = ["aggregates", "throughput", "latency", "snapshots", "processes", "sessions"]
console = Console()


def show_aggregates(events: int, repeats: int) -> None:
    for shape in aggregates.WINDOWS:
        table = Table("stream", "contender", "million events/s", "x polars")
        for name, delay in (("in order", 0), ("up to 50 ms late", 50_000)):
            stream = aggregates.stream(events, delay)
            contenders: dict[str, Callable[[], int]] = {
                "polars, sorted": partial(aggregates.of_polars, stream, shape),
                "betimes, attenuation 1": partial(aggregates.of_engine, stream, shape, 1.0),
                "betimes, attenuation 0": partial(aggregates.of_engine, stream, shape, 0.0),
            }
            rates = aggregates.rates(contenders, events, repeats)
            for contender, rate in rates.items():
                against = rate / rates["polars, sorted"]
                table.add_row(name, contender, f"{rate / 1e6:.2f}", f"{against:.2f}")
        console.print(shape, table)


def interval_of(instances: int) -> int:
    """The time between two events at 80 % of the throughput."""
    throughput = virtual.run(Case(instances)).throughput
    return round(1e6 / throughput / 0.8)


def show_throughput() -> None:
    table = Table("instances", *(f"{order}, {a:g}" for order, a in RUNS), "first, x 1 instance")
    one, found = 0.0, None
    for n in INSTANCES:
        done = [
            virtual.run(Case(n, disorder, attenuation))
            for disorder, attenuation in ((order == "disorder", a) for order, a in RUNS)
        ]
        assert all(each.found == (found or done[0].found) for each in done)
        found, one = done[0].found, one or done[0].throughput
        rates = [f"{each.throughput:,.0f}" for each in done]
        table.add_row(str(n), *rates, f"{done[0].throughput / one:.1f}")
    console.print("events per second of virtual time, by order and attenuation", table)


def show_latency(intervals: dict[int, int]) -> None:
    table = Table("attenuation", *(f"{n} instances" for n in INSTANCES))
    for value in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        cells = []
        for n in INSTANCES:
            found = virtual.run(Case(n, True, value, interval=intervals[n])).latencies
            cells.append(f"{median(found) / 1e3:.1f}, {max(found) / 1e3:.0f}")
        table.add_row(f"{value:g}", *cells)
    console.print("latency with disorder, ms: median, largest", table)


def show_snapshots(intervals: dict[int, int]) -> None:
    for size in (100, 1_000, 10_000):
        table = Table("snapshot every", *(f"{n} instances" for n in SOME))
        window = bt.window(count=size, slide=size // 5)
        work: dict[int, list[float]] = {n: [] for n in SOME}
        for snapshots in (*SPACINGS, "adaptive"):
            cells = []
            for n in SOME:
                done = virtual.run(Case(n, True, 0.0, snapshots, intervals[n], window))
                work[n].append(done.busy / 1e6)
                late = f", {median(done.latencies) / 1e3:.0f} ms" if done.latencies else ""
                cells.append(f"{work[n][-1]:.3f} s{late}")
            table.add_row(str(snapshots), *cells)
        against = [f"{each[-1] / min(each[:-1]):.3f}" for each in work.values()]
        table.add_row("adaptive / best other", *against)
        console.print(f"work of all instances, median latency; windows of {size:,} events", table)


def show_processes(events: int, rounds: int) -> None:
    table = Table("contender", "events/s, CPU", "x plain loop", "events/s, wall", "x plain loop")
    rates = processes.rates(events, rounds)
    for name, each in rates.items():
        pairs = zip(each, rates["plain loop"], strict=True)
        cells = [cell for mine, plain in pairs for cell in (f"{mine:,.0f}", f"{mine / plain:.2f}")]
        table.add_row(name, *cells)
    console.print(table)


def show_sessions(rows: int) -> None:
    from benchmarks.windows import sessions  # Spark is not needed for the others

    table = Table("contender", "rows/s", "median micro-batch, s")
    for name, (rate, batch) in sessions.rates(rows).items():
        table.add_row(name, f"{rate:,.0f}", f"{batch:.2f}")
    console.print("sessions on Spark", table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if "aggregates" in options.parts:
        show_aggregates(options.events, options.repeats)
    if "throughput" in options.parts:
        show_throughput()
    if "latency" in options.parts:
        show_latency({n: interval_of(n) for n in INSTANCES})
    if "snapshots" in options.parts:
        show_snapshots({n: interval_of(n) for n in SOME})
    if "sessions" in options.parts:
        show_sessions(options.events // 4)
    if "processes" in options.parts:
        show_processes(options.events // 500, options.repeats)


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    main()
