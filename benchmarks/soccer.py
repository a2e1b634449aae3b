"""The match of the papers, from raw positions to chances: `python -m benchmarks.soccer [--quick]`.

The snippet is as long as theirs: 65 s of 144 transmitters, 2.2 million positions, in packets, with
jitter and bursts (`betimes simulate soccer` makes the same). All of it goes through the whole
hierarchy of `betimes.apps.soccer`, on one core.

* *Speed*: pure buffering, fed as fast as possible; seconds of the match per second.
* *Keeping up*: adaptive speculation, fed by the wall clock at four times the speed of the match.
  A batch is everything that has arrived when the previous batch is done, but at least 25 ms. The
  lag of a batch is the time from the arrival of its first position until the batch is done.
* *Latency of passes*: stream time from the reception to the clock at which the pass was detected,
  averaged over the final result; if it was taken back and made again, the last time counts.
* *Memory*: what a detector holds, as data: events that wait or may be needed again, its state, and
  its snapshots. The figure is the largest mean over all detectors. Adaptive speculation runs at the
  speed of the match, on a clock that jumps over pauses.
* *Slack by level*: what disorder costs the slowest detector of each level, with learned slack,
  against what an expert would choose according to the papers: 500 ms, plus 25 ms per level. A
  detector also has to wait for events that are dated back, whatever it learns: the wait that it
  would need if positions came in order is not counted. The jitter is that of the papers' figure 6:
  positions one by one (up to 100 ms), and in packets of ten (up to 145 ms).

All runs must give the same final result.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from benchmarks.racing import Contender, Race, Target, progress_bar, race, report
from benchmarks.snippet import BATCH, MS, Snippet
from betimes.apps.soccer.disorder import PRESETS
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED
from betimes.engine import Engine
from betimes.engine.stats import DetectorStats
from betimes.model.change import Change, fold
from betimes.model.codec import loads

SPEED = 4
"""Speculation has to keep up with this many times the speed of the match."""
EXPERT, EXPERT_LEVEL = 500 * MS, 25 * MS
PAPERS = {"pure buffering": 1.1, "adaptive": 14.9}
"""Megabytes per detector in the paper on speculation, section 5.3."""
WATCHED = 20
"""Memory is measured once per this many batches."""
Readings = dict[str, dict[str, str]]


@dataclass
class Run:
    """What a run produced, and what was measured along the way."""

    changes: list[Change] = field(default_factory=list)
    stats: dict[str, DetectorStats] = field(default_factory=dict)
    held: list[dict[str, int]] = field(default_factory=list)
    """The bytes that each detector holds, every `WATCHED` batches."""
    lags: list[float] = field(default_factory=list)
    """After each batch: seconds since its first position arrived."""

    def latency(self, type: str, since: Callable[[Change], int]) -> float:
        """Mean time to detect the final results of a type, in milliseconds."""
        last: dict[str, Change] = {}
        for change in self.changes:
            if change.type == type and change.change_type == "insert":
                last[change.match_id] = change
            elif change.type == type and change.change_type == "delete":
                del last[change.match_id]
        return statistics.mean((c.detected_at - since(c)) / MS for c in last.values())


def held_by(engine: Engine) -> dict[str, int]:
    """The bytes that each detector holds."""
    stages = loads(engine.checkpoint(), "the checkpoint")["stages"]
    return {n: len(stages[n]) + s.snapshot_bytes for n, s in engine.stats.items()}


def run(snippet: Snippet, *, watch: bool = False) -> Run:
    """Pure buffering, as fast as possible."""
    engine, found = Engine(soccer(SIMULATED), attenuation=1), Run()
    for number, (_, batch) in enumerate(snippet.batches()):
        found.changes += engine.feed(batch)
        if watch and number % WATCHED == 0:
            found.held.append(held_by(engine))
    return _finished(engine, found)


class JumpingClock:
    """A clock that runs during the work, and jumps over the pauses between batches."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._since: float | None = None

    def __call__(self) -> float:
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._passed + running

    def jump(self, seconds: float) -> None:
        """Start again, at this time or later."""
        self._passed, self._since = max(self._passed, seconds), time.perf_counter()

    def stop(self) -> None:
        self._passed, self._since = self(), None


def run_adaptive(snippet: Snippet) -> Run:
    """Adaptive, at the speed of the match, without waiting for it."""
    clock, found = JumpingClock(), Run()
    engine = Engine(soccer(SIMULATED), attenuation="adaptive", time=clock)
    for number, (arrived, batch) in enumerate(snippet.batches()):
        clock.jump(arrived / 1e6)
        found.changes += engine.feed(batch)
        clock.stop()
        if number % WATCHED == 0:
            found.held.append(held_by(engine))
    return _finished(engine, found)


def run_live(snippet: Snippet, *, speed: float) -> Run:
    """Adaptive, by the wall clock: a batch is all that arrived during the one before."""
    engine, found = Engine(soccer(SIMULATED), attenuation="adaptive"), Run()
    arrived = snippet.arrivals["arrived"].to_numpy()
    table = snippet.arrivals.drop_columns(["seq", "arrived"])
    began, low, fed = time.perf_counter(), 0, 0
    while low < len(arrived):
        due = began + (fed + BATCH) / 1e6 / speed
        time.sleep(max(0.0, due - time.perf_counter()))
        fed = int((time.perf_counter() - began) * 1e6 * speed)
        high = int(np.searchsorted(arrived, fed, side="right"))
        found.changes += engine.feed(table.slice(low, high - low))
        if high > low:
            oldest = began + int(arrived[low]) / 1e6 / speed
            found.lags.append(time.perf_counter() - oldest)
        low = high
    return _finished(engine, found)


def _finished(engine: Engine, found: Run) -> Run:
    found.stats = engine.stats
    found.changes += engine.finish()
    return found


def race_speed(snippet: Snippet, rounds: int) -> tuple[Race, list[Target]]:
    """Pure buffering, with large and small batches."""
    table = snippet.arrivals.drop_columns(["seq", "arrived"])

    def whole(rows: int) -> int:
        engine = Engine(soccer(SIMULATED), attenuation=1)
        for low in range(0, table.num_rows, rows):
            engine.feed(table.slice(low, rows))
        engine.finish()
        return table.num_rows

    contenders = [
        Contender(f"batches of {rows:,}", table.num_rows, partial(whole, rows))
        for rows in (34_000, 3_400)
    ]
    found = race("Speed: pure buffering", contenders, yardsticks=(), rounds=rounds)
    targets = [
        Target(
            f"times the speed of the match, {name}",
            8,
            snippet.seconds / statistics.median(r.seconds),
        )
        for name, r in found.results.items()
    ]
    return found, targets


def measure(snippet: Snippet) -> tuple[Readings, list[Target]]:
    """Everything except speed and slack."""
    live = f"adaptive, {SPEED} times the speed"
    runs: dict[str, Callable[[], Run]] = {
        "pure buffering": lambda: run(snippet, watch=True),
        "adaptive": lambda: run_adaptive(snippet),
        live: lambda: run_live(snippet, speed=SPEED),
    }
    made: dict[str, Run] = {}
    with progress_bar() as bar:
        task = bar.add_task("Runs", total=len(runs))
        for name, go in runs.items():
            bar.update(task, description=f"Runs: {name}")
            made[name] = go()
            bar.advance(task)
            if fold(made[name].changes) != fold(made["pure buffering"].changes):
                raise RuntimeError(f"expected {name} to give the same final result as buffering")
    readings: Readings = {}
    targets: list[Target] = []
    for part in (_lags(snippet, made[live]), _passes(made), _memory(made)):
        readings |= part[0]
        targets += part[1]
    return readings, targets


def _lags(snippet: Snippet, live: Run) -> tuple[Readings, list[Target]]:
    late = sorted(live.lags)
    kinds = Counter(change.change_type for change in live.changes)
    attenuation = statistics.mean(stats.attenuation for stats in live.stats.values())
    rows = {
        "mean": f"{statistics.mean(late) * 1000:.0f} ms",
        "99 % below": f"{late[int(len(late) * 0.99)] * 1000:.0f} ms",
        "largest": f"{late[-1] * 1000:.0f} ms",
        "after the last batch": f"{live.lags[-1] * 1000:.0f} ms",
        "mean attenuation at the end": f"{attenuation:.2f}",
        "taken back": f"{kinds['delete']:,} of {kinds['insert']:,}",
    }
    wall = snippet.seconds / SPEED
    got = SPEED * wall / (wall + live.lags[-1])
    name = "times the speed of the match, adaptive and live"
    return {f"Adaptive, fed at {SPEED} times the speed: lag": rows}, [
        Target(name, SPEED * 0.99, got)
    ]


def _passes(made: dict[str, Run]) -> tuple[Readings, list[Target]]:
    def received(change: Change) -> int:
        return int(change.payload["received"])

    took = {name: each.latency("pass", received) for name, each in made.items()}
    slow = took["pure buffering"]
    rows = {name: f"{each:.0f} ms, {1 - each / slow:.0%} less" for name, each in took.items()}
    won = 1 - took["adaptive"] / slow
    return {"Latency of passes": rows}, [Target("latency of passes: share saved", 0.4, won)]


def _memory(made: dict[str, Run]) -> tuple[Readings, list[Target]]:
    rows = {}
    for name, papers in PAPERS.items():
        most = max(statistics.mean(each.values()) for each in made[name].held)
        size, who = max((size, who) for each in made[name].held for who, size in each.items())
        rows[name] = (
            f"{most / 1e6:.2f} MB per detector (papers: {papers} MB); "
            f"most in {who}, {size / 1e6:.1f} MB"
        )
    return {"Memory": rows}, []


def measure_slack(seconds: float) -> tuple[Readings, list[Target]]:
    """The largest slack of a detector on each level, without what back-dating costs."""
    delays = {"one by one": replace(PRESETS["lan"], packet=1), "in packets": PRESETS["lan"]}
    slack: dict[str, dict[str, int]] = {}
    base: dict[str, int] = {}
    for name, each in delays.items():
        snippet = Snippet.of(seconds, each)
        base = base or {n: stats.slack for n, stats in _in_order(snippet).items()}
        slack[name] = {n: stats.slack - base[n] for n, stats in run(snippet).stats.items()}
    levels = soccer(SIMULATED).levels()
    rows: dict[str, str] = {}
    worst = dict.fromkeys(delays, 0.0)
    for level in range(1, max(levels.values()) + 1):
        expert = EXPERT + level * EXPERT_LEVEL
        parts = []
        for name, found in slack.items():
            most = max(found[n] for n, its in levels.items() if its == level)
            worst[name] = max(worst[name], most / expert)
            parts.append(f"{name} {most / MS:.0f} ms ({most / expert:.0%})")
        rows[f"level {level}"] = f"{', '.join(parts)}; expert {expert / MS:.0f} ms"
    targets = [
        Target(f"expert's slack over learned slack, worst level, {name}", 5, 1 / share)
        for name, share in worst.items()
    ]
    return {"Slack by level, local network": rows}, targets


def _in_order(snippet: Snippet) -> dict[str, DetectorStats]:
    engine = Engine(soccer(SIMULATED), attenuation=1)
    for low in range(0, snippet.in_order.num_rows, 34_000):
        engine.feed(snippet.in_order.slice(low, 34_000))
    return engine.stats


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soccer", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=65.0, help="length of the snippet")
    parser.add_argument("--quick", action="store_true", help="a quick check, not a measurement")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    seconds = min(options.seconds, 15.0) if options.quick else options.seconds
    bursts = Snippet.of(seconds, PRESETS["bursts"])
    speed, targets = race_speed(bursts, 1 if options.quick else 5)
    readings: Readings = {
        "Snippet": {"positions": f"{bursts.arrivals.num_rows:,}", "seconds": f"{seconds:g}"}
    }
    for part in (measure(bursts), measure_slack(seconds)):
        readings |= part[0]
        targets += part[1]
    # A quick run is too short for conclusions.
    report([speed], [] if options.quick else targets, readings=readings, as_json=options.json)


if __name__ == "__main__":
    main()
