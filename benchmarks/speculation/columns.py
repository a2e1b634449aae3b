"""*Columns*: a detector per batch, against the same detector per event."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.racing import Contender, Race, Target, race
from benchmarks.speculation.detectors import Peaks, PeaksOneByOne
from benchmarks.speculation.measuring import Size, check_same, net
from benchmarks.streams import CLOCK, cut, readings_stream
from betimes import Engine, EventBatch, Hierarchy


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
