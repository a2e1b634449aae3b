"""The paper on ordering, section IV: slack by level, delays of one detector, disorder, CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.snippet import Snippet
from betimes.apps.soccer.disorder import PRESETS
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED
from betimes.engine import Engine
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.observers import Observer
from betimes.model import EventBatch
from betimes.ordering import Ordered, OrderingUnit

Floats = npt.NDArray[np.float64]
WATCHED = ("Proximity", "PlayerHitsBall")
"""The detectors whose delays are shown: of positions, and of what is made from them."""
EXPERT, EXPERT_LEVEL = 500, 25
"""What the papers' expert would choose: so many milliseconds, and more for each level."""
NO_JITTER = replace(PRESETS["lan"], jitter_least=5_000, jitter_typical=0, jitter_most=5_000)
"""Packets, but no jitter of single positions, as in the papers' figure 9."""


@dataclass(frozen=True)
class Slack:
    """The slack that a detector has learned, in milliseconds."""

    level: int
    whole: float
    dated_back: float
    """The part that it would need if all positions came in order."""

    @property
    def disorder(self) -> float:
        return self.whole - self.dated_back


def slack_by_level(snippet: Snippet) -> dict[str, Slack]:
    """The slack of each detector."""
    learned = _fed(snippet, attenuation=1).stats
    in_order = Engine(soccer(SIMULATED), attenuation=1)
    for low in range(0, snippet.in_order.num_rows, 34_000):
        in_order.feed(snippet.in_order.slice(low, 34_000))
    back = in_order.stats
    return {
        name: Slack(stats.level, stats.slack / 1e3, back[name].slack / 1e3)
        for name, stats in learned.items()
    }


def _fed(snippet: Snippet, **options: Any) -> Engine:
    engine = Engine(soccer(SIMULATED), **options)
    for _, batch in snippet.batches():
        engine.feed(batch)
    return engine


@dataclass(frozen=True)
class Delays:
    """The delays of what a detector reads, and its slack at that time; in milliseconds."""

    at: Floats
    """Seconds of the stream."""
    type: npt.NDArray[Any]
    delay: Floats
    slack: Floats
    missed: npt.NDArray[np.bool_]
    """Whether it came after a later event had been settled."""

    def of(self, type: str) -> npt.NDArray[np.bool_]:
        """Which of them have this type."""
        which: npt.NDArray[np.bool_] = self.type == type
        return which


class DelayWatch(Observer):
    """Notes the delay of every event that arrives at one detector."""

    def __init__(self, detector: str) -> None:
        self._detector = detector
        self._arrived = 0
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def arrived(self, stage: Stage, batch: EventBatch, answer: Ordered) -> None:
        if stage.node.name != self._detector:
            return
        missed = np.zeros(len(batch), bool)
        late = answer.late - self._arrived
        missed[late[late >= 0]] = True
        self._arrived += len(batch)
        clock = answer.clock
        types = np.array(batch.types)[batch.codes]
        read = np.isin(types, stage.node.on) & (clock > 0)
        delay = np.maximum(clock - batch.ts, 0) / 1e3
        columns = clock / 1e6, types, delay, answer.slack / 1e3, missed
        self._parts.append(tuple(column[read] for column in columns))

    def found(self) -> Delays:
        return Delays(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))


def delays(seconds: float, detector: str) -> dict[float, Delays]:
    """What arrives at a detector, with a margin of 0 and of 0.5."""
    snippet = Snippet.of(seconds, NO_JITTER)
    found = {}
    for margin in (0.0, 0.5):
        watch = DelayWatch(detector)
        _fed(snippet, attenuation=1, margin=margin, observers=[watch])
        found[margin] = watch.found()
    return found


class OrderWatch(Observer):
    """Counts what arrives out of order, by level: older than something that arrived before it."""

    def __init__(self) -> None:
        self.arrivals: dict[int, int] = {}
        self.late: dict[int, int] = {}
        self._newest: dict[str, int] = {}

    def arrived(self, stage: Stage, batch: EventBatch, _: Ordered) -> None:
        read = [stage.node.takes(type) or type in stage.node.on for type in batch.types]
        ts = batch.ts[np.array(read, bool)[batch.codes]]
        if not len(ts):
            return
        level, name = stage.level, stage.node.name
        newest = np.maximum.accumulate(np.maximum(ts, self._newest.get(name, ts[0])))
        behind = int(np.count_nonzero(ts < newest))
        self._newest[name] = int(newest[-1])
        self.arrivals[level] = self.arrivals.get(level, 0) + len(ts)
        self.late[level] = self.late.get(level, 0) + behind


def disorder_by_level(snippet: Snippet) -> OrderWatch:
    """How much arrives out of order at each level."""
    watch = OrderWatch()
    _fed(snippet, attenuation=1, observers=[watch])
    return watch


@contextmanager
def timed(kind: type, name: str, seconds: list[float]) -> Iterator[None]:
    """While this lasts, note the CPU time of each call of a method."""
    original = getattr(kind, name)

    def measured(*arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        try:
            return original(*arguments, **options)
        finally:
            seconds.append(time.process_time() - began)

    setattr(kind, name, measured)
    try:
        yield
    finally:
        setattr(kind, name, original)


def ordering_share(snippet: Snippet) -> float:
    """The share of the CPU time of pure buffering that ordering units take."""
    shares = []
    for _ in range(3):
        took: list[float] = []
        with timed(OrderingUnit, "order", took):
            began = time.process_time()
            _fed(snippet, attenuation=1)
            whole = time.process_time() - began
        shares.append(sum(took) / whole)
    return min(shares)
