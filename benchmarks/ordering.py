"""What the ordering unit costs: `python -m benchmarks.ordering [--quick] [--events N] [--json]`.

The stream is `betimes.testing.sensor_stream`. The unit is compared with

* *limit*: `numpy.argsort(kind="stable")` over the times of the whole stream. It knows the future
  and returns only a permutation, so nothing that works on a stream can be faster;
* *reference*: `betimes.testing.ReferenceUnit`, the unit event by event, with a sorted list;
* *heapq*: K-slack in its textbook form, event by event, with a heap. It learns nothing: it is told
  the bound that the unit had to learn.

The per-event contenders get fewer events; otherwise they would take most of the benchmark's time.
Only rates are compared. Every time includes building the unit and `finish`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.racing import Contender, Race, Target, progress_bar, race, report, resident_bytes
from betimes import Event, EventBatch, OrderingUnit
from betimes.testing import ReferenceUnit, delayed, sensor_stream

CLOCK = "ball"
BATCH = 10_000
YARDSTICKS = ("limit", "heapq")
NEVER = -1
SOURCES = (1, 3, 10, 100)
ONE_CLOCK = "one clock"


@dataclass(frozen=True)
class Size:
    """How much to run."""

    events: int
    single: int
    with_payload: int
    rounds: int
    endless: int

    @classmethod
    def of(cls, events: int, *, quick: bool) -> Size:
        if quick:
            events = min(events, 200_000)
        single = min(events, 20_000 if quick else 200_000)
        payload = min(events, 50_000 if quick else 500_000)
        return cls(events, single, payload, 3 if quick else 7, 10 * events)


# Contenders. Each returns how many events it handed out.


def feed_batches(batch: int, options: dict[str, Any], stream: EventBatch) -> int:
    """Batches in; everything handed out is taken as events, with the payload if there is one."""
    unit = OrderingUnit(clock=CLOCK, **options)
    speculates = options.get("attenuation", 1.0) < 1.0
    count = 0
    for low in range(0, len(stream), batch):
        answer = unit.feed(stream[low : low + batch])
        released = answer.released.events
        if speculates:
            _ = answer.replayed.events
            count += len(answer.settled.events)
        else:
            count += len(released)
    last = unit.finish()
    return count + len(last.settled.events)


def feed_singly(options: dict[str, Any], events: list[Event]) -> int:
    """One event per call."""
    unit = OrderingUnit(clock=CLOCK, **options)
    count = 0
    for event in events:
        count += len(unit.feed(event).released)
    return count + len(unit.finish().released)


def feed_reference(events: list[Event]) -> int:
    unit = ReferenceUnit(clock={CLOCK})
    count = 0
    for event in events:
        count += len(unit.feed(event.type, event.ts).released)
    return count + len(unit.buffer)


def feed_heap(slack: int, events: list[Event]) -> int:
    """K-slack in its usual form; the arrival number keeps equal times in order."""
    heap: list[tuple[int, int, Event]] = []
    clock, count = NEVER, 0
    for number, event in enumerate(events):
        ts = event.ts
        heappush(heap, (ts, number, event))
        if event.type == CLOCK and ts > clock:
            clock = ts
            while heap and heap[0][0] <= clock - slack:
                heappop(heap)
                count += 1
    while heap:
        heappop(heap)
        count += 1
    return count


def sort_whole(stream: EventBatch) -> int:
    return len(np.argsort(stream.ts, kind="stable"))


def yardsticks(stream: EventBatch, single: int) -> list[Contender]:
    """The limit and the heap; the heap gets the slack that a unit learns from the whole stream."""
    unit = OrderingUnit(clock=CLOCK)
    unit.feed(stream)
    events = list(stream[:single])
    return [
        Contender("limit", len(stream), partial(sort_whole, stream)),
        Contender("heapq", single, partial(feed_heap, unit.stats.slack, events)),
    ]


def batches(name: str, stream: EventBatch, batch: int = BATCH, **options: Any) -> Contender:
    return Contender(name, len(stream), partial(feed_batches, batch, options, stream))


# Streams other than `sensor_stream` itself.


def deeper(stream: EventBatch, factor: int, *, seed: int = 1) -> EventBatch:
    """The events of a stream in new disorder, with all delays multiplied by `factor`."""
    ordered = stream.take(np.argsort(stream.ts, kind="stable"))
    rng = np.random.default_rng(seed)
    n = len(ordered)
    delays = np.where(ordered.codes == 0, rng.integers(0, 5_001, n), rng.integers(5_000, 45_001, n))
    late = rng.random(n) < 0.01
    delays[late] = rng.integers(45_000, 150_001, int(late.sum()))
    return delayed(ordered, factor * delays)


def many_types(stream: EventBatch, count: int, *, seed: int = 1) -> EventBatch:
    """The same times, with the events that are not clock events spread over many types."""
    others = np.random.default_rng(seed).integers(1, count, len(stream), dtype=np.int32)
    codes = np.where(stream.codes == 0, np.int32(0), others)
    return EventBatch(stream.ts, codes, (CLOCK, *(f"type {i}" for i in range(1, count))))


def as_table(stream: EventBatch, *, seed: int = 1) -> EventBatch:
    """With a payload of three Arrow columns."""
    rng = np.random.default_rng(seed)
    n = len(stream)
    players = pa.array([f"P{i}" for i in range(22)])
    table = pa.table(
        {
            "sensor": pa.array(rng.integers(0, 200, n), pa.int64()),
            "speed": pa.array(rng.random(n), pa.float64()),
            "player": players.take(rng.integers(0, 22, n)),
        }
    )
    return EventBatch(stream.ts, stream.codes, stream.types, table)


def as_rows(stream: EventBatch) -> EventBatch:
    """The payload of `as_table` as dictionaries."""
    table = as_table(stream).payload
    rows = table.to_pylist() if isinstance(table, pa.Table) else table
    return EventBatch(stream.ts, stream.codes, stream.types, rows)


# Parts of the benchmark.


def race_batches(size: Size) -> Race:
    stream = sensor_stream(size.events)
    events = list(stream[: size.single])
    few = events[: size.single // 2]
    contenders = [
        *yardsticks(stream, size.single),
        Contender("reference", len(few), partial(feed_reference, few)),
        Contender("unit, batch 1", len(events), partial(feed_singly, {}, events)),
        *(batches(f"unit, batch {b:,}", stream, b) for b in (100, BATCH, 200_000)),
    ]
    return race(
        "Size of the batch", contenders, yardsticks=(*YARDSTICKS, "reference"), rounds=size.rounds
    )


def race_policies(size: Size) -> Race:
    stream = sensor_stream(size.events)
    contenders = [
        *yardsticks(stream, size.single),
        batches("largest", stream),
        batches("largest, margin 3", stream, margin=3.0),
        batches("decaying", stream, slack="decaying"),
        batches("quantile, 1 % late", stream, slack="quantile"),
        batches("quantile, 0.1 % late", stream, slack="quantile", max_late=0.001),
        batches("quantile, margin 1", stream, slack="quantile", margin=1.0),
        batches("attenuation 0.3", stream, attenuation=0.3),
        batches("attenuation 0", stream, attenuation=0.0),
    ]
    title = f"Slack policy and attenuation, batches of {BATCH:,}"
    return race(title, contenders, yardsticks=YARDSTICKS, rounds=size.rounds)


def race_disorder(size: Size, factor: int) -> Race:
    stream = deeper(sensor_stream(size.events), factor)
    contenders = [
        *yardsticks(stream, size.single),
        *(batches(f"unit, batch {b:,}", stream, b) for b in (100, BATCH, 200_000)),
        batches("quantile", stream, slack="quantile"),
        batches("attenuation 0.3", stream, attenuation=0.3),
    ]
    title = f"Depth of disorder: delays times {factor}"
    return race(title, contenders, yardsticks=YARDSTICKS, rounds=size.rounds)


def race_types(size: Size) -> Race:
    stream = sensor_stream(size.events)
    many = many_types(stream, 400)
    contenders = [
        *yardsticks(stream, size.single),
        batches("4 types", stream),
        batches("400 types", many),
        batches("4 types, batch 100", stream, 100),
        batches("400 types, batch 100", many, 100),
        batches("400 types, on 3 of them", _only(many, 3), on=many.types[:3]),
    ]
    title = f"Number of types, batches of {BATCH:,}"
    return race(title, contenders, yardsticks=YARDSTICKS, rounds=size.rounds)


def race_payloads(size: Size) -> Race:
    stream = sensor_stream(size.with_payload)
    table, rows = as_table(stream), as_rows(stream)
    few = slice(0, size.with_payload // 5)
    singles = list(rows[few])
    contenders = [
        *yardsticks(stream, size.single),
        batches("none", stream),
        batches("Arrow table", table),
        batches("rows", rows),
        batches("none, batch 100", stream[few], 100),
        batches("Arrow table, batch 100", table[few], 100),
        batches("rows, batch 100", rows[few], 100),
        Contender("rows, batch 1", len(singles), partial(feed_singly, {}, singles)),
        batches("Arrow table, attenuation 0.3", table, attenuation=0.3),
    ]
    title = f"Payload of three columns, batches of {BATCH:,}"
    return race(title, contenders, yardsticks=YARDSTICKS, rounds=size.rounds)


def race_sources(size: Size) -> Race:
    """One clock for all events, and one per source; the events of all sources are mixed."""
    stream = sensor_stream(size.events)
    contenders = [*yardsticks(stream, size.single), batches(ONE_CLOCK, stream)]
    for count in SOURCES:
        numbers = np.random.default_rng(1).integers(1, count + 1, len(stream))
        several = EventBatch(stream.ts, stream.codes, stream.types, source=numbers)
        contenders.append(batches(sources_of(count), several, source="source"))
    title = f"Number of sources, batches of {BATCH:,}"
    return race(title, contenders, yardsticks=(*YARDSTICKS, ONE_CLOCK), rounds=size.rounds)


def sources_of(count: int) -> str:
    return f"{count} source{'s' if count > 1 else ''}"


def measure_memory(size: Size, *, batch: int = 100_000) -> dict[str, str]:
    """A long stream, generated as it is fed: what the unit holds, what the process needs."""
    unit = OrderingUnit(clock=CLOCK)
    start = count = most = before = resident = 0
    with progress_bar() as bar:
        task = bar.add_task(f"Memory: {size.endless:,} events", total=size.endless // batch)
        for number in range(size.endless // batch):
            part = sensor_stream(batch, seed=number, start=start)
            start = int(part.ts.max())
            count += len(unit.feed(part).released.events)
            resident = resident_bytes()
            # The first parts load the compiled loop and fill the allocator's pools.
            before = resident if number == 9 else before
            most = max(most, resident)
            bar.advance(task)
    count += len(unit.finish().released)
    if count != unit.stats.arrived:
        raise RuntimeError(
            f"expected the unit to hand out {unit.stats.arrived} events, got {count}"
        )
    return {
        "events, in batches of": f"{count:,} in {batch:,}",
        "most events held at once": f"{unit.stats.peak:,}",
        "events in the slack, about": f"{unit.stats.slack // 100:,}",
        "resident after 10 batches": f"{before / 2**20:.1f} MiB",
        "resident at the end": f"{resident / 2**20:.1f} MiB",
        "most resident": f"{most / 2**20:.1f} MiB",
    }


def targets(found: Race, sources: Race) -> list[Target]:
    """The promised figures; the reference and the heap are both per-event loops."""
    loops = ("reference", "heapq")
    large = [f"unit, batch {b:,}" for b in (BATCH, 200_000)]
    return [
        *(Target(f"{name}, x limit", 0.25, found.ratio(name, "limit")) for name in large),
        *(Target(f"{n}, x {loop}", 10, found.ratio(n, loop)) for n in large for loop in loops),
        *(Target(f"unit, batch 1, x {y}", 0.5, found.ratio("unit, batch 1", y)) for y in loops),
        *(
            Target(f"{name}, x {ONE_CLOCK}", 0.9, sources.ratio(name, ONE_CLOCK))
            for name in map(sources_of, SOURCES)
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ordering", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=2_000_000, help="length of the stream")
    parser.add_argument("--quick", action="store_true", help="a quick check, not a measurement")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    size = Size.of(options.events, quick=options.quick)
    # First, while the process is small.
    memory = measure_memory(size)
    parts: list[Callable[[Size], Race]] = [
        race_batches,
        race_policies,
        *(partial(race_disorder, factor=factor) for factor in (1, 10, 100)),
        race_types,
        race_payloads,
        race_sources,
    ]
    races = [part(size) for part in parts]
    # A quick run has a single batch of 200,000: too short for conclusions.
    judged = [] if options.quick else targets(races[0], races[-1])
    report(races, judged, readings={"memory": memory}, as_json=options.json)


def _only(stream: EventBatch, count: int) -> EventBatch:
    return stream.take(np.flatnonzero(stream.codes < count))


if __name__ == "__main__":
    main()
