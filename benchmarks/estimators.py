"""How long the policies wait: `python -m benchmarks.estimators [--streams N] [--seed N] [--each]`.

Every policy learns its slack as the stream goes by. The yardstick knows the whole stream: it is the
shortest *fixed* slack with which at most the share `max_late` of the events is late. For many
streams, this prints

* *wait*: the mean wait of an event, from its arrival to its release, as a multiple of the mean wait
  with that fixed slack;
* *late*: the late events among all but the first 200, as a multiple of `max_late`.

The streams are drawn at random, with delays from milliseconds to hours, and with the recordings of
phones if they are there. A stream on which even `largest`, which never lets go of a delay, has half
of `max_late` late events is drawn again: its delays grow too fast for anything to be learned.

`--twins` shows why no policy can do better than that on every stream: two streams that are the same
up to a point, so that whatever knows only the past waits as long in both. In one of them, half of
the devices are offline from there on, for a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
from rich.console import Console
from rich.table import Table

from benchmarks.racing import progress_bar
from benchmarks.streams import PHONES
from betimes import EventBatch, OrderingUnit
from betimes.model import Duration

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FIRST = 200
"""Events at the start of a stream that are not judged: nothing is known yet."""
MS, SECOND, MINUTE, HOUR = 1e3, 1e6, 60e6, 3600e6
SLACKS = ("quantile", "decaying", "largest")


@dataclass(frozen=True)
class Recording:
    """A stream in order of arrival: when each event occurred, when it arrived; microseconds."""

    name: str
    ts: Ints
    arrival: Ints

    @classmethod
    def of(cls, name: str, ts: Floats, delays: Floats) -> Recording:
        occurred = ts.astype(np.int64)
        arrived = occurred + np.maximum(delays, 0).astype(np.int64)
        order = np.argsort(arrived, kind="stable")
        return cls(name, occurred[order], arrived[order])

    @property
    def events(self) -> EventBatch:
        return EventBatch(self.ts, np.zeros(len(self.ts), np.int32), ("event",))


@dataclass(frozen=True)
class Outcome:
    """What a policy made of a recording: the mean wait, and which events were late."""

    wait: float
    late: Ints
    count: int

    @property
    def share(self) -> float:
        """The share of late events after the first ones."""
        return np.count_nonzero(self.late >= FIRST) / max(1, self.count - FIRST)


def run(recording: Recording, slack: str | Duration, max_late: float) -> Outcome:
    unit = OrderingUnit(clock="*", slack=slack, max_late=max_late, max_skew="off")
    ordered = unit.feed(recording.events)
    at, rows = ordered.released.at, ordered.released.rows
    wait = float(np.mean(recording.arrival[at] - recording.arrival[rows])) if len(at) else 0.0
    return Outcome(wait, ordered.late, len(recording.ts))


def best_fixed(recording: Recording, max_late: float) -> int:
    """The shortest fixed slack that keeps to `max_late`, known only in hindsight."""
    low, high = -1, int(np.max(np.maximum.accumulate(recording.ts) - recording.ts)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if len(run(recording, middle, max_late).late) <= max_late * len(recording.ts):
            high = middle
        else:
            low = middle
    return high


# Streams


def delays(kind: str, n: int, rng: np.random.Generator) -> Floats:
    """Delays of about 1."""
    if kind == "stragglers":
        few = rng.random(n) < 0.02
        return np.where(few, rng.uniform(0.5, 5, n), rng.uniform(0, 0.5, n))
    draw: dict[str, Callable[[], Floats]] = {
        "exponential": lambda: rng.exponential(1, n),
        "uniform": lambda: rng.uniform(0, 2, n),
        "lognormal": lambda: rng.lognormal(0, 1, n),
        "normal": lambda: rng.normal(1, 0.3, n),
        "heavy tail": lambda: rng.pareto(1.5, n),
    }
    return draw[kind]()


def steady(rng: np.random.Generator) -> Recording:
    """The same delays from beginning to end; sparse or dense."""
    return _modulated("steady", rng)


def burst_at_start(rng: np.random.Generator) -> Recording:
    return _modulated("burst at start", rng)


def bursts(rng: np.random.Generator) -> Recording:
    return _modulated("bursts", rng)


def growing(rng: np.random.Generator) -> Recording:
    return _modulated("growing", rng)


def shrinking(rng: np.random.Generator) -> Recording:
    return _modulated("shrinking", rng)


def day_and_night(rng: np.random.Generator) -> Recording:
    return _modulated("day and night", rng)


def _modulated(how: str, rng: np.random.Generator) -> Recording:
    """Delays of one kind, many times as long during parts of the stream."""
    kinds = ("exponential", "uniform", "lognormal", "normal", "stragglers", "heavy tail")
    kind = str(rng.choice(kinds if how == "steady" else kinds[:-1]))
    n = int(rng.choice([5_000, 10_000, 30_000]))
    unit = float(rng.choice([MS, 30 * MS, SECOND, MINUTE, HOUR]))
    density = float(rng.choice([0.3, 1, 3, 10, 100]))
    times = float(rng.choice([3, 6, 20, 100]))
    longer = np.ones(n)
    start = int(rng.integers(n // 5, n * 4 // 5))
    if how == "burst at start":
        longer[: int(rng.choice([100, 300, 1000]))] = times
    elif how == "bursts":
        for start in rng.integers(0, n, int(rng.integers(1, 10))):
            longer[start : start + int(rng.choice([20, 100, 300]))] = times
    elif how == "growing":
        longer[start:] = times
    elif how == "shrinking":
        longer[:start] = times
    elif how == "day and night":
        turn = np.linspace(0, 2 * np.pi * rng.integers(1, 6), n) + rng.uniform(0, 6)
        longer = times ** (0.5 + 0.5 * np.sin(turn))
    ts = np.cumsum(rng.exponential(unit / density, n))
    name = f"{kind}, {n:,} events, {unit / SECOND:g} s, density {density:g}, x {times:g}"
    return Recording.of(name, ts, unit * longer * delays(kind, n, rng))


def phones(rng: np.random.Generator) -> Recording:
    """Several phones; each sends in order, at its own pace, and is offline now and then."""
    count, each = int(rng.integers(3, 12)), int(rng.choice([600, 1200, 2400]))
    gap = float(rng.choice([100 * MS, 500 * MS, 2 * SECOND]))
    usual = float(rng.choice([30 * MS, 80 * MS, 300 * MS]))
    outages = float(rng.choice([0, 0.3, 1, 3]))
    all_ts, all_delays = [], []
    for _ in range(count):
        ts = rng.exponential(3 * SECOND) + gap * np.arange(each) + rng.uniform(0, 5 * MS, each)
        spread = float(rng.choice([0.2, 0.5, 1]))
        arrival = ts + usual * rng.lognormal(0, 0.5) * rng.lognormal(0, spread, each)
        length = float(rng.choice([0.3 * SECOND, SECOND, 4 * SECOND]))
        starts = rng.uniform(ts[0], ts[-1], rng.poisson(outages * (ts[-1] - ts[0]) / (10 * MINUTE)))
        for start in [*starts, *ts[: int(rng.random() < 0.3)]]:
            end = start + length * rng.exponential()
            arrival[(arrival >= start) & (arrival < end)] = end
        all_ts.append(ts)
        all_delays.append(np.maximum.accumulate(arrival) - ts)
    name = f"{count} phones, {each:,} events each, every {gap / SECOND:g} s"
    return Recording.of(name, np.concatenate(all_ts), np.concatenate(all_delays))


def recorded() -> Iterator[Recording]:
    """The recordings of phones that exist."""
    for path in sorted(PHONES.glob("*.csv")):
        table = pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=";"))
        columns = ("S.Client.Detection.Time", "S.Message.received.time.ms")
        ts, arrival = (table[name].to_numpy().astype(np.int64) * 1000 for name in columns)
        yield Recording(path.stem, ts, arrival)


DRAWN = (steady, phones, burst_at_start, bursts, growing, shrinking, day_and_night)


def draw(
    make: Callable[[np.random.Generator], Recording], rng: np.random.Generator, max_late: float
) -> tuple[Recording, int]:
    """A stream from which something can be learned, and the best fixed slack for it."""
    while True:
        recording = make(rng)
        best = best_fixed(recording, max_late)
        long_enough = 20 * best < int(np.ptp(recording.ts))
        if long_enough and run(recording, "largest", max_late).share <= max_late / 2:
            return recording, best


def twins(rng: np.random.Generator) -> tuple[Recording, Recording]:
    """Ten events per second, delayed by about a second; in the second stream there is an outage."""
    n, start, length = 10_000, 5_000, 600
    ts = np.cumsum(rng.exponential(0.1 * SECOND, n))
    usual = rng.exponential(SECOND, n)
    offline = np.arange(start, start + length, 2)
    longer = usual.copy()
    longer[offline] = np.maximum(usual[offline], ts[start + length] - ts[offline])
    return Recording.of("calm", ts, usual), Recording.of("with an outage", ts, longer)


# Results


@dataclass
class Tally:
    """The results of one policy on one kind of streams."""

    wait: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)

    def note(self, recording: Recording, slack: str, best: int, max_late: float) -> None:
        yardstick = run(recording, best, max_late).wait
        outcome = run(recording, slack, max_late)
        # Where no wait at all would do, waiting for less than 1 ms is as good.
        self.wait.append(max(outcome.wait, MS) / max(yardstick, MS))
        self.late.append(outcome.share / max_late)

    def cells(self) -> list[str]:
        middle, most = np.median(self.wait), np.quantile(self.wait, 0.9)
        late, worst = np.median(self.late), np.max(self.late)
        above = np.mean(np.array(self.late) > 1)
        return [f"{middle:.2f}", f"{most:.2f}", f"{late:.2f}", f"{worst:.2f}", f"{above:.0%}"]


def compare(streams: int, seed: int, max_late: float, *, each: bool) -> Table:
    title = f"{streams} streams per kind, max_late {max_late:g}, seed {seed}"
    table = Table("streams", "slack", title=title, title_justify="left")
    for name in ("wait", "90 %", "late", "most", "above 1"):
        table.add_column(name, justify="right")

    def add(kind: str, found: list[tuple[Recording, int]]) -> None:
        for slack in SLACKS:
            tally = Tally()
            for recording, best in found:
                tally.note(recording, slack, best, max_late)
                if each:
                    one = Tally(tally.wait[-1:], tally.late[-1:])
                    table.add_row(recording.name, slack, *one.cells())
            table.add_row(kind, slack, *tally.cells(), end_section=slack == SLACKS[-1])

    for recording in recorded():
        add(recording.name, [(recording, best_fixed(recording, max_late))])
    with progress_bar() as bar:
        for make in bar.track(DRAWN, description="Streams"):
            rng = np.random.default_rng(seed)
            add(
                make.__name__.replace("_", " "), [draw(make, rng, max_late) for _ in range(streams)]
            )
    return table


def compare_twins(seed: int, max_late: float) -> Table:
    calm, outage = twins(np.random.default_rng(seed))
    best, needed = best_fixed(calm, max_late), best_fixed(outage, max_late)
    table = Table("slack", title=f"twins, max_late {max_late:g}, seed {seed}", title_justify="left")
    for name in ("calm: wait", "calm: late", "outage: late"):
        table.add_column(name, justify="right")
    fixed = {f"{times} x the best of the calm one": times * best for times in (1, 2, 4)}
    fixed["the best of the other one"] = needed
    yardstick = run(calm, best, max_late).wait
    slacks: dict[str, str | Duration] = {**{name: name for name in SLACKS}, **fixed}
    for label, slack in slacks.items():
        quiet, loud = run(calm, slack, max_late), run(outage, slack, max_late)
        shares = (each.share / max_late for each in (quiet, loud))
        table.add_row(label, f"{quiet.wait / yardstick:.2f}", *(f"{share:.2f}" for share in shares))
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--streams", type=int, default=30, help="streams per kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-late", type=float, default=0.01, metavar="SHARE")
    parser.add_argument("--each", action="store_true", help="a row per stream, too")
    parser.add_argument("--twins", action="store_true", help="what nobody can know beforehand")
    options = parser.parse_args(arguments)
    if options.twins:
        Console().print(compare_twins(options.seed, options.max_late))
        return
    Console().print(compare(options.streams, options.seed, options.max_late, each=options.each))


if __name__ == "__main__":
    main()
