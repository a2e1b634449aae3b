"""*Throughput*: a detector in plain Python, against a loop that knows the future."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.racing import Contender, Race, Target, race
from benchmarks.speculation.detectors import NotBetween
from benchmarks.speculation.measuring import Size, check_same, net
from benchmarks.streams import CLOCK, KEYS, cut, keyed_stream
from betimes import Engine, Event, EventBatch, Hierarchy


def sort_and_call(stream: EventBatch) -> int:
    """Sort the whole stream, build its events, and call the detector of each key."""
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


def feed_engine(stream: EventBatch, batch: int, attenuation: float, **options: Any) -> int:
    """Run the same detector in an engine."""
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(NotBetween, on=stream.types, emits="touch", by="key")
    engine = Engine(hierarchy, attenuation=attenuation, **options)
    found = 0
    for part in cut(stream, batch):
        found += net(engine.feed(part))
    return found + net(engine.finish())


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
