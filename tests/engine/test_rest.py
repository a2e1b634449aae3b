"""A stage at which only the clock moves puts clock events aside, and nobody can tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.stages.observers import Observer
from betimes.model import Event, EventError
from betimes.ordering import OrderingUnit
from betimes.patterns import pattern
from betimes.testing.strategies import cut, engine_options
from tests.engine.material import Count, hierarchies, share, streams, tick


def standing_still() -> float:
    """A wall clock with which nothing depends on how long things take."""
    return 0.0


def pair(hierarchy: Hierarchy, options: dict[str, Any]) -> tuple[Engine, Engine]:
    """An engine that may rest, and one that never does, because somebody watches it."""
    return (
        Engine(hierarchy, time=standing_still, **options),
        Engine(hierarchy, time=standing_still, observers=[Observer()], **options),
    )


def readings(engine: Engine) -> dict[Any, Any]:
    return {name: msgspec.structs.astuple(stats) for name, stats in engine.stats.items()}


@given(hierarchies(max_levels=3), streams(), engine_options(), st.data())
@share(0.2)
def test_rest_does_not_show(
    hierarchy: Hierarchy, stream: list[Event], options: dict[str, Any], data: st.DataObject
) -> None:
    resting, watched = pair(hierarchy, options)
    for batch in data.draw(cut(stream)):
        assert list(resting.feed(batch)) == list(watched.feed(batch))
        if data.draw(st.integers(0, 7)) == 0:
            assert readings(resting) == readings(watched)
    assert resting.sure_clock == watched.sure_clock
    assert list(resting.finish()) == list(watched.finish())
    assert readings(resting) == readings(watched)


@given(streams(), st.sampled_from([0.0, 0.3, 1.0]), st.data())
@share(0.1)
def test_nor_does_what_happens_during_it(
    stream: list[Event], attenuation: float, data: st.DataObject
) -> None:
    """Time is told to pass, the attenuation changes, an engine is restored from a checkpoint."""
    options = {"attenuation": attenuation, "min_slack": 3}
    resting, watched = pair(rarely(), options)
    for event in stream:
        assert list(resting.feed(event)) == list(watched.feed(event))
        match data.draw(st.integers(0, 15)):
            case 0:
                assert list(resting.advance(5)) == list(watched.advance(5))
            case 1:
                value = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
                resting.set_attenuation(value)
                watched.set_attenuation(value)
            case 2:
                kept = resting.checkpoint(), watched.checkpoint()
                resting, watched = pair(rarely(), options)
                resting.restore(kept[0])
                watched.restore(kept[1])
    assert list(resting.finish()) == list(watched.finish())


HELD: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"slack": "largest", "min_slack": 9}, {"slack": 15}]
)
KEPT: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"retention": 2}, {"retention": 0, "late": "side"}, {"late": "drop"}, {"max_skew": 5}]
)


@given(hierarchies(max_levels=2), streams(), engine_options(), KEPT, st.data())
@share(0.2)
def test_that_events_were_gathered_does_not_show(
    hierarchy: Hierarchy,
    stream: list[Event],
    options: dict[str, Any],
    kept: dict[str, Any],
    data: st.DataObject,
) -> None:
    """They come one by one, and are held back for a while."""
    gathering, watched = pair(hierarchy, options | kept | data.draw(HELD))
    for event in stream:
        assert list(gathering.feed(event)) == list(watched.feed(event))
        if data.draw(st.integers(0, 15)) == 0:
            assert readings(gathering) == readings(watched)
    assert list(gathering.finish()) == list(watched.finish())
    assert readings(gathering) == readings(watched)


def test_events_that_only_wait_are_taken_in_with_the_one_that_ends_the_wait(
    fed: list[int],
) -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("found", every=1), on=("A", "B"), emits="found", name="count", by="k")
    engine = Engine(hierarchy, attenuation=1.0, slack=10)
    for ts in (0, 100):
        engine.feed(tick(ts, k=0))
    fed.clear()
    for ts in range(101, 109):
        assert not engine.feed(Event("B", ts - 2, {"k": ts % 2}))
        assert not engine.feed([tick(ts, k=0)])
    assert not fed
    with pytest.raises(EventError, match="has no 'k'"):
        engine.feed(Event("B", 107, {}))
    assert [change.ts for change in engine.feed(tick(110, k=0))] == [99, 100, 100]
    assert fed == [17]


def test_what_was_gathered_counts_in_the_budget_of_memory() -> None:
    """What is forgotten, and when, does not depend on who takes events in together."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("found", every=2), on=("A", "B"), emits="found", name="count")
    options = {"attenuation": 1.0, "slack": "2s", "retention": "40 kB", "snapshots": 5}
    gathering, watched = pair(hierarchy, options)
    for number in range(400):
        event = Event("AB"[number % 3 > 0], 300_000 * number, {"k": 0, "v": number})
        assert list(gathering.feed(event)) == list(watched.feed(event))
        if number % 50 == 49:
            assert readings(gathering) == readings(watched)


def rarely() -> Hierarchy:
    """The upper stage hears of every fourth event, and otherwise only of the clock."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("fourth", every=4), on="A", emits="fourth", name="below")
    hierarchy.add(Count("found", every=2), on="fourth", emits="found", name="above")
    return hierarchy


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events units get, call by call."""
    sizes: list[int] = []
    order = OrderingUnit.order

    def counting(unit: OrderingUnit, events: Any, **options: Any) -> Any:
        sizes.append(len(events))
        return order(unit, events, **options)

    monkeypatch.setattr(OrderingUnit, "order", counting)
    return sizes


def test_of_what_came_during_a_rest_the_unit_gets_what_moves_its_clock(fed: list[int]) -> None:
    """The first shows the delays of what came before; the last says how far the clock is."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("found", every=1), on="B", emits="found", name="count")
    engine = Engine(hierarchy, attenuation=0.0)
    for ts in (0, 1, 0, 2, 5, 3, 9, 8):
        engine.feed(tick(ts, k=0))
    assert fed == [1, 1]
    assert engine.stats["count"].clock == 9
    assert fed == [1, 1, 1, 1]
    engine.feed(tick(4, k=0))
    assert engine.stats["count"].clock == 9
    assert fed == [1, 1, 1, 1]


def test_an_event_that_fits_no_step_of_a_pattern_is_no_clock_event() -> None:
    """The unit holds it back like any other of its type, so it is not put aside."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(
        pattern("A B", emits="m", by="k", within=20, define={"A": "type == 'A' and v < 2"})
    )
    resting, watched = pair(hierarchy, {"attenuation": 1.0})
    for v in (0, 0, 0, 2):
        for engine in (resting, watched):
            engine.feed(tick(0, k=0, v=v))
        assert readings(resting) == readings(watched)
