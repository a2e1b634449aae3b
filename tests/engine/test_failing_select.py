"""A `select` that fails: counted and skipped as any failure, by the compiled matcher, too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event, EventBatch, StreamEndedError
from betimes.model.change import Change, fold
from betimes.model.detector import DetectorError
from betimes.patterns import pattern

FOREVER = "1000d"
SELECT = {"v": "A.v + B.v"}
"""Fails for a text."""
TYPES = ("A", "B", "C")


def hierarchy(text: str, *, compiled: bool = True, **options: Any) -> Hierarchy:
    """The pattern, or the general matcher as a detector like any other."""
    found = pattern(text, emits="m", select=SELECT, by="k", on=TYPES, **options)
    assert found.why_general() is None
    made = Hierarchy(clock="*")
    made.add(found if compiled else found.make, on=TYPES, emits="m", by="k", name="m")
    return made


def event(type: str, ts: int, v: Any, k: int = 0) -> Event:
    return Event(type, ts, {"v": v, "k": k, "w": ts % 3})


def run(engine: Engine, stream: list[Event], size: int, *, restart: bool = False) -> list[Change]:
    changes: list[Change] = []
    for at in range(0, len(stream), size):
        changes += engine.feed(stream[at : at + size])
        if restart:
            again = Engine(engine.hierarchy, engine.options)
            again.restore(engine.checkpoint())
            engine = again
    return [*changes, *engine.finish()]


def test_the_event_at_which_it_fails_is_left_out_and_counted() -> None:
    stream = [event("A", 1, 1), event("B", 2, "x"), event("B", 3, 2), event("A", 9, 1)]
    for compiled in (True, False):
        for size in (1, 2, 4):
            engine = Engine(hierarchy("A B", compiled=compiled), attenuation=0.0, errors="skip")
            changes = run(engine, stream, size)
            assert [key[1:] for key in fold(changes)] == [(3, '{"v":3}')]
            assert engine.stats["m"].errors == 1


def test_what_fails_only_because_of_an_event_that_is_left_out_is_not_left_out() -> None:
    stream = [event("A", 0, 1), event("A", 1, "x"), event("B", 2, 1), event("B", 0, "x")]
    for compiled in (True, False):
        engine = Engine(hierarchy("A B", compiled=compiled), attenuation=0.0, errors="skip")
        assert [key[1:] for key in fold(run(engine, stream, 1))] == [(2, '{"v":2}')]
        assert engine.stats["m"].errors == 1


def test_with_columns_of_arrow() -> None:
    rows = [event("A", 1, 1), event("B", 2, None), event("B", 3, 2)]
    table = EventBatch.from_rows(rows).to_arrow().drop_columns(["v"])
    engine = Engine(hierarchy("A B"), errors="skip")
    assert not [*engine.feed(table), *engine.finish()]
    assert engine.stats["m"].errors == 2
    assert isinstance(table, pa.Table)


def _one_of_each(event: Event) -> list[Event]:
    return [Event("A", event.ts, {"v": 1}), *[Event("B", event.ts, {"v": "x"})] * 2]


@pytest.mark.parametrize("compiled", [True, False])
def test_events_of_one_time_that_another_detector_made_fail_one_by_one(compiled: bool) -> None:
    made = Hierarchy(clock="*")
    made.add(_one_of_each, on="C", emits=("A", "B"))
    above = pattern("A B", emits="m", select=SELECT, on=("A", "B"))
    made.add(above if compiled else above.make, on=("A", "B"), emits="m", name="m")
    engine = Engine(made, errors="skip")
    run(engine, [Event("C", 5)], 1)
    assert engine.stats["m"].errors == 2


def test_a_late_event_may_repair_it() -> None:
    engine = Engine(hierarchy("A B"), attenuation=0.0, slack=100)
    assert not [*engine.feed([event("A", 10, 1), event("B", 20, "x")])]
    (found,) = engine.feed(event("B", 15, 2))
    assert (found.ts, found.payload) == (15, {"v": 3})
    engine.finish()
    assert engine.stats["m"].errors == 0


def test_it_stops_the_engine_once_nothing_can_repair_it() -> None:
    engine = Engine(hierarchy("A B"), attenuation=0.0, slack=10, retention=15)
    engine.feed([event("A", 10, "x"), event("B", 20, 1)])
    engine.feed(event("A", 40, 1))
    with pytest.raises(DetectorError, match="detector 'm' failed: "):
        engine.feed(event("A", 50, 1))
    with pytest.raises(StreamEndedError, match="stopped at an error"):
        engine.feed(event("A", 51, 1))


def test_a_condition_that_fails_stops_the_engine() -> None:
    made = Hierarchy(clock="*")
    made.add(pattern("A B", define={"A": "type == 'A' and v > 3", "B": "type == 'B'"}, emits="m"))
    engine = Engine(made)
    with pytest.raises(DetectorError, match="detector 'm' failed"):
        engine.feed([event("A", 1, "x")])
    with pytest.raises(StreamEndedError, match="stopped at an error"):
        engine.feed(event("A", 2, 5))


values = st.sampled_from([1, 2, 3, "x"])
events = st.builds(event, st.sampled_from("ABC"), st.integers(0, 30), values, st.integers(0, 1))


@given(
    st.lists(events, max_size=14),
    st.sampled_from(["A B", "A !C B", "A-B", "A C B"]),
    st.sampled_from([{}, {"within": 8}, {"within": 8, "where": "A.w != B.w"}]),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.integers(1, 5),
    st.booleans(),
)
def test_both_matchers_leave_out_the_same_events(
    stream: list[Event], text: str, options: dict[str, Any], attenuation: float, size: int,
    restart: bool,
) -> None:  # fmt: skip
    found = []
    for compiled in (True, False):
        made = hierarchy(text, compiled=compiled, **options)
        engine = Engine(made, attenuation=attenuation, errors="skip", retention=FOREVER)
        changes = run(engine, stream, size, restart=restart and compiled)
        found.append((fold(changes), None if restart else engine.stats["m"].errors))
    assert found[0] == found[1]
