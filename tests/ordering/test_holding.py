"""How long an event is held back is rounded in one way, and to the value that is meant."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.ordering import OrderingUnit, SlackPolicy, holding_time, holding_times
from betimes.testing import ReferenceUnit


def meant(attenuation: float, slack: int) -> int:
    """The exact product of the numbers as people write them, rounded up."""
    return math.ceil(Fraction(repr(attenuation)) * slack)


written = st.integers(0, 1_000_000).map(lambda millionths: millionths / 1_000_000)
"""Attenuations with up to six decimals."""

percent = st.integers(0, 100).map(lambda hundredths: hundredths / 100)


@example(0.07, 100)
@example(0.1, 30)
@example(0.57, 10**13)
@given(written, st.integers(0, 10**9) | st.integers(0, 10**7).map(lambda s: s * 10**6))
def test_the_exact_product_is_rounded_up(attenuation: float, slack: int) -> None:
    assert holding_time(attenuation, slack) == meant(attenuation, slack)


@given(st.floats(0, 1), st.integers(0, 2**50))
def test_whatever_the_attenuation_it_is_at_most_the_slack(attenuation: float, slack: int) -> None:
    held = holding_time(attenuation, slack)
    assert 0 <= held <= slack
    assert abs(held - Fraction(attenuation) * slack) < 1


@given(written, st.lists(st.integers(0, 10**9), max_size=20))
def test_an_array_is_rounded_as_its_values_are(attenuation: float, slack: list[int]) -> None:
    held = holding_times(attenuation, np.array(slack, np.int64))
    assert held.tolist() == [holding_time(attenuation, each) for each in slack]


@pytest.mark.parametrize("attenuation", [0.0, 1.0])
def test_the_ends_are_none_and_all_of_it(attenuation: float) -> None:
    assert [holding_time(attenuation, s) for s in (0, 1, 2**52)] == [
        attenuation * s for s in (0, 1, 2**52)
    ]


@example(0.07, 100)
@given(percent, st.integers(1, 2_000))
def test_the_unit_and_the_reference_release_after_just_that_long(
    attenuation: float, slack: int
) -> None:
    unit = OrderingUnit(clock="C", on="B", slack=slack, attenuation=attenuation)
    policy = SlackPolicy.parse(slack=slack)
    reference = ReferenceUnit(clock={"C"}, on={"B"}, policy=policy, attenuation=attenuation)
    due = slack + meant(attenuation, slack)
    released = []
    for type, ts in (("C", 0), ("B", slack), ("C", due - 1), ("C", due)):
        rows = [event.ts for event in unit.feed(Event(type, ts)).released.events]
        assert rows == [item[0] for item in reference.feed(type, ts).released]
        released.append(len(rows))
    assert released == [0, 0, 0, 1]
