"""The strategies that users build their own tests with."""

from __future__ import annotations

from typing import Any

from hypothesis import find, given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.model.change import fold
from betimes.testing import oracle
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import Count


@given(disordered(max_delay=20, payloads=st.fixed_dictionaries({"k": st.integers(0, 2)})))
def test_a_stream_has_the_payloads_asked_for_and_bounded_delays(stream: list[Event]) -> None:
    assert all(event["k"] in (0, 1, 2) for event in stream)
    newest = 0
    for event in stream:
        newest = max(newest, event.ts)
        assert newest - event.ts <= 20


def test_disorder_occurs() -> None:
    found = find(
        disordered(), lambda stream: [e.ts for e in stream] != sorted(e.ts for e in stream)
    )
    assert len(found) == 2, "and shrinks to two events"


@given(disordered(), st.data())
def test_cutting_loses_nothing(stream: list[Event], data: st.DataObject) -> None:
    assert [event for batch in data.draw(cut(stream)) for event in batch] == stream


@given(disordered(payloads=st.just({"k": 0})), engine_options())
def test_a_users_test_of_a_hierarchy(stream: list[Event], options: dict[str, Any]) -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on=("A", "B"), emits="x")
    engine = Engine(hierarchy, **options, retention=10**9)
    assert fold([*engine.feed(stream), *engine.finish()]) == oracle(hierarchy, stream)
