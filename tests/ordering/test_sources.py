"""One clock per source: the clock of the fastest, the bound of the slowest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import TICK, Event, EventBatch, EventError
from betimes.ordering import NEVER, Ordered, OrderingUnit
from betimes.testing.strategies import cut, disordered
from tests.engine.material import share
from tests.ordering.test_reference import policies

SOURCES = "xyz"


@st.composite
def sourced(draw: st.DrawFn, *, names: str = SOURCES) -> list[Event]:
    """Events of several sources, each in its own disorder, in blocks or mixed."""
    left = [draw(disordered(types=("A", "B"), max_events=25)) for _ in names]
    offsets = [draw(st.integers(0, 200)) for _ in names]
    stream = []
    while any(left):
        source = draw(st.sampled_from([n for n, events in enumerate(left) if events]))
        count = draw(st.sampled_from([1, 1, 2, 100]))
        stream += [
            Event(event.type, event.ts + offsets[source], {"p": names[source]})
            for event in left[source][:count]
        ]
        left[source] = left[source][count:]
    return stream


def facts(answers: list[Ordered]) -> list[Any]:
    """What happened, arrival by arrival, however the stream was cut."""
    clock = np.concatenate([a.clock for a in answers]).tolist()
    slack = np.concatenate([a.slack for a in answers]).tolist()
    settled = sorted(
        (row, at) for a in answers for row, at in zip(a.settled.rows, a.settled.at, strict=True)
    )
    late = [row for a in answers for row in a.late.tolist()]
    rejected = [(e.type, e.ts) for a in answers for e in a.rejected]
    return [clock, slack, settled, late, rejected]


@share(0.8)
@given(
    st.data(), sourced(), policies(), st.sampled_from(["A", "*", None]),
    st.sampled_from([1.0, 0.3, 0.0]), st.sampled_from([20, 150, None]),
    st.sampled_from([40, None]),
)  # fmt: skip
def test_neither_cuts_nor_restarts_show(
    data: st.DataObject,
    stream: list[Event],
    slack: dict[str, Any],
    clock: str | None,
    attenuation: float,
    quiet: int | None,
    max_skew: int | None,
) -> None:
    def unit() -> OrderingUnit:
        return OrderingUnit(
            clock=clock, source="p", quiet=quiet, attenuation=attenuation, max_skew=max_skew,
            **slack,
        )  # fmt: skip

    whole, parts = unit(), unit()
    singly = [whole.feed(event) for event in stream]
    cuts = []
    for part in data.draw(cut(stream)):
        cuts.append(parts.feed(part))
        if data.draw(st.booleans()):
            kept = parts.state_of()
            parts = unit()
            parts.resume(kept)
    if stream:
        assert facts(cuts) == facts(singly)
        assert parts.stats.sources == whole.stats.sources
        assert parts.stats.waits_for == whole.stats.waits_for
        assert parts.stats.delays == whole.stats.delays
        assert [e.ts for e in parts.buffer] == [e.ts for e in whole.buffer]


@share(0.5)
@given(st.data(), sourced(names="x"), policies(), st.sampled_from([1.0, 0.3, 0.0]))
def test_a_single_source_is_like_none(
    data: st.DataObject, stream: list[Event], slack: dict[str, Any], attenuation: float
) -> None:
    one = OrderingUnit(clock="*", source="p", attenuation=attenuation, max_skew=100, **slack)
    none = OrderingUnit(clock="*", attenuation=attenuation, max_skew=100, **slack)
    parts = data.draw(cut(stream))
    if stream:
        assert facts([one.feed(part) for part in parts]) == facts([none.feed(p) for p in parts])
    assert one.stats.largest_delay == none.stats.largest_delay
    assert one.stats.delays == none.stats.delays


@share(0.5)
@given(st.data(), sourced(), st.sampled_from(["A", "*"]))
def test_delays_by_type_are_those_of_the_sources_alone(
    data: st.DataObject, stream: list[Event], clock: str
) -> None:
    # With the first event of each source being a clock event, its clock is what leads it.
    stream = [Event("A", 0, {"p": name}) for name in SOURCES] + stream
    unit = OrderingUnit(clock=clock, source="p", max_skew=None, quiet=None)
    for part in data.draw(cut(stream)):
        unit.feed(part)
    expected: dict[str, int] = {}
    for name in SOURCES:
        alone = OrderingUnit(clock=clock, max_skew=None)
        alone.feed([event for event in stream if event["p"] == name])
        for type, delay in alone.stats.delays.items():
            expected[type] = max(expected.get(type, 0), delay)
    assert unit.stats.delays == expected


@share(0.5)
@given(sourced(), st.integers(0, 50), st.sampled_from([30, 2**62]))
def test_the_bound_is_that_of_the_slowest_source_that_was_heard(
    stream: list[Event], slack: int, quiet: int
) -> None:
    unit = OrderingUnit(clock="*", source="p", slack=slack, quiet=quiet, max_skew=None)
    clocks: dict[str, int] = {}
    heard: dict[str, int] = {}
    for event in stream:
        source = event["p"]
        answer = unit.feed(event)
        clocks[source] = max(event.ts, clocks.get(source, 0))
        fastest = heard[source] = max(clocks.values())
        count = [clock for s, clock in clocks.items() if fastest - heard[s] <= quiet]
        assert answer.clock.tolist() == [fastest]
        # Only an update looks for sources that have gone quiet.
        if clocks[source] == event.ts:
            assert fastest - answer.slack.tolist()[0] == min(count) - slack


@share(0.5)
@given(st.data(), sourced(), st.sampled_from([1.0, 0.3]))
def test_nothing_is_late_if_blocks_are_announced(
    data: st.DataObject, stream: list[Event], attenuation: float
) -> None:
    """Delays within a source are below 60, and all sources come in the first batch."""
    unit = OrderingUnit(clock="*", source="p", slack=60, quiet=None, attenuation=attenuation)
    first = [Event("A", 0, {"p": name}) for name in SOURCES]
    for part in ([*first, *stream[:5]], *data.draw(cut(stream[5:]))):
        assert not len(unit.feed(part, blocks=True).late)
    assert not len(unit.finish().late)


def ab(*events: tuple[str, int]) -> list[Event]:
    return [Event("A", ts, {"p": source}) for source, ts in events]


def settled_by(unit: OrderingUnit, *events: tuple[str, int]) -> list[int]:
    return [e.ts for event in ab(*events) for e in unit.feed(event).settled.events]


def test_a_source_that_has_gone_quiet_stops_counting_and_comes_back() -> None:
    unit = OrderingUnit(clock="A", source="p", slack=0, quiet=10)
    assert settled_by(unit, ("x", 0), ("y", 0), ("x", 5), ("x", 10)) == [0, 0]
    assert unit.stats.waits_for == "y"
    assert settled_by(unit, ("x", 11)) == [5, 10, 11]
    assert unit.stats.sources["y"].standing == "quiet"
    assert settled_by(unit, ("y", 12), ("x", 20)) == [12]
    assert unit.stats.sources["y"].standing == "living"


def test_a_source_that_is_behind_but_speaks_is_not_quiet() -> None:
    unit = OrderingUnit(clock="A", source="p", slack=0, quiet=100)
    assert settled_by(unit, ("y", 0), ("x", 0)) == [0, 0]
    for ts in range(1, 100):
        assert settled_by(unit, ("x", 100 * ts), ("y", ts)) == [ts]
    assert unit.stats.late == 0


def test_a_new_source_takes_nothing_back() -> None:
    unit = OrderingUnit(clock="A", source="p", slack=0)
    assert settled_by(unit, ("x", 50), ("x", 100)) == [50, 100]
    unit.feed(ab(("y", 10), ("y", 120)))
    assert (unit.stats.clock, unit.stats.late) == (120, 1)
    assert unit.stats.waits_for == "x"


def test_each_source_learns_its_own_slack() -> None:
    unit = OrderingUnit(clock="*", source="p")
    unit.feed(ab(("x", 0), ("y", 0), ("x", 50), ("x", 20), ("y", 55), ("x", 60)))
    slack = {name: source.slack for name, source in unit.stats.sources.items()}
    assert slack == {"x": 40, "y": 0}


def test_time_passes_for_every_source() -> None:
    unit = OrderingUnit(clock="A", source="p", slack=0, quiet=1000)
    unit.feed(ab(("x", 100), ("y", 50)))
    tick = EventBatch(np.array([130]), np.zeros(1, np.int32), (TICK,), source=np.zeros(1, np.int64))
    answer = unit.feed(tick)
    assert answer.clock.tolist() == [130]
    assert {name: s.clock for name, s in unit.stats.sources.items()} == {"x": 130, "y": 80}


def test_a_jump_is_judged_by_its_own_source() -> None:
    """Sound events of other sources do not reject it, and three of its own confirm it."""
    unit = OrderingUnit(clock="A", source="p", slack=0, max_skew=100)
    unit.feed(ab(("x", 0), ("y", 0), ("x", 10)))
    answers = [unit.feed(e) for e in ab(("y", 500), ("x", 20), ("y", 501), ("x", 30), ("y", 502))]
    assert unit.stats.clock == 502
    assert not any(len(answer.rejected) for answer in answers)
    unit.feed(ab(("x", 900)))
    assert [e.ts for e in unit.feed(ab(("x", 520))).rejected] == [900]


@pytest.mark.parametrize("cuts", [1, 12])
@pytest.mark.parametrize("attenuation", [1.0, 0.0])
def test_a_suspect_that_another_source_has_confirmed_is_not_rejected(
    cuts: int, attenuation: float
) -> None:
    """It has settled when another source has got that far; it cannot be rejected as well."""
    stream = ab(
        ("x", 0), ("x", 0), ("y", 41), ("y", 41), ("z", 41), ("z", 41), ("z", 41), ("y", 41)
    )
    unit = OrderingUnit(
        clock="A", source="p", max_skew=40, quiet=20, slack=0, attenuation=attenuation
    )
    size = len(stream) // min(cuts, len(stream))
    for low in range(0, len(stream), size):
        unit.feed(stream[low : low + size])
    unit.finish()
    assert (unit.stats.settled, unit.stats.rejected) == (len(stream), 0)


def test_a_suspect_that_time_has_passed_is_not_rejected() -> None:
    stream = [Event("A", 0), Event("A", 1), Event("A", 99), Event(TICK, 100), Event("A", 101)]
    for size in (1, len(stream)):
        unit = OrderingUnit(clock="A", max_skew=40, slack=0)
        for low in range(0, len(stream), size):
            unit.feed(EventBatch.from_rows(stream[low : low + size]))
        unit.finish()
        assert (unit.stats.settled, unit.stats.rejected) == (4, 0)


def test_events_must_have_a_source() -> None:
    unit = OrderingUnit(source="p")
    with pytest.raises(EventError, match=r"the ordering unit has source='p', but .* has no 'p'"):
        unit.feed(Event("A", 1, {"q": 1}))
    with pytest.raises(EventError, match="it is missing: every event must say"):
        unit.feed([Event("A", 1, {"p": 1}), Event("A", 2, {"p": None})])
    assert unit.feed([]).clock.tolist() == []
    assert unit.stats.clock is None
    assert NEVER not in unit.feed(Event("A", 1, {"p": 1})).clock


def passing(first: int, count: int) -> list[Event]:
    """One source that stays, and for each of its events one that is heard only once."""
    return [
        Event("A", 10 * n, {"p": name})
        for n in range(first, first + count)
        for name in ("stays", f"passes {n}")
    ]


@pytest.mark.parametrize(
    ("clock", "most"),
    [("*", 64), (None, 4_096)],  # what the clock is learned from is kept until it was learned
)
def test_sources_that_come_and_go_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, clock: str | None, most: int
) -> None:
    monkeypatch.setattr("betimes.ordering.sources.KEPT", 8)
    unit = OrderingUnit(clock=clock, source="p", quiet=50, slack=100)
    for first in range(0, 9_000, 20):
        unit.feed(passing(first, 20))
    assert unit.clocks is not None
    assert len(unit.stats.sources) <= len(unit.clocks.rows) <= most
    assert len(unit.stats.sources) + unit.stats.sources_forgotten == 9_001
    assert unit.stats.sources["stays"].standing == "living"


def test_a_forgotten_source_comes_back_as_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("betimes.ordering.sources.KEPT", 4)
    unit = OrderingUnit(clock="*", source="p", quiet=50)
    unit.feed([Event("A", ts, {"p": "late"}) for ts in (30, 0, 31)])
    assert unit.stats.sources["late"].slack == 31
    for first in range(1, 200):
        unit.feed(passing(first, 1))
    assert "late" not in unit.stats.sources
    kept = unit.state_of()
    other = OrderingUnit(clock="*", source="p", quiet=50)
    other.resume(kept)
    for each in (unit, other):
        each.feed([Event("A", 1_990, {"p": "late"})])
        assert each.stats.sources["late"] == (1_990, 0, "living")
    assert unit.stats == other.stats


def test_a_source_that_was_heard_lately_keeps_what_it_has_learned() -> None:
    unit = OrderingUnit(clock="*", source="p", quiet=50)
    unit.feed([Event("A", ts, {"p": "late"}) for ts in (30, 0, 31)])
    unit.feed([Event("A", 10**9 + n, {"p": n}) for n in range(1_000)])
    unit.feed([Event("A", 10**9 + 2_000, {"p": "late"})])
    assert unit.stats.sources["late"].slack == 31
