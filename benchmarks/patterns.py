"""What a compiled pattern costs: `python -m benchmarks.patterns [--quick] [--events N] [--json]`.

`A !(A|B) C` by 64 keys, on `betimes.testing.sensor_stream`: 88 % of the events are clock events
that the pattern does not look at, 5 % are A, 2 % B, 5 % C. The stream comes as Arrow columns in
disorder. The engine is compared with

* *limit*: `numpy.argsort(kind="stable")` over the times of the whole stream. It knows the future,
  and finds nothing;
* *automaton*: the whole stream sorted, then a loop written for this pattern and compiled by numba.
  It finds and counts the matches, but makes no rows;
* *detector*: the same pattern as a detector in plain Python, in the engine. It gets fewer events;
  otherwise it would take most of the benchmark's time.

*Growth*: the same pattern with 100 to 100,000 keys, in batches of 10,000. Every time includes
building the engine, and `finish`. All runs of one stream must find the same matches.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from benchmarks.racing import Contender, Race, Target, race, report
from betimes import Change, Engine, Event, EventBatch, Hierarchy, pattern
from betimes.testing import sensor_stream

Ints = npt.NDArray[np.int64]

NAMES = {"ball": "X", "near": "A", "not_near": "B", "hit": "C"}
KEYS = 64
BATCHES = (10_000, 200_000)


def stream_of(events: int, *, keys: int = KEYS, seed: int = 1) -> EventBatch:
    """The stream with a column of keys."""
    stream = sensor_stream(events, seed=seed)
    types = tuple(NAMES[name] for name in stream.types)
    column = np.random.default_rng(seed + 1).integers(0, keys, events)
    return EventBatch(stream.ts, stream.codes, types, pa.table({"key": pa.array(column)}))


@njit(cache=True)
def _automaton(order: Ints, codes: Ints, keys: Ints, types: Ints, open_: Ints) -> int:
    a, b, c = types
    found = 0
    for row in order:
        code, key = codes[row], keys[row]
        if code == a:
            open_[key] = 1
        elif code == b:
            open_[key] = 0
        elif code == c and open_[key]:
            open_[key] = 0
            found += 1
    return found


def sort_and_match(stream: EventBatch, keys: int) -> int:
    """The whole stream at once; how many matches there are."""
    assert isinstance(stream.payload, pa.Table)
    types = np.array([stream.types.index(name) for name in "ABC"])
    order = np.argsort(stream.ts, kind="stable")
    column = stream.payload["key"].to_numpy()
    found: int = _automaton(
        order, stream.codes.astype(np.int64), column, types, np.zeros(keys, np.int64)
    )
    return found


@dataclass
class Touch:
    """`A !(A|B) C` for one key."""

    since: int | None = None

    def on_event(self, event: Event) -> Event | None:
        kind = event.type
        if kind == "A":
            self.since = event.ts
        elif kind == "B":
            self.since = None
        elif self.since is not None:
            since, self.since = self.since, None
            return Event("hit", event.ts, {"A.ts": since, "C.ts": event.ts})
        return None


def compiled() -> Hierarchy:
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(pattern("A !(A|B) C", by="key", emits="hit"))
    return hierarchy


def by_hand() -> Hierarchy:
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(Touch, on=("A", "B", "C"), emits="hit", by="key")
    return hierarchy


def feed(hierarchy: Hierarchy, stream: EventBatch, batch: int, attenuation: float) -> int:
    """Feed an engine; how many matches the final result has."""
    engine = Engine(hierarchy, attenuation=attenuation)
    found = 0
    for low in range(0, len(stream), batch):
        found += _net(engine.feed(stream[low : low + batch]))
    return found + _net(engine.finish())


def _net(changes: Sequence[Change]) -> int:
    kinds = Counter(change.change_type for change in changes)
    return kinds["insert"] - kinds["delete"]


def checked(name: str, stream: EventBatch, run: partial[int], expected: int) -> Contender:
    """A contender that must find as many matches as the others."""

    def handed_out() -> int:
        found = run()
        if found != expected:
            raise RuntimeError(f"expected {name} to find {expected} matches, but it found {found}")
        return len(stream)

    return Contender(name, len(stream), handed_out)


def race_matchers(events: int, single: int, rounds: int) -> tuple[Race, list[Target]]:
    stream = stream_of(events)
    part = stream[:single]
    expected, fewer = sort_and_match(stream, KEYS), sort_and_match(part, KEYS)
    contenders = [
        Contender("limit", events, lambda: len(np.argsort(stream.ts, kind="stable"))),
        checked("automaton", stream, partial(sort_and_match, stream, KEYS), expected),
    ]
    for attenuation in (1.0, 0.3, 0.0):
        for batch in BATCHES:
            name = f"attenuation {attenuation:g}, batch {batch:,}"
            run = partial(feed, compiled(), stream, batch, attenuation)
            contenders.append(checked(name, stream, run, expected))
    for attenuation in (1.0, 0.3):
        run = partial(feed, by_hand(), part, BATCHES[0], attenuation)
        contenders.append(checked(f"detector, attenuation {attenuation:g}", part, run, fewer))
    title = f"A !(A|B) C by {KEYS} keys, {events:,} events, {expected:,} matches"
    found = race(title, contenders, yardsticks=("limit", "automaton"), rounds=rounds)
    targets = [
        Target(f"{name}, million events/s", wanted, found.results[name].rate / 1e6)
        for name, wanted in (
            (f"attenuation 1, batch {BATCHES[1]:,}", 5.0),
            (f"attenuation 0.3, batch {BATCHES[1]:,}", 3.0),
        )
    ]
    return found, targets


def race_growth(events: int, rounds: int) -> tuple[Race, list[Target]]:
    contenders = []
    for keys in (100, 1000, 10_000, 100_000):
        stream = stream_of(events, keys=keys)
        expected = sort_and_match(stream, keys)
        run = partial(feed, compiled(), stream, BATCHES[0], 1.0)
        contenders.append(checked(f"{keys:,} keys", stream, run, expected))
    title = "Growth with keys, batch 10,000"
    found = race(title, contenders, yardsticks=("100 keys",), rounds=rounds)
    slower = 1 / found.ratio("100,000 keys", "100 keys")
    return found, [Target("100,000 keys: 1.5 / cost per event, x 100 keys", 1.0, 1.5 / slower)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.patterns", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=2_000_000, help="length of the stream")
    parser.add_argument("--quick", action="store_true", help="a quick check, not a measurement")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    events = min(options.events, 100_000) if options.quick else options.events
    rounds = 2 if options.quick else 7
    matchers, targets = race_matchers(events, min(events, 200_000), rounds)
    growth, judged = race_growth(events // 2, rounds)
    # A quick run is too short for conclusions.
    targets = [] if options.quick else [*targets, *judged]
    report([matchers, growth], targets, readings={}, as_json=options.json)


if __name__ == "__main__":
    main()
