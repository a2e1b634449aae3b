"""Contract 3 for one engine: a run that was interrupted tells what an unbroken run tells."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import BetimesError, Event
from betimes.model.change import Change, fold
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
    with pytest.raises(BetimesError, match="another hierarchy"):
        Engine(another).restore(Engine(one).checkpoint())


def test_an_engine_that_has_begun_takes_no_checkpoint() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on="A", emits="x")
    engine = Engine(hierarchy)
    engine.feed(tick(1, k=0))
    with pytest.raises(BetimesError, match="expected a new engine"):
        engine.restore(Engine(hierarchy).checkpoint())
