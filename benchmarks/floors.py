"""What a feed cannot do without: `python -m benchmarks.floors [--batch N] [--feeds N]`.

A live stream comes in small batches, and most of the price of a feed does not depend on how many
events it brings. Some of that price is Python's, NumPy's, numba's and Arrow's: nobody who takes a
batch of columns and returns a table of changes can avoid it. Of a large batch, every event costs a
little, in loops that are compiled already. This benchmark measures these parts for the pattern of
`benchmarks.patterns`, with its arrays prepared beforehand:

* *slice*: cutting the batch out of the stream;
* *order*: one call of the compiled loop of the ordering unit;
* *match*: one call of the compiled loop of the pattern, with the events that concern it, sorted;
* *identity*: one call of the compiled loop that gives each match its digest;
* *table*: one Arrow table of the changes, with the payload as a struct.

*floor* does all five, feed by feed, and nothing else: it looks up no key, evaluates no condition,
finds no payload, and remembers nothing that it could go back to. *engine* does all of it, with the
attenuation 1. *automaton* is the yardstick of `benchmarks.patterns`, which is fed nothing: it has
the whole stream, sorts it and counts the matches.

A second table does the same for the Python detector of `benchmarks.speculation`, at attenuation 1
and in larger feeds:

* *events*: an object for each row, and its key;
* *order*: one call of the compiled loop;
* *hand over*: events and keys in the order in which they are handed out;
* *call*: the detector of each key, event by event;
* *rows*: for each event that it makes, an identity, a place, and a row of changes.

*floor* takes in and hands out everything that the engine does, but it remembers nothing. *loop* is
the yardstick of `benchmarks.before_after`: it sorts the whole stream, and counts what is made.

A third table is about the football match of `benchmarks.soccer`, with 33 detectors and batches of
0.1 s:

* *reads*: each batch as columns, with the types and columns that each detector of the lowest level
  takes;
* *floor*: this, and calling all detectors in order, with what was made below them.

The stream of the floor comes in order. It orders nothing, gives nothing an identity, remembers
nothing, and returns nothing.

Seconds are CPU time, and the fastest of several rounds counts, as in `benchmarks.before_after`. The
floor costs more than its parts: one that runs alone stays in the processor's caches.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import astuple
from rich.console import Console
from rich.table import Table

from benchmarks.patterns import KEYS, compiled, sort_and_match, stream_of
from benchmarks.snippet import BATCH, Snippet
from benchmarks.speculation.detectors import NotBetween
from benchmarks.speculation.throughput import feed_engine, sort_and_call
from benchmarks.streams import CLOCK as BALL
from benchmarks.streams import cut, keyed_stream
from betimes import Change, Engine, Event, EventBatch, pattern
from betimes.apps.soccer.disorder import PRESETS
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED
from betimes.engine.news.digests import Digests
from betimes.engine.news.digests.kernel import digest
from betimes.engine.node import Node
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.columns.runs import PartialMatches
from betimes.model.arrays import in_arrays
from betimes.model.batch import pick
from betimes.ordering.kernel import BUFFERED, CLOCK, MEASURED, N_TYPE, ROLE, ROW
from betimes.ordering.loop import Loop
from betimes.ordering.slack import SlackPolicy
from betimes.ordering.workspace import Workspace
from betimes.patterns import kernel
from betimes.patterns.compiled import Program
from betimes.testing.oracle import call as called
from betimes.testing.oracle import events_of, run_out

Part = Callable[[int], object]
"""Does its work for one feed, by number."""

HOUR = 3_600_000_000
DETECTED = 1000
"""Events per feed of the Python detector."""
MANY = 64
"""From this many changes on, a table is made of columns."""
WORDS = 14
"""64-bit words that the identity of a match with four fields is the digest of."""


def slicing(stream: EventBatch, batch: int) -> Part:
    return lambda n: stream[n * batch : (n + 1) * batch]


def ordering(stream: EventBatch, batch: int) -> Part:
    loop = Loop(SlackPolicy.parse("largest"), HOUR, Workspace())
    taken = MEASURED | BUFFERED
    roles = [CLOCK if name == "X" else taken for name in stream.types]
    types = table_of(roles)
    parts = list(cut(stream, batch))
    heads = np.zeros(batch, np.int64)
    return lambda n: loop.run(types, parts[n].ts, parts[n].codes, heads[: len(parts[n].ts)])


def table_of(roles: list[int]) -> Any:
    """The table of types that the loop of the ordering unit takes."""
    table = np.zeros((N_TYPE, len(roles)), np.int64)
    table[ROLE] = roles
    return table


def matching(stream: EventBatch, batch: int) -> Part:
    searched = pattern("A !(A|B) C", by="key", emits="hit")
    program = Program(searched.spec, searched.limit)
    runs = PartialMatches(program, "hit")
    parts = []
    for part in cut(stream.take(np.argsort(stream.ts, kind="stable")), batch):
        rows, bits = program.read(part)
        events = np.zeros((kernel.N_EVENT, len(rows)), np.int64)
        events[kernel.TS], events[kernel.KEY] = part.ts[rows], part.numbers("key")[rows]
        events[kernel.TAKE : kernel.KILL + 1] = bits
        parts.append(events)
    values = np.empty((0, batch))

    def match(n: int) -> object:
        if runs.crowded:
            runs.clean_up([])
        return runs.handle(parts[n], values[:, : parts[n].shape[1]], n)

    return match


def identifying(changes: int) -> Part:
    words = np.random.default_rng(1).integers(0, 1 << 63, (WORDS, changes)).astype(np.uint64)
    found = np.empty((2, changes), np.uint64)
    return lambda _n: digest(words, found)


def writing(changes: int) -> Part:
    payload = {"A.ts": 1, "A.key": 2, "C.ts": 3, "C.key": 2}
    change = Change("insert", "final", "0" * 24, 1, "hit", 3, 4, 5, payload, "hit", "C at 3")
    names, number = Change.__struct_fields__, pa.int64()
    fields = pa.struct([(name, number) for name in payload])
    kinds: dict[type, Any] = {str: pa.string(), int: number, dict: fields}
    row: Any = pa.struct([(name, kinds[type(getattr(change, name))]) for name in names])
    numbers = np.arange(changes)

    def write(_n: int) -> object:
        whole: Any = pa.array([astuple(change) for _ in range(changes)], row)
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(whole)])

    def column(value: Any) -> Any:
        if isinstance(value, dict):
            return pa.StructArray.from_arrays([pa.array(numbers) for _ in value], names=[*value])
        return pa.array(numbers) if isinstance(value, int) else pa.repeat(value, changes)

    def write_columns(_n: int) -> object:
        return pa.table({name: column(getattr(change, name)) for name in names})

    return write if changes < MANY else write_columns


def feeding(stream: EventBatch, batch: int) -> Part:
    engine = Engine(compiled(), attenuation=1)
    return lambda n: engine.feed(stream[n * batch : (n + 1) * batch]).to_arrow()


def detecting(stream: EventBatch, batch: int) -> dict[str, Part]:
    """The parts of a feed of a Python detector; each works on what the ones before have made."""
    loop = Loop(SlackPolicy.parse("largest"), HOUR, Workspace())
    clock, taken = stream.types.index(BALL), MEASURED | BUFFERED
    roles = [taken | (CLOCK if code == clock else 0) for code in range(len(stream.types))]
    types = table_of(roles)
    heads = np.zeros(batch, np.int64)
    parts = list(cut(stream, batch))
    waiting: list[Event] = []
    keys: list[Any] = []
    gone = 0
    """The row number of the first event that waits."""
    handed: tuple[list[Event], list[Any]] = [], []
    made: list[tuple[Event, Event]] = []
    methods: dict[Any, Callable[[Event], Event | None]] = {}
    digests = Digests("touch")
    step = loop.run(types, heads[:0], heads[:0].astype(np.int32), heads[:0])

    def take_in(n: int) -> None:
        events = parts[n].rows()
        waiting.extend(events)
        keys.extend([event.payload["key"] for event in events])

    def order(n: int) -> None:
        nonlocal step
        part = parts[n]
        step = loop.run(types, part.ts, part.codes, heads[: len(part)])

    def hand_over(_n: int) -> None:
        nonlocal gone, handed
        rows = (step.released[ROW] - gone).tolist()
        handed = pick(waiting, rows), pick(keys, rows)
        first = int(loop.held[ROW].min()) if loop.held.shape[1] else gone + len(waiting)
        del waiting[: first - gone], keys[: first - gone]
        gone = first

    def call(_n: int) -> None:
        made.clear()
        for event, key in zip(*handed, strict=True):
            method = methods.get(key)
            if method is None:
                method = methods[key] = NotBetween().on_event
            result = method(event)
            if result is not None:
                made.append((result, event))

    def write(n: int) -> list[Change]:
        now = loop.clock
        rows = []
        for event, cause in made:
            match = digests.digest(event.type, event.ts, event["key"], event.payload)
            rows.append(Change(
                "insert", "final", match, n, event.type, event.ts, now, loop.slack,
                event.payload, "touch", f"{cause.type} at {cause.ts}",
            ))  # fmt: skip
        return rows

    return {
        "events": take_in, "order": order, "hand over": hand_over, "call": call, "rows": write,
    }  # fmt: skip


def show_detecting(batch: int, feeds: int, rounds: int) -> None:
    """Parts depend on each other, so they are timed within one run."""
    stream = keyed_stream(batch * feeds)
    best: dict[str, float] = {}

    def note(name: str, seconds: float) -> None:
        best[name] = min(best.get(name, float("inf")), seconds / feeds)

    def floor() -> None:
        parts = detecting(stream, batch).values()
        for n in range(feeds):
            for part in parts:
                part(n)

    runs: dict[str, Callable[[], object]] = {
        "floor": floor,
        "engine": lambda: feed_engine(stream, batch, 1.0, time=time.process_time),
        "loop": lambda: sort_and_call(stream),
    }
    for _ in range(rounds):
        gc.collect()
        parts = detecting(stream, batch)
        spent = dict.fromkeys(parts, 0.0)
        for n in range(feeds):
            for name, part in parts.items():
                began = time.process_time()
                part(n)
                spent[name] += time.process_time() - began
        for name, seconds in spent.items():
            note(name, seconds)
        for name, run in runs.items():
            gc.collect()
            began = time.process_time()
            run()
            note(name, time.process_time() - began)
    table = Table("", "us per feed", "x loop", title=f"Python detector, feeds of {batch:,} events")
    for name, seconds in best.items():
        table.add_row(name, f"{seconds * 1e6:.0f}", f"{best['loop'] / seconds:.2f}")
    Console().print(table)


def playing(tables: Sequence[pa.Table], *, calls: bool) -> Part:
    """What a feed of the match takes if it comes in order, with or without its detectors."""
    hierarchy = soccer(SIMULATED)
    named = {node.name: node for node in hierarchy}
    nodes = [named[name] for name in hierarchy.levels()]
    detectors: dict[tuple[str, Any], Any] = {}
    slices: dict[str, EventBatch] = {}
    below: dict[str, list[Event]] = {}

    def detector_of(node: Node, key: Any) -> Any:
        if (node.name, key) not in detectors:
            detectors[node.name, key] = node.maker.make()
        return detectors[node.name, key]

    def read(n: int) -> None:
        inputs = Inputs(EventBatch.of(tables[n]), None, 0)
        for node in nodes:
            if node.maker.kind == "batch":
                mask = tuple(map(node.takes, inputs.batch.types))
                slices[node.name] = in_arrays(inputs.part(mask, node.maker.columns, node.name))

    def call() -> None:
        below.clear()
        for node in nodes:
            if node.maker.kind == "batch":
                batch = slices[node.name]
                made = events_of(detector_of(node, None).on_batch(batch), batch)
            else:
                made = one_by_one(node)
            for event in made:
                below.setdefault(event.type, []).append(event)

    def one_by_one(node: Node) -> list[Event]:
        mine = [event for name in node.on for event in below.get(name, ())]
        mine.sort(key=attrgetter("ts"))
        made: list[Event] = []
        for event in mine:
            key = None if node.by is None else event[node.by]
            detector = detector_of(node, key)
            if node.maker.timed:
                made += [due for _, _, due in run_out(detector, event.ts, key)]
            made += called(node.maker.kind, detector, event)
        return made

    def play(n: int) -> None:
        read(n)
        if calls:
            call()

    return play


def show_playing(seconds: float, rounds: int) -> None:
    snippet = Snippet.of(seconds, PRESETS["bursts"])
    arrivals = [table for _, table in snippet.batches()]
    ordered = snippet.in_order
    starts = np.searchsorted(ordered["ts"].to_numpy(), np.arange(len(arrivals)) * BATCH)
    ends = [*starts[1:].tolist(), ordered.num_rows]
    tables = [ordered.slice(a, b - a) for a, b in zip(starts.tolist(), ends, strict=True)]

    def feeding() -> Part:
        engine = Engine(soccer(SIMULATED), attenuation=1, time=time.process_time)
        return lambda n: engine.feed(arrivals[n]).to_arrow()

    everything: dict[str, list[Callable[[], Part]]] = {
        "reads": [lambda: playing(tables, calls=False)],
        "floor": [lambda: playing(tables, calls=True)],
        "engine": [feeding],
    }
    table = Table("", "us per feed", "x real time", title="The match, feeds of 0.1 s")
    for name, spent in fastest(everything, len(arrivals), rounds).items():
        table.add_row(name, f"{spent * 1e6:.0f}", f"{BATCH / 1e6 / spent:.1f}")
    Console().print(table)


def fastest(
    parts: dict[str, list[Callable[[], Part]]], feeds: int, rounds: int
) -> dict[str, float]:
    """CPU seconds per feed. Each round runs everything once, from the beginning of the stream."""
    best = dict.fromkeys(parts, float("inf"))
    for _ in range(rounds):
        for name, makers in parts.items():
            made = [make() for make in makers]
            gc.collect()
            began = time.process_time()
            for n in range(feeds):
                for part in made:
                    part(n)
            best[name] = min(best[name], (time.process_time() - began) / feeds)
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floors", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--batch", type=int, default=100, help="events per feed")
    parser.add_argument("--feeds", type=int, default=1000, help="feeds per round")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    batch = options.batch
    stream = stream_of(options.feeds * batch)
    changes = max(1, round(sort_and_match(stream, KEYS) / options.feeds))
    makers: dict[str, Callable[[], Part]] = {
        "slice": lambda: slicing(stream, batch),
        "order": lambda: ordering(stream, batch),
        "match": lambda: matching(stream, batch),
        "identity": lambda: identifying(changes),
        "table": lambda: writing(changes),
    }
    everything = {name: [make] for name, make in makers.items()} | {
        "floor": list(makers.values()),
        "engine": [lambda: feeding(stream, batch)],
        "automaton": [lambda: lambda n: sort_and_match(stream, KEYS) if n == 0 else None],
    }
    table = Table("", "us per feed", "million events/s", title=f"Feeds of {batch:,} events")
    for name, seconds in fastest(everything, options.feeds, options.rounds).items():
        table.add_row(name, f"{seconds * 1e6:.0f}", f"{batch / seconds / 1e6:.2f}")
    Console().print(table)
    show_detecting(DETECTED, options.feeds // 10, options.rounds)
    show_playing(options.feeds / 200, options.rounds)


if __name__ == "__main__":
    main()
