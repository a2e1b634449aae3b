"""Executing user code is pure: a state and events in, what was made and a state out."""

from __future__ import annotations

import copy
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.describe import describe
from betimes.engine.node import Node
from betimes.engine.snapshots.sharing import same_state
from betimes.engine.snapshots.states import ABSENT
from betimes.engine.stages.execution import Done, Execution, part
from betimes.engine.stages.runner import DetectorFailed, Slice
from betimes.model import Derived, Event, EventBatch
from betimes.model.change import fold
from betimes.model.codec import dumps, loads
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import FOREVER, feed_all, flat, share


@dataclass
class Sums:
    """Sums up, and fails at some values; what it did before it fails is undone for it."""

    fails: tuple[int, ...] = ()
    total: int = 0
    seen: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Event | None:
        self.total += event["v"]
        self.seen.append(event["v"])
        del self.seen[:-3]
        if event["v"] in self.fails:
            raise ValueError("not this one")
        if self.total % 2:
            return None
        return Event("made", event.ts, {"k": event["k"], "total": self.total, "of": self.seen[:]})


@dataclass
class BatchSums:
    """The same per batch."""

    fails: tuple[int, ...] = ()
    total: int = 0

    def on_batch(self, batch: EventBatch) -> Derived:
        rows, totals = [], []
        for row, value in enumerate(batch.numbers("v").tolist()):
            self.total += value
            if value in self.fails:
                raise ValueError("not this one")
            if self.total % 2 == 0:
                rows.append(row)
                totals.append(self.total)
        keys = batch.numbers("k")[rows]
        return Derived("made", rows=rows, payload={"k": keys, "total": totals})


@dataclass
class Picky(Sums):
    """Fails depending on its state: never twice the same value."""

    def on_event(self, event: Event) -> Event | None:
        before = self.seen[-1:]
        made = super().on_event(event)
        if before == [event["v"]]:
            raise ValueError("again")
        return made


@dataclass
class Waits:
    """An event 2 after each one, unless another comes first; fails at some values."""

    fails: tuple[int, ...] = ()
    deadline: int | None = None
    key: int = 0

    def on_event(self, event: Event) -> None:
        self.deadline, self.key = event.ts + 2, event["k"]
        if event["v"] in self.fails:
            raise ValueError("not this one")

    def on_time(self, ts: int) -> Event:
        self.deadline = None
        return Event("made", ts, {"k": self.key})


def node_of(detector: Any) -> Node:
    return describe(detector, on=("A", "B", "C"), emits="made", by=None, name=None)


VALUES = st.lists(st.integers(0, 9), min_size=1, max_size=25)
FAILS = st.sets(st.integers(0, 9), max_size=4).map(lambda fails: tuple(sorted(fails)))
KINDS = pytest.mark.parametrize("kind", [Sums, BatchSums, Picky], ids=lambda kind: kind.__name__)


def events_of(values: list[int], kind: Any) -> Slice:
    events = [Event("A", ts, {"k": 0, "v": value}) for ts, value in enumerate(values)]
    return EventBatch.from_rows(events) if kind is BatchSums else events


def state_in(execution: Execution, done: Done) -> Any:
    return execution.states.take(done.detector)


# Pure


@KINDS
@given(VALUES, VALUES, FAILS)
@share(0.2)
def test_a_state_can_be_used_again_and_again(
    kind: Any, earlier: list[int], values: list[int], fails: tuple[int, ...]
) -> None:
    execution = Execution(node_of(kind(fails)))
    saved = state_in(execution, execution.run_with_care(ABSENT, events_of(earlier, kind)))
    before, events = copy.deepcopy(saved), events_of(values, kind)
    first = execution.run_with_care(saved, events)
    assert same_state(saved, before), "the snapshot that was handed in has changed"
    again = execution.execute(execution.states.restored(saved), saved, events)
    assert same_state(saved, before), "the snapshot that was handed in has changed"
    assert again.made == first.made
    assert rows_of(again) == rows_of(first)
    assert same_state(state_in(execution, again), state_in(execution, first))


@KINDS
@given(VALUES, FAILS, st.integers(0, 25))
@share(0.2)
def test_where_a_slice_is_cut_does_not_matter(
    kind: Any, values: list[int], fails: tuple[int, ...], at: int
) -> None:
    at = min(at, len(values))
    execution, events = Execution(node_of(kind(fails))), events_of(values, kind)
    whole = execution.run_with_care(ABSENT, events)
    if not 0 < at < len(values):
        return
    first = execution.run_with_care(ABSENT, part(events, 0, at))
    between = state_in(execution, first)
    second = execution.run_with_care(between, part(events, at, len(values)))
    assert first.made.events + second.made.events == whole.made.events
    assert [*first.made.rows, *(at + row for row in second.made.rows)] == whole.made.rows
    assert rows_of(first) + [at + row for row in rows_of(second)] == rows_of(whole)
    assert same_state(state_in(execution, second), state_in(execution, whole))


def elsewhere(kind: Any, fails: tuple[int, ...], saved: bytes, events: bytes) -> bytes:
    """Execute in a process that knows nothing but the detector's class and this data."""
    execution = Execution(node_of(kind(fails)))
    state, given = loads(saved, "the state"), loads(events, "the events")
    batch = EventBatch.from_rows(given) if kind is BatchSums else given
    done = execution.run_with_care(state, batch)
    return written(execution, done)


def written(execution: Execution, done: Done) -> bytes:
    failures = [(row, str(failure)) for row, failure in done.failures]
    return dumps([*done.made, state_in(execution, done), failures], "what was made")


def test_executing_in_another_process_gives_the_same() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for kind in (Sums, BatchSums, Picky):
            fails = (4, 7)
            execution = Execution(node_of(kind(fails)))
            earlier = execution.run_with_care(ABSENT, events_of([3, 1, 4, 1, 5], kind))
            saved, values = state_in(execution, earlier), [9, 2, 6, 7, 3, 3, 5, 8]
            here = written(execution, execution.run_with_care(saved, events_of(values, kind)))
            sent = dumps(saved, "the state"), dumps(events_of(values, None), "the events")
            assert pool.submit(elsewhere, kind, fails, *sent).result() == here


# Failures


def rows_of(done: Done) -> list[int]:
    return [row for row, _ in done.failures]


def one_by_one(execution: Execution, events: Slice) -> tuple[list[int], list[Any], list[int], Any]:
    """What a detector makes if each event is handed over alone, and it goes back where it fails."""
    saved: Any = ABSENT
    rows: list[int] = []
    made: list[Any] = []
    failed: list[int] = []
    for row in range(len(events)):
        detector = execution.states.restored(saved)
        try:
            found = execution.run(detector, part(events, row, row + 1))
        except DetectorFailed:
            failed.append(row)
            detector = execution.states.restored(saved)
        else:
            rows += [row] * len(found.rows)
            made += found.events
        saved = execution.states.take(detector)
    return rows, made, failed, saved


@KINDS
@given(VALUES, FAILS)
@share(0.3)
def test_bisecting_finds_the_failures_of_handing_over_one_by_one(
    kind: Any, values: list[int], fails: tuple[int, ...]
) -> None:
    execution, events = Execution(node_of(kind(fails))), events_of(values, kind)
    done = execution.run_with_care(ABSENT, events)
    rows, made, failed, state = one_by_one(execution, events)
    assert (done.made.rows, done.made.events, rows_of(done)) == (rows, made, failed)
    assert same_state(state_in(execution, done), state)
    if kind is not Picky:
        assert failed == [row for row, value in enumerate(values) if value in fails]


PAYLOADS = st.fixed_dictionaries({"k": st.integers(0, 2), "v": st.integers(0, 9)})
STREAMS = disordered(max_events=30, max_delay=15, payloads=PAYLOADS)


def failing(detector: Any, by: str | None, on: tuple[str, ...] = ("A", "B")) -> Hierarchy:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(detector, on=on, emits="made", by=by, name="culprit")
    return hierarchy


@pytest.mark.parametrize("kind", [Sums, BatchSums, Waits], ids=lambda kind: kind.__name__)
@given(STREAMS, FAILS, engine_options(), st.sampled_from([None, "k"]), st.data())
@share(0.3)
def test_events_at_which_a_detector_fails_count_as_if_they_had_not_come(
    kind: Any,
    stream: list[Event],
    fails: tuple[int, ...],
    options: dict[str, Any],
    by: str | None,
    data: st.DataObject,
) -> None:
    engine = Engine(failing(kind(fails), by), **options, errors="skip", retention=FOREVER)
    changes = flat(feed_all(engine, data.draw(cut(stream))))
    bad = [event for event in stream if event.type != "C" and event["v"] in fails]
    sound = [event for event in stream if event not in bad]
    assert fold(changes) == oracle(failing(kind(), by), sound)
    assert engine.stats["culprit"].errors == len(bad)


DEADLINES = [
    [("A", 1, 1), ("C", 20, 1), ("B", 25, 9), ("C", 60, 1)],
    # The key goes back and fails in one batch, the last.
    [("A", 2, 1), ("A", 0, 9), ("A", 2, 9), ("A", 6, 9), ("A", 2, 9)],
]


@pytest.mark.parametrize("attenuation", [1.0, 0.0])
@pytest.mark.parametrize("snapshots", [1, 1000])
@pytest.mark.parametrize("rows", DEADLINES)
def test_deadlines_pass_once_also_if_a_later_event_fails(
    rows: list[tuple[str, int, int]], attenuation: float, snapshots: int
) -> None:
    stream = [Event(type, ts, {"k": 0, "v": v}) for type, ts, v in rows]
    engine = Engine(
        failing(Waits((9,)), None), attenuation=attenuation, snapshots=snapshots, errors="skip"
    )
    changes = flat(feed_all(engine, [[event] for event in stream]))
    sound = [event for event in stream if event["v"] != 9]
    assert fold(changes) == oracle(failing(Waits(), None), sound)


@pytest.mark.parametrize("snapshots", [4, 500])
@pytest.mark.parametrize("kind", [Sums, BatchSums], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("attenuation", [1.0, 0.0])
def test_a_key_keeps_its_state_when_the_detector_of_another_fails(
    snapshots: int, kind: Any, attenuation: float
) -> None:
    """Also if the segment has not touched the key yet, as all that it knew lies before."""

    def event(ts: int, k: int, v: int) -> Event:
        return Event("A", ts, {"k": k, "v": v})

    # A whole segment of two keys; the next one begins with a failure of the first of them.
    full = [event(ts, ts % 2, 1) for ts in range(snapshots)]
    rest = [event(snapshots, 0, 9), *(event(snapshots + n, 1, 1) for n in range(1, 5))]
    late = [event(snapshots + 2, 1, 3)]
    engine = Engine(
        failing(kind((9,)), "k"), attenuation=attenuation, snapshots=snapshots, errors="skip",
        retention=FOREVER,
    )  # fmt: skip
    changes = flat(feed_all(engine, [full, rest, late]))
    sound = [event for event in [*full, *rest, *late] if event["v"] != 9]
    assert fold(changes) == oracle(failing(kind(), "k"), sound)
    assert engine.stats["culprit"].errors == 1
