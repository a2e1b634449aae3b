"""What speculation wins and costs: `python -m benchmarks.speculation [--quick]`.

* *Latency*: stream time from an output's `ts` to the clock at which the engine made it, a mean over
  the final result. Where an output was taken back and made again, the last time counts. The machine
  is simulated: it is idle until the stream's time has come, and every event that a detector handles
  takes it a fixed time; so `adaptive` finds the same way in every run. Buffering is attenuation 1.
* *Retraction*: events touched by taking back (outputs retracted, events handled again) and the CPU
  time of the techniques, in three hierarchies of five levels. In the first, states forget: after a
  wrong event they soon are what they would have been. In the second, upper levels carry on for
  good. In the third, every event changes all outputs after it, and states are free to save but dear
  to compare: made to be hard for on demand. A snapshot is taken before every event: the adaptive
  model goes by measured time, and would make counts differ from run to run.
* *Throughput*: `A !B C` by key in plain Python, against a loop that sorts the whole stream (it
  knows the future), builds the same `Event` objects and calls the same detector.
* *Columns*: peaks of a reading, found per batch in columns of an Arrow table, against the same per
  event, and against one call with the whole stream sorted (it knows the future).
* *Snapshots*: memory against the size of the state, by checkpoint model.

All runs that are compared must come to the same final result.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.racing import Contender, Race, Result, Target, progress_bar, race, report
from betimes import Derived, Event, EventBatch
from betimes.engine import Engine, Hierarchy
from betimes.model.change import Change, fold
from betimes.testing import sensor_stream

CLOCK = "ball"
KEYS = 64
LIMIT = 2.0
"""Above this a reading is a peak."""
PHONES = Path(__file__).resolve().parents[2] / "shared" / "data" / "phones"
TECHNIQUES = ("full", "on-demand", "auto")
Readings = dict[str, dict[str, str]]
Found = Counter[tuple[str, int, str]]


@dataclass(frozen=True)
class Size:
    """How much to run."""

    events: int
    rounds: int

    @classmethod
    def of(cls, events: int, *, quick: bool) -> Size:
        return cls(min(events, 40_000), 2) if quick else cls(events, 7)


def keyed_stream(n: int, *, keys: int = KEYS, seed: int = 1) -> EventBatch:
    """`sensor_stream` with a payload: a key, the key's team, a force."""
    stream = sensor_stream(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    columns = zip(rng.integers(0, keys, n).tolist(), rng.integers(0, 100, n).tolist(), strict=True)
    payload = [{"key": key, "team": key % 4, "force": force} for key, force in columns]
    return EventBatch(stream.ts, stream.codes, stream.types, payload)


def cut(stream: EventBatch, batch: int) -> Iterator[EventBatch]:
    for low in range(0, len(stream), batch):
        yield stream[low : low + batch]


def check_same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise RuntimeError(f"expected {what} to come to the same final result as the others")


# Detectors.


@dataclass
class NotBetween:
    """`near !not_near hit`, for one key."""

    since: int | None = None

    def on_event(self, event: Event) -> Event | None:
        kind = event.type
        if kind == "near":
            self.since = event.ts
        elif kind == "not_near":
            self.since = None
        elif kind == "hit" and self.since is not None:
            since, self.since = self.since, None
            return Event("touch", event.ts, {"key": event["key"], "from": since})
        return None


@dataclass
class Burst:
    """Three phones that send within 200 ms."""

    last: dict[str, int] = field(default_factory=dict)

    def on_event(self, event: Event) -> Event | None:
        self.last[event["device"]] = event.ts
        recent = {device: ts for device, ts in self.last.items() if event.ts - ts <= 200_000}
        if len(recent) < 3:
            return None
        self.last.clear()
        return Event("burst", event.ts, {"devices": sorted(recent)})


def strong(event: Event) -> Event | None:
    return Event("kick", event.ts, event.payload) if event["force"] >= 20 else None


def approach(event: Event) -> Event:
    return Event("close" if event.type == "near" else "away", event.ts, event.payload)


@dataclass
class Touch:
    """`close !away kick`, for one key."""

    close: bool = False

    def on_event(self, event: Event) -> Event | None:
        touched = self.close and event.type == "kick"
        self.close = event.type == "close"
        payload = {"key": event["key"], "team": event["team"]}
        return Event("touch", event.ts, payload) if touched else None


@dataclass
class Pass:
    """Two touches of a team, each of them part of one pair only."""

    first: int | None = None

    def on_event(self, event: Event) -> Event | None:
        if self.first is None:
            self.first = event["key"]
            return None
        pair, self.first = [self.first, event["key"]], None
        return Event("pass", event.ts, {"team": event["team"], "players": pair})


@dataclass
class AnyPass:
    """Two touches of different players in a row; a third may make a pair with the second."""

    last: int | None = None

    def on_event(self, event: Event) -> Event | None:
        last, self.last = self.last, event["key"]
        if last is None or last == event["key"]:
            return None
        return Event("pass", event.ts, {"team": event["team"], "players": [last, event["key"]]})


@dataclass
class Total:
    """All passes of a team so far."""

    count: int = 0

    def on_event(self, event: Event) -> Event:
        self.count += 1
        return Event("count", event.ts, {"team": event["team"], "n": self.count})


@dataclass
class Recent:
    """The passes of a team within 100 ms."""

    times: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Event:
        self.times = [*(ts for ts in self.times if event.ts - ts <= 100_000), event.ts]
        return Event("count", event.ts, {"team": event["team"], "n": len(self.times)})


@dataclass
class Alarm:
    """A team has passed much more often than another."""

    counts: dict[int, int] = field(default_factory=dict)

    def on_event(self, event: Event) -> Event | None:
        self.counts[event["team"]] = event["n"]
        lead = max(self.counts.values()) - min(self.counts.values())
        payload = {"team": event["team"], "lead": lead}
        return Event("alarm", event.ts, payload) if lead >= 3 else None


class Numbered:
    """Numbers events and tells every n-th; the last ones are free to save, but dear to compare."""

    def __init__(self, emits: str, *, every: int = 1, remembers: int = 100) -> None:
        self.emits = emits
        self.every = every
        self.count = 0
        self.last: tuple[int, ...] = (0,) * remembers

    def snapshot(self) -> tuple[tuple[int, ...], int]:
        return self.last, self.count

    def restore(self, state: tuple[tuple[int, ...], int]) -> None:
        self.last, self.count = state

    def on_event(self, event: Event) -> Event | None:
        self.count += 1
        self.last = (*self.last[1:], event.ts)
        if self.count % self.every:
            return None
        return Event(self.emits, event.ts, {"n": self.count})


def all_change() -> Hierarchy:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(Numbered("n1", every=20, remembers=20_000), on="near", emits="n1", name="level 1")
    for level in range(2, 6):
        below = f"n{level - 1}"
        hierarchy.add(Numbered(f"n{level}"), on=below, emits=f"n{level}", name=f"level {level}")
    return hierarchy


def five_levels(*, forgets: bool) -> Hierarchy:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(strong, on="hit", emits="kick")
    hierarchy.add(approach, on=("near", "not_near"), emits=("close", "away"))
    hierarchy.add(Touch, on=("close", "away", "kick"), emits="touch", by="key")
    hierarchy.add(AnyPass if forgets else Pass, on="touch", emits="pass", by="team")
    hierarchy.add(Recent if forgets else Total, on="pass", emits="count", by="team")
    hierarchy.add(Alarm, on="count", emits="alarm")
    return hierarchy


@dataclass
class Ring:
    """A state of so many numbers, of which every event changes one."""

    numbers: list[int]
    place: int = 0

    def on_event(self, event: Event) -> Event | None:
        self.place = (self.place + 1) % len(self.numbers)
        before, self.numbers[self.place] = self.numbers[self.place], event["force"]
        return Event("rise", event.ts) if event.type == "hit" and event["force"] > before else None


# (a) Latency.


class Machine:
    """A simulated machine: idle until events come, then busy for a fixed time for each."""

    def __init__(self, cost: float) -> None:
        self.now = 0.0
        self._cost = cost

    def wait(self, ts: int) -> None:
        """The stream has come to this time; a machine that lags behind does not wait."""
        self.now = max(self.now, ts / 1e6)

    def runs(self, detector: type[Any]) -> type[Any]:
        """The same detector; what it handles takes this machine its time."""
        machine = self

        class Metered(detector):  # type: ignore[misc]
            def on_event(self, event: Event) -> Any:
                machine.now += machine._cost
                return super().on_event(event)

        Metered.__name__ = detector.__name__
        return Metered


@dataclass(frozen=True)
class Scene:
    """A stream, what to detect in it, and how long an event takes the machine, in seconds."""

    name: str
    stream: EventBatch
    detector: type[Any]
    options: dict[str, Any]
    clock: str
    batch: int
    cost: float


def scenes(size: Size) -> list[Scene]:
    """The stream of *ordering*, and the phones if their recordings are there.

    The machine could take 5 times the stream's rate in perfect order: more than enough at first,
    but not for any amount of replay.
    """
    stream = keyed_stream(size.events)
    options = {"on": ("ball", "near", "not_near", "hit"), "emits": "touch", "by": "key"}
    found = [Scene("sensors", stream, NotBetween, options, CLOCK, 100, 20e-6)]
    for path in sorted(PHONES.glob("*.csv")):
        table = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter=";"))
        ts = table["S.Client.Detection.Time"].to_numpy().astype(np.int64) * 1000
        payload = [{"device": device} for device in table["S.Device.ID"].to_pylist()]
        phones = EventBatch(ts, np.zeros(len(ts), np.int32), ("message",), payload)
        cost = 0.2 * float(ts.max() - ts.min()) / 1e6 / len(ts)
        burst = {"on": "message", "emits": "burst"}
        found.append(Scene(f"phones {path.stem}", phones, Burst, burst, "message", 10, cost))
    return found


def run_scene(scene: Scene, attenuation: float | str) -> tuple[float, Found, Engine]:
    """Mean latency in seconds, the final result, the engine as it was in the end."""
    machine = Machine(scene.cost)
    machine.wait(int(scene.stream.ts[0]))
    hierarchy = Hierarchy(clock=scene.clock)
    hierarchy.add(machine.runs(scene.detector), **scene.options)
    engine = Engine(hierarchy, attenuation=attenuation, time=lambda: machine.now)
    changes: list[Change] = []
    for batch in cut(scene.stream, scene.batch):
        machine.wait(int(batch.ts.max()))
        changes += engine.feed(batch)
    changes += engine.finish()
    return mean_latency(changes), fold(changes), engine


def mean_latency(changes: Sequence[Change]) -> float:
    """Of the outputs that stand in the end, from when they were made to stand."""
    stand: dict[str, int] = {}
    for change in changes:
        if change.change_type == "insert":
            stand[change.match_id] = change.detected_at - change.ts
        elif change.change_type == "delete":
            del stand[change.match_id]
    return float(np.mean(list(stand.values()))) / 1e6


def measure_latency(size: Size) -> tuple[Readings, list[Target]]:
    readings: Readings = {}
    targets = []
    settings: tuple[float | str, ...] = ("adaptive", 0.3, 0.0)
    places = scenes(size)
    with progress_bar() as bar:
        task = bar.add_task("Latency", total=len(places) * (1 + len(settings)))
        for scene in places:
            title = f"Mean latency in stream time: {scene.name}"
            buffering, expected, _ = run_scene(scene, 1.0)
            bar.advance(task)
            rows = readings[title] = {
                "events, results": f"{len(scene.stream):,}, {expected.total():,}",
                "buffering (attenuation 1)": f"{1000 * buffering:.1f} ms",
            }
            for setting in settings:
                latency, found, engine = run_scene(scene, setting)
                check_same(f"{scene.name} at attenuation {setting}", found, expected)
                saved = 1 - latency / buffering
                rows[f"attenuation {setting}"] = f"{1000 * latency:.1f} ms, {saved:.0%} lower"
                if setting == "adaptive":
                    rows["adaptive in the end"] = _ended(engine)
                    name = f"latency, {scene.name}, adaptive: share saved"
                    targets.append(Target(name, 0.4, saved))
                bar.advance(task)
    return readings, targets


def _ended(engine: Engine) -> str:
    (stats,) = engine.stats.values()
    return f"attenuation {stats.attenuation:.2f}, busy factor {stats.busy_factor:.2f}"


# (b) Retraction.


@dataclass(frozen=True)
class Taken:
    """A run with one technique."""

    seconds: float
    found: Found
    retracted: int
    replayed: int
    chosen: dict[str, str]


def run_retraction(hierarchy: Hierarchy, stream: EventBatch, technique: Any, batch: int) -> Taken:
    gc.collect()
    engine = Engine(hierarchy, attenuation=0.0, retraction=technique, snapshots=1)
    changes: list[Change] = []
    began = time.process_time()
    for part in cut(stream, batch):
        changes += engine.feed(part)
    changes += engine.finish()
    seconds = time.process_time() - began
    stats = engine.stats.values()
    return Taken(
        seconds,
        fold(changes),
        sum(s.retracted for s in stats),
        sum(s.replayed for s in stats),
        {s.detector: s.retraction for s in stats},
    )


def race_retraction(
    size: Size, states: str, hierarchy: Hierarchy, *, batch: int
) -> tuple[Race, Readings, list[Target]]:
    stream = keyed_stream(min(size.events, 50_000))
    title = f"Retraction, five levels, {states}, CPU time"
    laps: dict[str, list[Taken]] = {technique: [] for technique in TECHNIQUES}
    with progress_bar() as bar:
        task = bar.add_task(title, total=(size.rounds + 1) * len(TECHNIQUES))
        for _ in range(size.rounds + 1):
            for technique in TECHNIQUES:
                laps[technique].append(run_retraction(hierarchy, stream, technique, batch))
                check_same(technique, laps[technique][-1].found, laps["full"][0].found)
                bar.advance(task)
    results = {
        name: Result(name, len(stream), tuple(lap.seconds for lap in mine[1:]))
        for name, mine in laps.items()
    }
    found = Race(title, results, ("full", "on-demand"))
    rows = {name: _touched(mine[-1]) for name, mine in laps.items()}
    rows |= {f"auto, {name}": why for name, why in laps["auto"][-1].chosen.items()}
    name = f"retraction, {states}: auto, x the better of the two"
    got = min(found.ratio("auto", other) for other in ("full", "on-demand"))
    return found, {f"Events touched by retraction, {states}": rows}, [Target(name, 1 / 1.1, got)]


def _touched(taken: Taken) -> str:
    both = taken.retracted + taken.replayed
    return f"{both:,}: {taken.retracted:,} retracted, {taken.replayed:,} handled again"


# (c) Throughput.


def sort_and_call(stream: EventBatch) -> int:
    """The whole stream at once: sorted, as events, key by key to the detector."""
    order = np.argsort(stream.ts, kind="stable")
    types, payload = stream.types, stream.payload
    assert isinstance(payload, list)
    detectors: dict[int, NotBetween] = {}
    found = 0
    codes, times = stream.codes[order].tolist(), stream.ts[order].tolist()
    for code, ts, row in zip(codes, times, order.tolist(), strict=True):
        event = Event(types[code], ts, payload[row])
        key = event.payload["key"]
        detector = detectors.get(key)
        if detector is None:
            detector = detectors[key] = NotBetween()
        if detector.on_event(event) is not None:
            found += 1
    return found


def feed_engine(stream: EventBatch, batch: int, attenuation: float) -> int:
    """The same through an engine."""
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(NotBetween, on=stream.types, emits="touch", by="key")
    engine = Engine(hierarchy, attenuation=attenuation)
    found = 0
    for part in cut(stream, batch):
        found += net(engine.feed(part))
    return found + net(engine.finish())


def net(changes: Sequence[Change]) -> int:
    kinds = Counter(change.change_type for change in changes)
    return kinds["insert"] - kinds["delete"]


def race_throughput(size: Size) -> tuple[Race, list[Target]]:
    stream = keyed_stream(size.events)
    expected = sort_and_call(stream)

    def checked(name: str, run: Callable[[], int]) -> Contender:
        def handed_out() -> int:
            check_same(name, run(), expected)
            return len(stream)

        return Contender(name, len(stream), handed_out)

    contenders = [checked("loop", partial(sort_and_call, stream))]
    wanted = {}
    for attenuation, target in ((1.0, 0.6), (0.3, 0.35), (0.0, 0.25)):
        for batch in (1000, 10_000):
            name = f"attenuation {attenuation:g}, batch {batch:,}"
            wanted[name] = target
            contenders.append(checked(name, partial(feed_engine, stream, batch, attenuation)))
    title = f"Throughput: A !B C by key, {KEYS} keys"
    found = race(title, contenders, yardsticks=("loop",), rounds=size.rounds)
    return found, [Target(f"{n}, x loop", t, found.ratio(n, "loop")) for n, t in wanted.items()]


# (d) Columns.


@dataclass
class Peaks:
    """Where a reading rises above a limit, per batch."""

    columns = ("x", "y", "a")
    last: float = 0.0

    def on_batch(self, batch: EventBatch) -> Derived:
        a = batch.numbers("a")
        before = np.concatenate(([self.last], a[:-1]))
        self.last = float(a[-1])
        rows = np.flatnonzero((a > LIMIT) & (before <= LIMIT))
        payload = {"x": batch.numbers("x")[rows], "y": batch.numbers("y")[rows]}
        return Derived("peak", rows=rows, payload=payload)


@dataclass
class PeaksOneByOne:
    """The same per event."""

    last: float = 0.0

    def on_event(self, event: Event) -> Event | None:
        last, self.last = self.last, event["a"]
        if self.last <= LIMIT or last > LIMIT:
            return None
        return Event("peak", event.ts, {"x": event["x"], "y": event["y"]})


def readings_stream(n: int, *, seed: int = 1) -> EventBatch:
    """`sensor_stream` with eight columns of numbers; about 22 peaks in 1,000 readings."""
    stream = sensor_stream(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    columns = {name: pa.array(rng.normal(size=n)) for name in ("x", "y", "z", "a", *"uvwq")}
    return EventBatch(stream.ts, stream.codes, stream.types, pa.table(columns))


def sort_and_call_once(stream: EventBatch) -> int:
    return len(Peaks().on_batch(stream.take(np.argsort(stream.ts, kind="stable"))))


def feed_peaks(stream: EventBatch, detector: Any, batch: int, attenuation: float) -> int:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(detector, on=stream.types, emits="peak")
    engine = Engine(hierarchy, attenuation=attenuation)
    found = sum(net(engine.feed(part)) for part in cut(stream, batch))
    return found + net(engine.finish())


def race_columns(size: Size) -> tuple[Race, list[Target]]:
    stream = readings_stream(5 * size.events)
    short = stream[: len(stream) // 10]

    def contender(name: str, stream: EventBatch, run: Callable[[EventBatch], int]) -> Contender:
        expected = sort_and_call_once(stream)

        def handed_out() -> int:
            check_same(name, run(stream), expected)
            return len(stream)

        return Contender(name, len(stream), handed_out)

    contenders = [contender("sorted, one call", stream, sort_and_call_once)]
    for attenuation in (1.0, 0.3):
        for batch in (3400, 34_000):
            name = f"per batch, attenuation {attenuation:g}, batch {batch:,}"
            run = partial(feed_peaks, detector=Peaks, batch=batch, attenuation=attenuation)
            contenders.append(contender(name, stream, run))
        name = f"per event, attenuation {attenuation:g}, batch 3,400"
        run = partial(feed_peaks, detector=PeaksOneByOne, batch=3400, attenuation=attenuation)
        contenders.append(contender(name, short, run))
    names = ("sorted, one call", "per event, attenuation 1, batch 3,400")
    found = race("Columns: peaks of a reading", contenders, yardsticks=names, rounds=size.rounds)
    got = found.ratio("per batch, attenuation 1, batch 3,400", names[1])
    return found, [Target("per batch, x per event, attenuation 1", 5, got)]


# (e) Snapshots.


def measure_snapshots(size: Size) -> Readings:
    """What snapshots take: the most at the end of a batch, as the engine counts and as it is."""
    events = min(size.events, 3000)
    stream = keyed_stream(events)
    models: tuple[int | str, ...] = (1, 100, "speculative:20", "adaptive")
    elements = (10, 1000, 100_000)
    readings: Readings = {}
    # What the first run brings into the process would count as its own.
    _snapshots(stream, 1, 100)
    with progress_bar() as bar:
        task = bar.add_task("Snapshots", total=len(models) * len(elements))
        for count in elements:
            rows = readings[f"Snapshots of {count:,} numbers, {events:,} events"] = {}
            for model in models:
                # About 1,500 events are within the slack, 8 bytes a number.
                large = model == 1 and count > 10_000
                rows[f"checkpoints={model!r}"] = (
                    f"not run: 1,500 snapshots, about {1500 * 8 * count / 2**20:,.0f} MiB"
                    if large
                    else _snapshots(stream, count, model)
                )
                bar.advance(task)
    return readings


def _snapshots(stream: EventBatch, count: int, model: int | str) -> str:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(Ring([0] * count), on=stream.types, emits="rise")
    gc.collect()
    tracemalloc.start()
    try:
        engine = Engine(hierarchy, attenuation=0.3, snapshots=model, retention="0s")
        number = held = 0
        for part in cut(stream, 100):
            engine.feed(part)
            (stats,) = engine.stats.values()
            number, held = max(number, stats.snapshots), max(held, stats.snapshot_bytes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return f"{number:,} at most, {held / 2**20:.2f} MiB; peak of all {peak / 2**20:.1f} MiB"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speculation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=300_000, help="length of the stream")
    parser.add_argument("--quick", action="store_true", help="a small run that only shows the way")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    size = Size.of(options.events, quick=options.quick)
    readings = measure_snapshots(size)
    latencies, targets = measure_latency(size)
    readings |= latencies
    races = []
    hierarchies = {
        "states forget": (five_levels(forgets=True), 100),
        "states carry on": (five_levels(forgets=False), 100),
        "all outputs change": (all_change(), 20),
    }
    for states, (hierarchy, batch) in hierarchies.items():
        found, touched, judged = race_retraction(size, states, hierarchy, batch=batch)
        races.append(found)
        readings |= touched
        targets += judged
    throughput, judged = race_throughput(size)
    columns, more = race_columns(size)
    # A quick run is too short to judge by.
    targets = [] if options.quick else [*targets, *judged, *more]
    report([*races, throughput, columns], targets, readings=readings, as_json=options.json)


if __name__ == "__main__":
    main()
