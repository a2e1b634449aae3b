"""How units, their answers and their statistics print: on one line, times as durations."""

from __future__ import annotations

import numpy as np

from betimes.model import Derived, Event, EventBatch
from betimes.ordering import OrderingUnit

ARRIVALS = [
    Event("A", 0),
    Event("B", 4_000),
    Event("A", 2_500),
    Event("A", 1_000),
    Event("A", 9_000),
]


def test_a_unit_without_a_clock_says_so() -> None:
    assert repr(OrderingUnit(clock="A", slack="150ms", attenuation=0.5)) == (
        "OrderingUnit(no clock event yet, slack 150 ms (fixed), attenuation 0.5, "
        "0 of 0 events held, 0 late)"
    )


def test_a_unit_prints_what_it_has_learned() -> None:
    unit = OrderingUnit(clock="A")
    unit.feed(ARRIVALS)
    assert repr(unit) == (
        "OrderingUnit(clock A at 9000, slack 8 ms (largest), attenuation 1, "
        "2 of 5 events held, 1 late)"
    )


def test_statistics_print_times_as_durations() -> None:
    unit = OrderingUnit(clock=["A", "B"])
    unit.feed(ARRIVALS)
    printed = repr(unit.stats)
    assert "slack=8 ms, largest_delay=8 ms" in printed
    assert "clock=9000" in printed
    assert "clock_offsets={'A': 0, 'B': 0}" in printed


def test_an_answer_prints_what_happened() -> None:
    answer = OrderingUnit(clock="A", attenuation=0).feed(ARRIVALS)
    assert repr(answer).startswith("Ordered(")
    assert repr(answer).endswith("slack 8 ms)")
    assert repr(OrderingUnit(clock="A").feed(ARRIVALS[:1]).released) == (
        "Handed(EventBatch(1 event: A))"
    )


def test_batches_print_how_many_events_of_which_types() -> None:
    assert repr(EventBatch.from_rows([])) == "EventBatch(empty)"
    assert repr(EventBatch.from_rows(ARRIVALS)) == "EventBatch(5 events: A, B)"
    many = EventBatch.from_rows([Event(name, 1) for name in "ABCDEFG"])
    assert repr(many) == "EventBatch(7 events: A, B, C, D, E, ...)"
    made = Derived("peak", rows=[0, 2], payload={"a": np.array([1.0, 2.0])})
    assert repr(made) == "Derived(2 'peak' with a)"
