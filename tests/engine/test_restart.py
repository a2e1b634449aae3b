"""Contract 3 for one engine: a run that was interrupted tells what an unbroken run tells."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import BetimesError, Event
from betimes.model.change import LATE, REJECTED, Change, fold
from betimes.patterns import pattern
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, engine_options
from tests.engine.material import FOREVER, Count, feed_all, flat, hierarchies, share, streams, tick


@given(
    hierarchies(),
    streams(),
    engine_options(),
    st.sampled_from([{}, {"by": "k"}, {"by": "k", "order": "key"}]),
    st.sampled_from([{"retention": FOREVER}, {"retention": 10}, {"late": "side"}]),
    st.data(),
)
@share(0.4)
def test_a_restart_between_any_two_batches_does_not_show(
    hierarchy: Hierarchy,
    stream: list[Event],
    options: dict[str, Any],
    keys: dict[str, Any],
    late: dict[str, Any],
    data: st.DataObject,
) -> None:
    options |= {"time": lambda: 0.0} | keys | late
    batches = data.draw(cut(stream))
    try:
        unbroken = feed_all(Engine(hierarchy, **options), batches)
    except (BetimesError, KeyError, IndexError):
        reject()  # retractions of what was put aside have their own tests
    engine = Engine(hierarchy, **options)
    changes: list[list[Change]] = []
    for batch in batches:
        if data.draw(st.booleans()):
            saved = engine.checkpoint()
            engine = Engine(hierarchy, **options)
            engine.restore(saved)
        changes.append(list(engine.feed(list(batch))))
    changes.append(list(engine.finish()))
    assert changes == unbroken


@given(
    st.sampled_from(["a !a", "a !b", "a b !a"]),
    st.booleans(),
    st.lists(
        st.builds(
            lambda type, ts, k: Event(type, 10 * ts, {"k": k}),
            st.sampled_from("ab"), st.integers(0, 25), st.sampled_from("AB"),
        ),
        min_size=3, max_size=9,
    ),
    st.fixed_dictionaries({
        "attenuation": st.sampled_from([0.0, 0.5]), "slack": st.sampled_from(["1ms", 30]),
        "late": st.sampled_from(["side", "repair"]), "snapshots": st.sampled_from([1, 3, 100]),
        "retraction": st.sampled_from(["full", "on-demand"]),
        "retention": st.sampled_from([0, 1000]),
    }),
    st.data(),
)  # fmt: skip
@share(0.5)
def test_a_restart_does_not_show_where_time_makes_results(
    text: str, general: bool, stream: list[Event], options: dict[str, Any], data: st.DataObject
) -> None:
    hierarchy = Hierarchy(clock="*")
    timeouts = "gone" if general else None
    hierarchy.add(pattern(text, by="k", within=50, emits="lost", timeouts=timeouts))
    batches = data.draw(cut(stream))
    unbroken = feed_all(Engine(hierarchy, **options), batches)
    engine, changes = Engine(hierarchy, **options), []
    for batch in batches:
        if data.draw(st.booleans()):
            saved = engine.checkpoint()
            engine = Engine(hierarchy, **options)
            engine.restore(saved)
        changes.append(list(engine.feed(list(batch))))
    assert [*changes, list(engine.finish())] == unbroken


@pytest.mark.parametrize("order", ["shared", "key"])
def test_what_was_put_aside_has_a_row_of_its_own_and_is_counted_on(order: str) -> None:
    """Late and rejected events of different keys that are otherwise equal."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on=("A", "B"), emits="x")
    options: Any = {"by": "k", "order": order, "late": "side", "max_skew": 100, "slack": 0}
    engine = Engine(hierarchy, **options)
    changes: list[Change] = []
    for name in ("A10", "A20", "A30", "A10000", "A31", "B5", "C6", "A40"):
        events = [Event(name[0], int(name[1:]), {"k": key}) for key in ("one", "two")]
        changes += engine.feed(events)
    aside = [change.match_id for change in changes if change.type in (LATE, REJECTED)]
    assert len(aside) == len(set(aside)) >= 4
    assert engine.rejected == 2
    assert engine.ignored == {"C": 2}
    other = Engine(hierarchy, **options)
    other.restore(engine.checkpoint())
    assert (other.rejected, other.ignored) == (engine.rejected, engine.ignored)


def test_a_checkpoint_leaves_the_engine_as_it_is() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on="A", emits="x", by="k")
    stream = [tick(ts ^ 5, k=ts % 3) for ts in range(100)]
    engine = Engine(hierarchy, attenuation=0.3)
    changes = []
    for event in stream:
        assert engine.checkpoint() == engine.checkpoint()
        changes += list(engine.feed(event))
    assert fold([*changes, *engine.finish()]) == oracle(hierarchy, stream)


def test_two_engines_can_go_on_from_one_checkpoint() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on="A", emits="x")
    engine = Engine(hierarchy, attenuation=0.0)
    engine.feed([tick(ts, k=0) for ts in (1, 5, 3)])
    saved = engine.checkpoint()
    rest = [[tick(ts, k=0)] for ts in (4, 9, 7, 20)]
    told = []
    for _ in range(2):
        another = Engine(hierarchy, attenuation=0.0)
        another.restore(saved)
        told.append(flat(feed_all(another, rest)))
    assert told == [flat(feed_all(engine, rest))] * 2


@pytest.mark.parametrize("garbage", [b"", b"nonsense", b"\x00" * 100])
def test_what_is_no_checkpoint_is_refused(garbage: bytes) -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on="A", emits="x")
    with pytest.raises(BetimesError, match="checkpoint"):
        Engine(hierarchy).restore(garbage)


def test_a_checkpoint_of_another_hierarchy_is_refused() -> None:
    one, another = Hierarchy(clock="A"), Hierarchy(clock="A")
    one.add(Count("x"), on="A", emits="x")
    another.add(Count("y"), on=("A", "B"), emits="y")
    with pytest.raises(BetimesError, match="different settings"):
        Engine(another).restore(Engine(one).checkpoint())


def test_an_engine_that_has_begun_takes_no_checkpoint() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on="A", emits="x")
    engine = Engine(hierarchy)
    engine.feed(tick(1, k=0))
    with pytest.raises(BetimesError, match="expected a new engine"):
        engine.restore(Engine(hierarchy).checkpoint())
