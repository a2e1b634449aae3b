"""The hierarchies of the recorded runs: every kind of detector, on one to three levels.

Imports only what users may import, because this module also runs on older commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.speculation.detectors import (
    Burst,
    NotBetween,
    Pass,
    Peaks,
    Ring,
    Touch,
    approach,
    five_levels,
    strong,
)
from benchmarks.streams import CLOCK
from betimes import Derived, Event, EventBatch, Hierarchy, begin, pattern
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED

ALL = ("ball", "near", "not_near", "hit")


@dataclass
class Forces:
    """Per batch: every third event, with the sum of the forces; may date its outputs back."""

    out: str = "sum"
    back: int = 0
    count: int = 0
    total: int = 0

    def on_batch(self, batch: EventBatch) -> Derived:
        number = self.count + 1 + np.arange(len(batch))
        total = self.total + np.cumsum(batch.numbers("force")).astype(np.int64)
        rows = np.flatnonzero(number % 3 == 0)
        self.count, self.total = int(number[-1]), int(total[-1])
        ts = np.maximum(batch.ts[rows] - self.back, 0)
        payload = {"key": batch.numbers("key")[rows], "force": total[rows] % 100}
        return Derived(self.out, rows=rows, ts=ts, payload=payload)


@dataclass
class Unanswered:
    """Timed: a `near` that no `hit` of its key follows within 20 ms."""

    waiting: list[int] = field(default_factory=list)

    @property
    def deadline(self) -> int | None:
        return self.waiting[0] + 20_000 if self.waiting else None

    def on_event(self, event: Event) -> Event | None:
        if event.type == "near":
            self.waiting.append(event.ts)
        elif self.waiting:
            return Event("answered", event.ts, {"to": self.waiting.pop(0)})
        return None

    def on_time(self, ts: int) -> Iterator[Event]:
        yield Event("unanswered", ts, {"to": self.waiting.pop(0)})


@dataclass
class Fails:
    """Fails at every hit that is too strong, and counts the others."""

    count: int = 0

    def on_event(self, event: Event) -> Event:
        if event["force"] >= 95:
            raise ValueError("too strong")
        self.count += 1
        return Event("counted", event.ts, {"n": self.count})


def _one(detector: Any, *, clock: Any = CLOCK, **wiring: Any) -> Hierarchy:
    hierarchy = Hierarchy(clock=clock)
    hierarchy.add(detector, **wiring)
    return hierarchy


def _two_levels() -> Hierarchy:
    hierarchy = Hierarchy(clock=CLOCK)
    hierarchy.add(strong, on="hit", emits="kick")
    hierarchy.add(approach, on=("near", "not_near"), emits=("close", "away"))
    hierarchy.add(Touch, on=("close", "away", "kick"), emits="touch", by="key")
    return hierarchy


def _three_levels() -> Hierarchy:
    hierarchy = _two_levels()
    hierarchy.add(Pass, on="touch", emits="pass", by="team")
    return hierarchy


def _slices_on_two_levels() -> Hierarchy:
    hierarchy = _one(Forces("sum", back=2_000), on=("near", "hit"), emits="sum")
    hierarchy.add(Forces("sums"), on="sum", emits="sums", by="key", name="above")
    return hierarchy


def _patterns_on_two_levels() -> Hierarchy:
    select = {"key": "hit.key", "force": "hit.force"}
    first = pattern("near !(near|not_near) hit", by="key", emits="touch", select=select)
    hierarchy = _one(first)
    above = {"A": "type == 'touch'", "B": "type == 'touch' and force > A.force"}
    hierarchy.add(pattern("A B", define=above, within="100ms", emits="harder", on="touch"))
    return hierarchy


def _mixed() -> Hierarchy:
    """A pattern, a detector per batch and a timed one, with a function above them."""
    hierarchy = _one(pattern("near not_near", by="key", emits="left", within="1s"))
    hierarchy.add(Forces("sum"), on="hit", emits="sum", by="key")
    hierarchy.add(Unanswered, on=("near", "hit"), emits=("answered", "unanswered"), by="key")
    hierarchy.add(_seen, on=("left", "sum", "unanswered"), emits="seen")
    return hierarchy


def _seen(event: Event) -> Event:
    return Event("seen", event.ts, {"what": event.type})


def _pattern(text: str, **options: Any) -> Callable[[], Hierarchy]:
    return lambda: _one(pattern(text, emits="found", **options))


def _builder() -> Hierarchy:
    steps = begin("a", "type == 'near'", emits="found", by="key", on=ALL[1:])
    steps = steps.followed_by("b", "type == 'hit' and force > 30").times(1, 2)
    steps = steps.not_followed_by("c", "type == 'not_near'")
    return _one(steps.followed_by("d", "type == 'near'").within("300ms"))


def _builder_strict() -> Hierarchy:
    steps = begin("a", "type == 'near'", emits="found", by="team", skip="past_last", on=ALL[1:])
    return _one(steps.next("b", "type == 'hit' and force > a.force").within("500ms"))


HIERARCHIES: dict[str, Callable[[], Hierarchy]] = {
    "keyed": lambda: _one(NotBetween, on=ALL, emits="touch", by="key"),
    "unkeyed": lambda: _one(Ring([0] * 8), on=ALL, emits="rise"),
    "learned clock": lambda: _one(NotBetween, clock=None, on=ALL, emits="touch", by="key"),
    "two levels": _two_levels,
    "three levels": _three_levels,
    "forgets": partial(five_levels, forgets=True),
    "five levels": partial(five_levels, forgets=False),
    "fails": lambda: _one(Fails, on="hit", emits="counted"),
    "timed": lambda: _one(
        Unanswered, on=("near", "hit"), emits=("answered", "unanswered"), by="key"
    ),
    "slices": lambda: _one(Peaks, on=ALL, emits="peak"),
    "slices by key": lambda: _one(Forces("sum"), on=ALL[1:], emits="sum", by="key"),
    "slices on two levels": _slices_on_two_levels,
    "compiled": _pattern("near !(near|not_near) hit", by="key"),
    "compiled, no key": _pattern("near !not_near hit"),
    "compiled, within": _pattern("near hit not_near", by="key", within="200ms"),
    "compiled, where": _pattern("near hit", by="team", within="50ms", where="hit.force>near.force"),
    "general, absence": _pattern("near !hit", by="key", within="40ms"),
    "general, timeouts": _pattern("near hit not_near", by="key", within="90ms", timeouts="missed"),
    "general, repeated": _pattern("near hit+ not_near", by="team", within="100ms"),
    "builder": _builder,
    "builder, strict": _builder_strict,
    "patterns on two levels": _patterns_on_two_levels,
    "mixed": _mixed,
    "soccer": lambda: soccer(SIMULATED),
    "phones": lambda: _one(Burst, clock="message", on="message", emits="burst"),
}
