"""What is known at the start, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.calibration import calibrate
from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.ordering import OrderingUnit
from betimes.ordering.clock import FIRST_CHOICE
from betimes.ordering.start import Start
from betimes.testing import sensor_stream


def ticks(*times: int) -> list[Event]:
    return [Event("A", ts) for ts in times]


def slacks(unit: OrderingUnit, *times: int) -> list[int]:
    """The slack after each clock event."""
    return [(unit.feed(Event("A", ts)), unit.stats.slack)[1] for ts in times]


def test_the_first_event_is_held_back() -> None:
    unit = OrderingUnit(clock="A", start=Start(30))
    assert unit.stats.slack == 30
    released = [[e.ts for e in unit.feed(Event("A", ts)).released.events] for ts in (0, 20, 40, 70)]
    assert released == [[], [], [0], [20, 40]]


def test_the_largest_delay_stays_and_may_grow() -> None:
    unit = OrderingUnit(clock="A", start=Start(30))
    assert slacks(unit, 0, 100, 1_000_000) == [30, 30, 30]
    unit.feed(Event("B", 999_900))
    assert slacks(unit, 1_000_001) == [101]


def test_a_decaying_slack_begins_there_and_fades() -> None:
    unit = OrderingUnit(clock="A", slack="decaying", decay=100, start=Start(80))
    assert slacks(unit, 0, 100, 200) == [80, 40, 20]


def test_a_quantile_holds_on_for_a_window() -> None:
    unit = OrderingUnit(clock="A", slack="quantile", max_late=0.01, start=Start(80))
    found = slacks(unit, *range(600))
    assert found[:499] == [80] * 499
    assert found[-1] == 0


@pytest.mark.parametrize(
    ("options", "slack"),
    [
        ({"min_slack": 50}, 50),
        ({"max_slack": 20}, 20),
        ({"slack": 10}, 10),
        ({"margin": 2.0}, 30),
    ],
)
def test_limits_hold_from_the_start(options: dict[str, Any], slack: int) -> None:
    unit = OrderingUnit(clock="A", start=Start(30), **options)
    assert [unit.stats.slack, *slacks(unit, 0, 5)] == [slack] * 3


def test_a_clock_type_that_was_chosen_before() -> None:
    stream = sensor_stream(2 * FIRST_CHOICE, seed=1)
    unit = OrderingUnit(start=Start(40_000, clock="ball"))
    unit.feed(stream.part(0, 10))
    assert unit.stats.clock_types == ("ball",)
    assert "calibrated" in unit.stats.clock_reason
    unit.feed(stream.part(10, len(stream)))
    assert unit.stats.clock_types == ("ball",)
    assert unit.stats.slack >= 40_000


def test_a_choice_is_given_up_if_it_was_wrong() -> None:
    """The slack is learned anew then, from the start on."""
    unit = OrderingUnit(start=Start(1_000_000, clock="hit"))
    unit.feed(sensor_stream(2 * FIRST_CHOICE, seed=1))
    assert unit.stats.clock_types == ("ball",)
    assert unit.stats.slack >= 1_000_000


def test_offsets_that_were_measured_before() -> None:
    unit = OrderingUnit(clock=("A", "B"), start=Start(0, None, {"B": 50}))
    unit.feed([Event("A", 100), Event("B", 70)])
    assert unit.stats.clock == 120


def two_levels() -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(lambda event: Event("low", event.ts), on="B", emits="low", name="low")
    hierarchy.add(lambda event: Event("c", event.ts), on="low", emits="c", name="high")
    return hierarchy


STREAM = [Event("A", 0), Event("A", 50), Event("B", 20), Event("A", 60), Event("A", 90)]


def test_what_a_checkpoint_has_learned_goes_first() -> None:
    engine = Engine(two_levels(), attenuation=1.0)
    engine.feed(STREAM)
    learned = {name: stats.slack for name, stats in engine.stats.items()}
    later = calibrate(two_levels(), [*STREAM, Event("B", 10), Event("A", 100)])
    again = Engine(two_levels(), attenuation=1.0, calibration=later)
    assert again.stats["low"].slack == 90
    again.restore(engine.checkpoint())
    assert {name: stats.slack for name, stats in again.stats.items()} == learned
    assert learned["low"] == 40


def test_a_calibrated_engine_can_be_restored() -> None:
    found = calibrate(two_levels(), STREAM)
    whole, first = (Engine(two_levels(), attenuation=1.0, calibration=found) for _ in range(2))
    expected = [*whole.feed(STREAM), *whole.finish()]
    changes = list(first.feed(STREAM[:2]))
    second = Engine(two_levels(), attenuation=1.0, calibration=found)
    second.restore(first.checkpoint())
    assert [*changes, *second.feed(STREAM[2:]), *second.finish()] == expected
