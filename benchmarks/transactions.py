"""Transactions on several workers: `python -m benchmarks.transactions [paper|surface|real|short]`.

`paper`: the experiments of Brito, Fetzer, Sturzrehm and Felber (DEBS 2008), figures 3 to 7, in
virtual time: 4 workers, tasks of 0 to 1 ms, events in order or shuffled by four filters. Only the
tasks and the work per message of the process that commits have a cost; the latter is measured here.

`surface`: speed-up over the length of a task and the share of events that conflict, in virtual
time, with the default predictor and with the best of all.

`real`: the same with 2 worker processes that have started. Needs two idle cores.

`short`: tasks that are too short to be sent, with workers=2 and with workers=1, in CPU time.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable
from time import perf_counter, process_time, sleep, thread_time
from typing import Any

from rich.console import Console
from rich.table import Table

import betimes as bt
from betimes.model.event import Event
from betimes.testing.transacting import Worked, transact
from betimes.transactions.book import Book, Entry
from betimes.transactions.crew import Processes
from betimes.transactions.predictors import Choice, predictor_of

SIZES = 0, 100, 200, 500, 1000
"""Microseconds."""
FILTERS, FILTERING = 4, 100
"""Four filters, each of which takes so many microseconds, shuffle the events."""
STATE = 20
SURFACE = 10, 100, 500, 1_000, 10_000
RATES = 0.0, 0.01, 0.1, 0.2, 0.5, 1.0


# The paper's tasks and predictors


class Histogram:
    """The paper's algorithms 2 and 3: events that are `size` apart use the same bucket.

    Every `also`-th event uses the next bucket, too, so it conflicts with its neighbour.
    """

    def __init__(self, size: int = STATE, also: int | None = None) -> None:
        self._size = size
        self._also = also

    def __call__(self, event: Event, state: Any) -> None:
        bucket = event.ts % self._size
        state[bucket] = state.get(bucket, 0) + 1
        if self._also is not None and event.ts % self._also == 0:
            following = (bucket + 1) % self._size
            state[following] = state.get(following, 0) + 1


class Cost:
    """Every task takes as long."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, event: Event) -> int:  # noqa: ARG002
        return self._size


def conflict(event: Event) -> int:
    """How far before an event the last one is that it conflicts with, in the second scenario."""
    return {0: STATE - 1, 1: 1}.get(event.ts % 5, STATE)


PREDICTORS: dict[str, Choice] = {
    "0: always": "always",
    "1: 20 ahead, yes or no": lambda _, ahead: ahead <= STATE,
    "2: exact, yes or no": lambda event, ahead: ahead <= conflict(event),
    "3: 20 ahead, when": lambda _, __: STATE,
    "4: exact, when": lambda event, _: conflict(event),
}


def arrivals(count: int, *, ordered: bool, seed: int = 1) -> list[tuple[int, Event]]:
    """Events with when they arrive; the filters let them through at the same rate, in any order."""
    chance = random.Random(seed)
    step = FILTERING // FILTERS
    return [
        (ts * step + (FILTERING if ordered else chance.randint(0, FILTERING)), Event("e", ts))
        for ts in range(count)
    ]


def sequential(arriving: Iterable[tuple[int, Event]], size: int) -> tuple[int, float]:
    """Time and mean latency of an operator that takes one event after the other, in order."""
    end, latencies = 0, []
    for when, event in sorted(arriving, key=lambda pair: pair[1].ts):
        end = max(end, when) + size
        latencies.append(end - event.ts * FILTERING // FILTERS)
    return end, sum(latencies) / len(latencies)


def latency(worked: Worked) -> float:
    made = (when - ts * FILTERING // FILTERS for ts, when in worked.committed.items())
    return sum(made) / len(worked.committed)


def overhead(count: int = 2_000) -> float:
    """Microseconds of this process per transaction that a worker process runs."""
    with_workers = Processes(
        Histogram(1000), (), workers=2, timeout=None, name="tasks", time=perf_counter
    )
    while not all(with_workers.pool.ready):
        sleep(0.01)
        with_workers.pool.receive(wait=False)
    best = float("inf")
    for _ in range(5):
        book = Book()
        for ts in range(count):
            book.insert(Entry((ts, 0, 0), Event("e", ts)))
        began = process_time()
        with_workers.run(None, book, predictor_of("always", Histogram()))
        best = min(best, (process_time() - began) / count * 1e6)
    with_workers.pool.close()
    return best


# The experiments


def paper(console: Console, count: int, spent: int) -> None:
    """Figures 3 to 7."""
    scenarios: dict[str, tuple[bool, Histogram | None, int]] = {
        "ordered, sequential": (True, None, 0),
        "unordered, sequential": (False, None, 0),
        "ordered, speculative": (True, Histogram(1000), 500),
        "unordered, 0 % conflicts": (False, Histogram(), 10),
        "unordered, 10 % conflicts": (False, Histogram(also=10), 10),
        "unordered, 20 % conflicts": (False, Histogram(also=5), 10),
    }
    shown: dict[str, Callable[[int, float, int], str]] = {
        "Events per second": lambda time, _, __: f"{count / time * 1e6:,.0f}",
        "Speed-up over the sequential operator, events in order": (
            lambda time, _, base: f"{base / time:.2f}"
        ),
        "Mean latency, ms": lambda _, mean, __: f"{mean / 1e3:.2f}",
    }
    rows: dict[tuple[str, int], tuple[int, float]] = {}
    for name, (ordered, task, reach) in scenarios.items():
        for size in SIZES:
            coming = arrivals(count, ordered=ordered)
            if task is None:
                rows[name, size] = sequential(coming, size)
            else:
                worked = transact(
                    task, coming, workers=4, predictor=bt.horizon(reach), overhead=spent,
                    cost=Cost(size),
                )  # fmt: skip
                rows[name, size] = worked.time, latency(worked)
    for title, show in shown.items():
        table = Table("scenario", *(f"{size} us" for size in SIZES), title=title)
        for name in scenarios:
            table.add_row(
                name,
                *(show(*rows[name, s], rows["ordered, sequential", s][0]) for s in SIZES),
            )
        console.print(table)
    free, ten, twenty = (rows[f"unordered, {n} % conflicts", SIZES[-1]][0] for n in (0, 10, 20))
    console.print(
        f"At 1 ms, 10 % of conflicts cost {1 - free / ten:.0%} and 20 % cost "
        f"{1 - free / twenty:.0%} of the speed (the paper: 18 % and 26 %)"
    )
    for title, task in (("0 %", Histogram()), ("20 %", Histogram(also=5))):
        table = Table(
            "predictor", *(f"{size} us" for size in SIZES), "run again",
            title=f"Speed-up of the predictors, scenario with {title} conflicts among neighbours",
        )  # fmt: skip
        for name, predictor in PREDICTORS.items():
            cells, again = [], 0.0
            for size in SIZES:
                coming = arrivals(count, ordered=False)
                worked = transact(
                    task, coming, workers=4, predictor=predictor, overhead=spent,
                    cost=Cost(size),
                )  # fmt: skip
                cells.append(f"{sequential(coming, size)[0] / worked.time:.2f}")
                again = worked.executions / count - 1
            table.add_row(name, *cells, f"{again:.0%}")
        console.print(table)


def touch(event: Event, state: Any) -> None:
    """Read and write one account."""
    account = event["account"]
    state[account] = state.get(account, 0) + 1


def touching(count: int, rate: float) -> list[Event]:
    """This share of the events uses one account; all others have their own."""
    chance = random.Random(2)
    return [
        Event("e", ts, {"account": 0 if chance.random() < rate else ts + 1}) for ts in range(count)
    ]


def surface(console: Console, count: int, spent: int) -> None:
    """Speed-up in virtual time."""
    predictors: list[Choice] = ["adaptive", "always", "never", "learned", "dynamic"]
    for workers in (4, 32):
        table = Table(
            "task", *(f"{rate:.0%}" for rate in RATES),
            title=f"Speed-up with {workers} workers, by share of conflicts: default (best of all)",
        )  # fmt: skip
        for size in SURFACE:
            cells = []
            for rate in RATES:
                coming = [(0, event) for event in touching(count, rate)]
                speeds = [
                    count * size / transact(
                        touch, coming, workers=workers, predictor=predictor, overhead=spent,
                        cost=Cost(size),
                    ).time
                    for predictor in predictors
                ]  # fmt: skip
                cells.append(f"{speeds[0]:.2f} ({max(speeds):.2f})")
            table.add_row(f"{size:,} us", *cells)
        console.print(table)
    for workers in (4, 32):
        size, many = 500, 3 * count
        coming = [(n * size // workers, event) for n, event in enumerate(touching(many, 0.0))]
        spent_all = transact(touch, coming, workers=workers, overhead=spent, cost=Cost(size)).time
        console.print(
            f"{size} us, no conflicts, one event per {size // workers} us: "
            f"{many * size / spent_all:.2f} with {workers} workers"
        )


class Busy:
    """A task that keeps a core busy for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, event: Event, state: Any) -> None:
        began = thread_time()
        touch(event, state)
        while thread_time() - began < self._seconds:
            pass


def took(size: int, events: list[Event], workers: int, predictor: Choice) -> float:
    """Seconds per event, once they have run for `WARM` seconds: processes have started by then."""
    operator = bt.transactional(
        Busy(size / 1e6), workers=workers, predictor=predictor,
        on_commit=lambda event, _: seen.append((event.ts, perf_counter())),
    )  # fmt: skip
    seen: list[tuple[int, float]] = []
    for _ in operator.run(events):
        pass
    # Events are committed in batches, so look where one begins.
    begins = (n for n in range(1, len(seen)) if seen[n][1] - seen[n - 1][1] > 1e-4)
    first = next(n for n in begins if seen[n - 1][1] - seen[0][1] > WARM)
    return (seen[-1][1] - seen[first - 1][1]) / (len(seen) - first)


WARM = 2.0
"""Seconds. Both cores are busy with starting the processes for about as long."""
NOTED = 30
"""Microseconds that an operator needs per transaction that does nothing, about."""
REAL = "adaptive", "always", "dynamic", "learned"


def real(console: Console, options: argparse.Namespace) -> None:
    """Speed-up with 2 worker processes over the same operator with workers=1."""
    heads = "task", "conflicts", "workers=1", *options.predictors
    console.print("Speed-up with 2 worker processes over workers=1")
    console.print("".join(f"{head:>11}" for head in heads))
    for size in options.sizes:
        for rate in options.rates:
            count = int((2 * WARM + options.seconds) * 1e6 / (size + NOTED))
            events = touching(max(2_048, count), rate)
            runs: dict[str, tuple[int, str]] = {"workers=1": (1, "never")}
            runs |= {name: (2, name) for name in options.predictors}
            best = dict.fromkeys(runs, float("inf"))
            for _ in range(options.rounds):
                for name, how in runs.items():
                    best[name] = min(best[name], took(size, events, *how))
            alone = best.pop("workers=1")
            speeds = (f"{alone / seconds:.2f}" for seconds in best.values())
            cells = f"{size:,} us", f"{rate:.0%}", f"{alone * 1e6:,.0f} us", *speeds
            console.print("".join(f"{cell:>11}" for cell in cells))


def short(console: Console, rounds: int, count: int = 20_000) -> None:
    """What it costs to have workers that are of no use."""
    table = Table("task", "conflicts", "workers=1, us", "workers=2, us", "speed-up")
    for size in (0, 10):
        for rate in (0.0, 0.2, 1.0):
            events = touching(count, rate)
            spent: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(rounds):
                for workers, known in spent.items():
                    operator = bt.transactional(Busy(size / 1e6), workers=workers)
                    began = process_time()
                    for _ in operator.run(events):
                        pass
                    known.append((process_time() - began) / count * 1e6)
            one, two = min(spent[1]), min(spent[2])
            table.add_row(
                f"{size} us", f"{rate:.0%}", f"{one:.1f}", f"{two:.1f}", f"{one / two:.2f}"
            )
    console.print(table)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["paper", "surface", "real", "short"])
    parser.add_argument("--events", type=int, default=400, help="per run in virtual time")
    parser.add_argument("--overhead", type=int, help="us per message, instead of measuring it")
    parser.add_argument("--seconds", type=float, default=4.0, help="of work per real run")
    parser.add_argument("--sizes", type=int, nargs="+", default=SURFACE, help="of real tasks, us")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="of real conflicts")
    parser.add_argument("--rounds", type=int, default=1, help="of real runs; the best one counts")
    parser.add_argument("--predictors", nargs="+", default=REAL, help="of real runs")
    options = parser.parse_args(arguments)
    console = Console(width=110)
    what = options.what
    if what in (None, "paper", "surface"):
        spent = options.overhead
        if spent is None:
            spent = round(overhead() / 2)  # two messages: an event that comes, a record that comes
        console.print(f"Work per message of the process that commits: {spent} us")
        runs: dict[str, Callable[[Console, int, int], None]] = {"paper": paper, "surface": surface}
        for name, run in runs.items():
            if what in (None, name):
                run(console, options.events, spent)
    if what in (None, "real"):
        real(console, options)
    if what in (None, "short"):
        short(console, max(options.rounds, 5))


if __name__ == "__main__":
    main()
