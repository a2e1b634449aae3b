"""Contracts 1, 2 and 5 of the design: order does not show, final is final, runs can be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.stages.retraction import Technique
from betimes.model import Event, EventBatch
from betimes.model.change import Change, fold
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, engine_options
from tests.engine.material import (
    FOREVER,
    Count,
    Twins,
    feed_all,
    flat,
    hierarchies,
    kinds,
    share,
    standing,
    streams,
    tick,
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Hierarchy, list[Event], dict[str, Any]]:
    """A hierarchy, a stream, and the options of an engine that can repair all of it."""
    options = draw(engine_options())
    options |= {"by": draw(st.sampled_from([None, None, "k"])), "retention": FOREVER}
    return draw(hierarchies()), draw(streams()), options


def feed_unsteadily(
    data: st.DataObject, engine: Engine, batches: Sequence[Sequence[Event]]
) -> list[list[Change]]:
    """Feed batches; the attenuation changes between some of them."""
    changes = []
    for batch in batches:
        value = data.draw(st.sampled_from([None, None, None, 1.0, 0.4, 0.0]))
        if value is not None:
            engine.set_attenuation(value)
        changes.append(list(engine.feed(list(batch))))
    return [*changes, list(engine.finish())]


# Order does not show


@given(runs(), st.data())
@share(1)
def test_folded_changes_are_the_result_of_perfect_order(run: Any, data: st.DataObject) -> None:
    hierarchy, stream, options = run
    engine = Engine(hierarchy, **options)
    batches = feed_unsteadily(data, engine, data.draw(cut(stream)))
    assert fold(flat(batches)) == oracle(hierarchy, stream, by=options["by"])
    check_lives(batches, late="repair")


@given(runs(), st.data())
@share(0.4)
def test_what_came_in_time_needs_no_repair(run: Any, data: st.DataObject) -> None:
    """With all the slack that is needed known from the start, nothing final is touched."""
    hierarchy, stream, options = run
    late = data.draw(st.sampled_from(["repair", "side", "drop"]))
    engine = Engine(hierarchy, **options | {"min_slack": 200, "late": late, "retention": 0})
    batches = feed_unsteadily(data, engine, data.draw(cut(stream)))
    assert fold(flat(batches)) == oracle(hierarchy, stream, by=options["by"])
    check_lives(batches, late="never")
    assert {stats.late for stats in engine.stats.values()} == {0}


def check_lives(batches: Sequence[Sequence[Change]], *, late: str) -> None:
    """Every match is inserted, maybe confirmed, maybe deleted, in this order."""
    lives: dict[str, str] = {}
    seqs = [change.seq for change in flat(batches)]
    assert seqs == sorted(set(seqs))
    for batch in batches:
        ids = [change.match_id for change in batch]
        assert len(ids) == len(set(ids)), "two changes of one match in a batch"
        for change in batch:
            before = lives.get(change.match_id, "unknown")
            if change.change_type == "insert":
                assert before in ("unknown", "deleted"), (before, change)
                lives[change.match_id] = change.status
            elif change.change_type == "confirm":
                assert (before, change.status) == ("provisional", "final"), (before, change)
                lives[change.match_id] = "final"
            else:
                assert before == change.status, (before, change)
                assert change.cause.startswith(("late ", "retracted ")), change
                assert before == "provisional" or late == "repair", change
                lives[change.match_id] = "deleted"
    assert set(lives.values()) <= {"final", "deleted"}, "something is provisional in the end"


@given(runs(), st.data())
@share(0.3)
def test_a_match_has_the_same_id_however_it_was_found(run: Any, data: st.DataObject) -> None:
    hierarchy, stream, options = run
    one = feed_unsteadily(data, Engine(hierarchy, **options), data.draw(cut(stream)))
    plain = Engine(hierarchy, attenuation=1.0, by=options["by"], retention=FOREVER)
    another = feed_all(plain, [stream])
    # Equal matches are told apart by a number; they have their own test below.
    assume(not any("-" in change.match_id for change in flat(one + another)))
    assert row_by_id(one) == row_by_id(another)


@dataclass
class Second:
    """Says once, with the same words, that two events have come."""

    n: int = 0

    def on_event(self, event: Event) -> Event | None:  # noqa: ARG002
        self.n += 1
        return Event("second", 0) if self.n == 2 else None


@pytest.mark.parametrize("retraction", ["full", "on-demand"])
def test_a_match_that_is_found_by_another_event_keeps_its_id(retraction: Technique) -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Second, on="A", emits="second")
    engine = Engine(hierarchy, attenuation=0.0, snapshots=1, retraction=retraction)
    changes = feed_all(engine, [[tick(ts)] for ts in (1, 2, 5, 1)])
    in_order = feed_all(Engine(hierarchy, attenuation=1.0), [[tick(ts) for ts in (1, 1, 2, 5)]])
    assert row_by_id(changes) == row_by_id(in_order)
    assert kinds(flat(changes)) == {"insert": 1, "confirm": 1}, "nothing has changed on the way"


@dataclass
class Same:
    """Says the same of every event."""

    def on_event(self, event: Event) -> Event:  # noqa: ARG002
        return Event("same", 0)


def test_equal_matches_have_ids_of_their_own_also_after_the_retention() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Same, on="A", emits="same")
    engine = Engine(hierarchy, attenuation=0.0, snapshots=1, retention=2)
    check_lives(feed_all(engine, [[tick(ts)] for ts in range(40)]), late="never")


def test_equal_matches_can_be_replayed_after_the_retention() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Same, on="A", emits="same")
    engine = Engine(hierarchy, attenuation=0.0, snapshots=1, retention=2)
    changes = flat(feed_all(engine, [[tick(ts)] for ts in (0, 0, 6, 5)]))
    assert sum(fold(changes).values()) == 4


def row_by_id(batches: Sequence[Sequence[Change]]) -> dict[str, Event]:
    return {key: change.event for key, change in standing(flat(batches)).items()}


@given(hierarchies(per_batch=False, max_levels=3), streams(), st.data())
@share(0.4)
def test_the_slack_of_every_level_is_that_of_single_feeding(
    hierarchy: Hierarchy, stream: list[Event], data: st.DataObject
) -> None:
    """A large batch must not teach the levels above a large slack.

    On the first level the slack is enough; those above learn what they need.
    """
    one, another = (Engine(hierarchy, attenuation=1.0, min_slack=30) for _ in range(2))
    for batch in data.draw(cut(stream)):
        one.feed(batch)
    for event in stream:
        another.feed(event)
    assert slacks(one) == slacks(another)


def slacks(engine: Engine) -> dict[str, int]:
    return {name: stats.slack for name, stats in engine.stats.items()}


# Runs can be repeated


class Steps:
    """A clock that goes on by a little whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@given(hierarchies(), streams(), st.data())
@share(0.2)
def test_the_same_input_gives_the_same_bytes(
    hierarchy: Hierarchy, stream: list[Event], data: st.DataObject
) -> None:
    batches = data.draw(cut(stream))
    one, another = (
        feed_all(Engine(hierarchy, attenuation="adaptive", time=Steps()), batches) for _ in range(2)
    )
    assert repr(one) == repr(another)


# Examples of size


@pytest.mark.parametrize("attenuation", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("keyed", [None, "k"])
def test_a_long_stream_with_events_that_wait_for_long(
    attenuation: float, by: str | None, keyed: str | None
) -> None:
    """Long enough for the engine to let go of what it has handled, several times."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted", 7, back=3), on=("A", "B"), emits="counted", by=keyed)
    hierarchy.add(Twins("twins"), on=("A", "counted"), emits="twins", by=keyed)
    stream = [tick(ts - 5 * (ts % 11 == 0) * (ts > 10), k=ts % 5) for ts in range(20_000)]
    for early in range(0, 18_000, 1_500):
        stream.insert(early, Event("B", early + 6_000, {"k": 1}))
    engine = Engine(hierarchy, attenuation=attenuation, by=by, retention=500, min_slack=20)
    batches = feed_all(engine, [stream[low : low + 700] for low in range(0, len(stream), 700)])
    assert fold(flat(batches)) == oracle(hierarchy, stream, by=by)
    check_lives(batches, late="never")
    assert max(stats.remembered for stats in engine.stats.values()) < 15_000


def test_a_table_gives_what_a_list_of_events_gives() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted"), on=("A", "B"), emits="counted", by="k")
    stream = [tick(ts ^ 3, k=ts % 3) for ts in range(100)]
    from_list = feed_all(Engine(hierarchy, attenuation=0.0), [stream])
    engine = Engine(hierarchy, attenuation=0.0)
    table = EventBatch.from_rows(stream).to_arrow()
    from_table = [list(engine.feed(table)), list(engine.finish())]
    assert from_table == from_list


def test_an_empty_stream_and_empty_batches_give_nothing() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted"), on="A", emits="counted")
    assert flat(feed_all(Engine(hierarchy), [])) == []
    assert flat(feed_all(Engine(hierarchy), [[], []])) == []
