"""How busy the loop is that an engine runs in."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy, Zone
from betimes.engine.load import LoadMeter, Span, Spans
from betimes.model import Event, OptionError
from betimes.model.change import Change, fold
from betimes.testing import oracle
from betimes.testing.strategies import cut, disordered
from tests.engine.machine import Machine, work


def test_feeds_without_a_pause_are_fully_busy_whatever_is_between_them() -> None:
    machine = Machine(cost=0.001)
    engine = Engine(work(machine), attenuation=0.0, time=machine.time)
    for number in range(100):
        with engine.load:
            machine.now += 0.002
            engine.feed([Event("A", ts) for ts in range(8 * number, 8 * number + 8)])
    assert engine.busy_factor == 1.0
    assert 0.7 < engine.stats["works"].busy_share < 0.9, "the rest is source and sink"


def test_a_pause_is_not_busy() -> None:
    machine = Machine(cost=0.001)
    engine = Engine(work(machine), attenuation=0.0, time=machine.time)
    for number in range(100):
        machine.now += 0.006
        engine.feed([Event("A", ts) for ts in range(4 * number, 4 * number + 4)])
    assert engine.busy_factor == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(("gap", "busy"), [(20e-6, 1.0), (1e-3, 0.0)])
def test_events_that_only_wait_are_calls_between_which_there_may_be_no_pause(
    gap: float, busy: float
) -> None:
    """One in a hundred moves the clock; the others are gathered, without a look at the time."""
    machine = Machine(cost=0.0)
    hierarchy = Hierarchy(clock="C")
    hierarchy.add(lambda _: None, on="B", emits="none", name="nothing")
    engine = Engine(hierarchy, attenuation=1.0, min_slack=50, time=machine.time)
    measured = 0
    for ts in range(100_000 if busy else 5_000):
        machine.now += gap
        engine.feed(Event("B" if ts % 100 else "C", ts))
        measured += engine.load.passed == 0
    assert measured < ts / 20
    assert engine.busy_factor == busy


def test_engines_that_take_turns_see_the_load_of_all() -> None:
    machine = Machine(cost=0.001)
    meter = LoadMeter(machine.time)
    engines = [Engine(work(machine), time=machine.time, load=meter) for _ in range(4)]
    for ts in range(2_000):
        engines[ts % 4].feed(Event("A", ts))
    for engine in engines:
        assert engine.busy_factor == 1.0
        assert engine.stats["works"].busy_share == pytest.approx(0.25, abs=0.02)
        assert engine.attenuation["works"] == 1.0


def test_keys_with_their_own_order_see_the_load_of_all() -> None:
    machine = Machine(cost=0.001)
    engine = Engine(work(machine), by="key", order="key", time=machine.time)
    for ts in range(0, 2_000, 20):
        engine.feed([Event("A", ts, {"key": key}) for key in range(20)])
    assert {stats.busy_factor for stats in engine.stats.values()} == {1.0}
    assert engine.attenuation["works"] == 1.0


def test_work_is_told_from_waiting_by_what_the_thread_computes() -> None:
    """Of each second between two feeds, it computes 0.7; if it never waits, others had the rest."""
    machine = Machine(cost=0.5)
    waits = 0
    meter = LoadMeter(machine.time, effort=lambda: (0.7 * round(machine.now / 1.5), waits))
    engine = Engine(work(machine), attenuation=0.0, time=machine.time, load=meter)
    for ts in range(20):
        machine.now += 1.0
        waits += 1
        engine.feed(Event("A", ts))
    assert engine.busy_factor == pytest.approx(0.8)
    for ts in range(20, 40):
        machine.now += 1.0
        engine.feed(Event("A", ts))
    assert engine.busy_factor == 1.0


def test_a_call_that_fails_ends_the_work() -> None:
    machine = Machine(cost=0.0)
    engine = Engine(work(machine), time=machine.time)
    with pytest.raises(ValueError, match="expected"):
        engine.feed(Event("A", -1))
    machine.now += 1.0
    engine.feed(Event("A", 1))
    assert engine.busy_factor == 0.0


def test_a_real_engine_that_is_fed_flat_out_reads_that_it_is_saturated() -> None:
    """Against a real clock, with the work of a source and a sink between the feeds."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(
        lambda event: Event("b", event.ts) if event.ts % 7 == 0 else None,
        on="A", emits="b", name="sevenths",
    )  # fmt: skip
    engine = Engine(hierarchy, zone=Zone(span=0.2))
    written: list[str] = []
    ts = 0
    seen: list[Span] = []
    while len(seen) < 3:
        changes = engine.feed([Event("A", ts + i) for i in range(200)])
        ts += 200
        written += [str(change) for change in changes]
        span = engine._spans.last
        if not seen or span is not seen[-1]:
            seen.append(span)
    assert engine.busy_factor >= 0.95
    assert engine.attenuation["sevenths"] == 1.0


def test_the_busy_factor_is_a_share_of_the_span() -> None:
    """Also if a batch takes longer than a span."""
    machine = Machine(cost=1.0)
    engine = Engine(work(machine), attenuation=0.0, time=machine.time)
    engine.feed([Event("A", ts) for ts in range(4)])
    assert 0.9 <= engine.stats["works"].busy_factor <= 1.0


def test_an_overload_that_begins_within_a_span_is_known_a_span_later() -> None:
    """Whenever it begins: 0.1 s of work per feed, first once per second, then without a pause."""
    for calm in (10.0, 10.2, 10.4):
        machine = Machine(cost=0.1)
        engine = Engine(work(machine), time=machine.time, zone=Zone(span=0.5))
        ts = 0
        while machine.now < calm:
            machine.now += 0.9
            engine.feed(Event("A", ts := ts + 1))
        assert engine.attenuation["works"] < 1.0
        machine.now += 0.15
        began = machine.now
        while engine.attenuation["works"] < 1.0:
            engine.feed(Event("A", ts := ts + 1))
        assert machine.now - began <= 0.5 + 0.1
        calm = machine.now
        while machine.now < calm + 5.0:
            engine.feed(Event("A", ts := ts + 1))
            assert engine.attenuation["works"] == 1.0


def test_a_batch_that_takes_longer_than_a_span_is_no_overload() -> None:
    machine = Machine(cost=0.6)
    engine = Engine(work(machine), time=machine.time, zone=Zone(span=0.5))
    for ts in range(20):
        machine.now += 10.0
        engine.feed(Event("A", ts))
        assert engine.busy_factor < 0.1
    assert engine.attenuation["works"] < 0.5


def test_a_clock_that_stands_still_ends_no_span() -> None:
    now = 0.0
    spans = Spans(LoadMeter(lambda: now))
    now = 2.0
    assert spans.next(1.0) is not None
    assert spans.next(1.0) is None  # a division by zero, if it were one


def test_a_clock_that_is_set_back_does_not_stop_the_control_loop() -> None:
    """An hour back, with too much to do from then on: it is known within two spans, not hours."""
    machine = Machine(cost=0.01)
    engine = Engine(work(machine), time=machine.time)
    for ts in range(100):
        machine.now += 0.1
        engine.feed(Event("A", ts))
    assert engine.attenuation["works"] < 1.0
    machine.now -= 3600.0
    back = machine.now
    while engine.attenuation["works"] < 1.0:
        engine.feed(Event("A", ts := ts + 1))
    assert machine.now - back <= 2 * Zone().span
    assert engine.busy_factor > Zone().high
    assert engine.stats["works"].busy > 0


def test_a_clock_that_is_set_forward_is_a_pause_and_no_load() -> None:
    machine = Machine(cost=0.01)
    engine = Engine(work(machine), time=machine.time)
    for ts in range(100):
        machine.now += 3600.0 if ts == 50 else 0.1
        engine.feed(Event("A", ts))
        assert engine.busy_factor < 0.2
    assert engine.attenuation["works"] < 0.1


def test_a_shared_meter_with_a_simulated_clock_asks_no_thread() -> None:
    """What this thread really computes says nothing about the time of a simulated machine."""
    machine = Machine(cost=0.001)
    meter = LoadMeter(machine.time)
    engines = [Engine(work(machine), load=meter) for _ in range(2)]
    for ts in range(1_000):
        machine.now += 0.003
        engines[ts % 2].feed(Event("A", ts))
    assert [engine.busy_factor for engine in engines] == pytest.approx([0.25, 0.25], abs=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": 5}, "expected a clock, a function that returns seconds, got time=5"),
        ({"load": 0.8}, "expected load to be a LoadMeter, got load=0.8"),
        ({"load": LoadMeter(), "time": time.monotonic}, "expected one clock, got time="),
    ],
)
def test_a_meter_or_a_clock_that_makes_no_sense_is_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        Engine(work(Machine()), **options)


def test_the_clock_may_come_with_the_meter_and_again_with_the_engine() -> None:
    machine = Machine()
    meter = LoadMeter(machine.time)
    assert Engine(work(machine), time=machine.time, load=meter).load is meter


JUMPS = st.sampled_from([-1e9, -3600.0, -1e-3, 0.0, 1e-6, 0.01, 0.6, 3600.0, 1e9])


@given(disordered(types=("A", "B"), max_events=60), st.data())
def test_whatever_a_clock_says_the_result_is_that_of_ordered_input(
    events: list[Event], data: st.DataObject
) -> None:
    """Two engines share a meter; its clock jumps, also inside of what is declared as work."""
    machine = Machine(cost=0.001)
    meter = LoadMeter(machine.time)
    engines = [Engine(work(machine), load=meter) for _ in range(2)]
    changes: list[list[Change]] = [[], []]
    for batch in data.draw(cut(events)):
        for engine, found in zip(engines, changes, strict=True):
            machine.now += data.draw(JUMPS)
            with meter if data.draw(st.booleans()) else nullcontext():
                machine.now += data.draw(JUMPS)
                found += engine.feed(list(batch))
            assert 0.0 <= engine.busy_factor <= 1.0
            assert engine.stats["works"].busy >= 0.0
            assert 0.0 <= engine.attenuation["works"] <= 1.0
    for engine, found in zip(engines, changes, strict=True):
        found += engine.finish()
        assert fold(found) == oracle(work(Machine()), events)
