"""What the tests of the engine run: detectors, hierarchies of them, and a way to run an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.observers import Observer
from betimes.model import Event, EventBatch
from betimes.model.change import Change
from betimes.ordering import Ordered
from betimes.testing.strategies import disordered

FOREVER = 10**9
"""A retention within which every late event of a small test can be repaired."""


def share(part: float) -> settings:
    """Examples for a contract: with `share(1)`, four times as many as other properties have."""
    return settings(max_examples=int(part * 4 * settings().max_examples))


def tick(ts: int, **payload: Any) -> Event:
    return Event("A", ts, payload)


def other(ts: int, **payload: Any) -> Event:
    return Event("B", ts, payload)


@dataclass
class Count:
    """Every n-th event, with what was seen last; may date its outputs back."""

    out: str
    every: int = 2
    back: int = 0
    n: int = 0
    seen: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Iterator[Event]:
        self.n += 1
        self.seen.append(event.ts)
        del self.seen[:-3]
        if self.n % self.every == 0:
            payload = {"k": event["k"], "n": self.n, "sum": sum(self.seen)}
            yield Event(self.out, max(0, event.ts - self.back), payload)


@dataclass
class NotBetween:
    """First !without then, as two events for each match."""

    out: str
    first: str
    without: str
    then: str
    open: int | None = None

    def on_event(self, event: Event) -> list[Event] | None:
        if event.type == self.first:
            self.open = event.ts
        elif event.type == self.without:
            self.open = None
        elif self.open is not None:
            begun, self.open = self.open, None
            return [
                Event(self.out, event.ts, {"k": event["k"], "from": begun}),
                Event(self.out, event.ts, {"k": event["k"], "took": event.ts - begun}),
            ]
        return None


@dataclass
class Twins:
    """Two equal events at each third time, if the last event was of another type."""

    out: str
    last: str = ""

    def on_event(self, event: Event) -> Iterator[Event]:
        if event.type != self.last and event.ts % 3 == 0:
            yield from [Event(self.out, event.ts, {"k": 0})] * 2
        self.last = event.type


@dataclass
class BatchSum:
    """A detector per batch."""

    out: str
    total: int = 0

    def on_batch(self, batch: EventBatch) -> Iterator[Event]:
        for event in batch:
            self.total += event.ts
            if event.ts % 3 == 0:
                yield Event(self.out, event.ts, {"k": event["k"], "total": self.total})


def odd(out: str) -> Callable[[Event], Event | None]:
    """A detector without state."""

    def detect(event: Event) -> Event | None:
        if event.ts % 2:
            return Event(out, event.ts, {"k": event["k"], "of": event.type})
        return None

    return detect


@st.composite
def hierarchies(draw: st.DrawFn, *, max_levels: int = 5, per_batch: bool = True) -> Hierarchy:
    """One to five levels of detectors of all kinds, with fan-in, fan-out and back-dated outputs."""
    hierarchy = Hierarchy(clock=draw(st.sampled_from(["A", ("A", "B"), "*"])))
    known, newest = ["A", "B", "C"], ["A", "B", "C"]
    for level in range(1, draw(st.integers(1, max_levels)) + 1):
        made = []
        for number in range(draw(st.integers(1, 2))):
            out = f"L{level}.{number}"
            some = draw(st.sets(st.sampled_from(known), max_size=2))
            on = tuple(sorted(some | {draw(st.sampled_from(newest))}))
            hierarchy.add(
                draw(_detectors(out, on, per_batch=per_batch)),
                on=on,
                emits=out,
                by=draw(st.sampled_from([None, "k"])),
                name=f"makes {out}",
            )
            made.append(out)
        known, newest = known + made, made
    return hierarchy


def _detectors(out: str, on: tuple[str, ...], *, per_batch: bool) -> st.SearchStrategy[Any]:
    backs = st.sampled_from([0, 0, 2, 5])
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(Count, st.just(out), st.integers(1, 3), backs),
        st.builds(NotBetween, st.just(out), st.just(on[0]), st.just(on[-1]), st.sampled_from(on)),
        st.builds(Twins, st.just(out)),
        st.builds(odd, st.just(out)),
    ]
    if per_batch:
        kinds.append(st.builds(BatchSum, st.just(out)))
    return st.one_of(kinds)


def streams(*, max_events: int = 50, max_delay: int = 25) -> st.SearchStrategy[list[Event]]:
    """Streams in disorder with a key of three values."""
    payloads = st.fixed_dictionaries({"k": st.integers(0, 2)})
    return disordered(max_events=max_events, max_delay=max_delay, payloads=payloads)


def feed_all(engine: Engine, batches: Iterable[Sequence[Event]]) -> list[list[Change]]:
    """Run an engine; the changes of each batch, those of the end last."""
    return [*(list(engine.feed(list(batch))) for batch in batches), list(engine.finish())]


def one_by_one(engine: Engine, stream: Iterable[Event]) -> list[Change]:
    return flat(feed_all(engine, [[event] for event in stream]))


def flat(batches: Iterable[Iterable[Change]]) -> list[Change]:
    return [change for batch in batches for change in batch]


def standing(changes: Iterable[Change]) -> dict[str, Change]:
    """The rows that a sink holds which merges the changes by `match_id`."""
    rows: dict[str, Change] = {}
    for change in changes:
        if change.change_type == "delete":
            del rows[change.match_id]
        else:
            rows[change.match_id] = change
    return rows


def kinds(changes: Iterable[Change]) -> Counter[str]:
    return Counter(change.change_type for change in changes)


class Watched(Observer):
    """Knows the stages of an engine once something has arrived."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def arrived(self, stage: Stage, batch: EventBatch, answer: Ordered) -> None:  # noqa: ARG002
        if stage not in self.stages:
            self.stages.append(stage)

    @property
    def late(self) -> int:
        """Events that came after something later had settled."""
        return sum(stage.unit.stats.late for stage in self.stages)
