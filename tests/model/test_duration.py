"""Durations at the edges of the library."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import BetimesError, Duration, OptionError, microseconds, readable

UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}


@given(st.integers(0, 10_000), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_text_is_a_number_times_its_unit(number: int, unit: str, space: str) -> None:
    assert microseconds(f"{number}{space}{unit}") == number * UNITS[unit]


@given(st.integers(0, 2**62))
def test_whole_microseconds_are_taken_as_they_are(number: int) -> None:
    assert microseconds(number) == number


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=100_000)))
def test_a_timedelta_is_exact(value: timedelta) -> None:
    assert timedelta(microseconds=microseconds(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"), [("1.5s", 1_500_000), ("0.1ms", 100), (" 2h ", 7_200_000_000)]
)
def test_text_may_have_a_decimal_point_and_spaces(text: str, expected: int) -> None:
    assert microseconds(text) == expected


@pytest.mark.parametrize("value", ["5", "5 parsecs", "-3s", "", "1e3s", "s", 1.5, True, None])
def test_what_is_no_duration_is_named_with_the_option_and_the_units(value: Duration) -> None:
    with pytest.raises(OptionError, match=r"expected max_skew to be a duration") as caught:
        microseconds(value, "max_skew")
    assert f"max_skew={value!r}" in str(caught.value)
    assert "us, ms, s, min, h, d" in str(caught.value)
    assert isinstance(caught.value, BetimesError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("value", [-1, timedelta(seconds=-1), 2**62 + 1, "1000000000000d"])
def test_a_negative_or_endless_duration_is_refused(value: Duration) -> None:
    with pytest.raises(OptionError, match="expected decay to be 0 or longer"):
        microseconds(value, "decay")


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0"), (0.5, "0.5 us"), (250, "250 us"), (-1_500, "-1.5 ms"), (3 * UNITS["d"], "3 d")],
)
def test_microseconds_are_written_in_the_largest_unit_that_fits(us: float, text: str) -> None:
    assert readable(us) == text


def test_a_number_with_a_fraction_needs_a_unit() -> None:
    with pytest.raises(OptionError, match=r"got slack=1.5; say in which unit, as in '1.5s'"):
        microseconds(1.5, "slack")  # type: ignore[arg-type]
