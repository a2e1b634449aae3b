"""Occurrence times: what is refused, and how it is told."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import BetimesError, Event, EventBatch, EventError, Rejected

LAST = 2**62 - 1

BAD_VALUES = [
    (None, "the time is missing"),
    (math.nan, "the time is NaN"),
    (np.float64("nan"), "the time is NaN"),
    (-1, "the time is negative"),
    (-3.0, "the time is negative"),
    (2**63, "the time is beyond int64"),
    (1e19, "the time is beyond int64"),
    (np.uint64(2**63), "the time is beyond int64"),
    (10**30, "the time is beyond int64"),
    ("12", "the time is not a number"),
    (True, "the time is not a number"),
    (np.True_, "the time is not a number"),
    (datetime(2026, 1, 1, tzinfo=UTC), "the time is not a number"),
    (1.5, "the time is not a whole number of microseconds"),
    (math.inf, "the time is not a whole number of microseconds"),
]
bad_values = pytest.mark.parametrize(("value", "reason"), BAD_VALUES, ids=repr)

BAD_COLUMNS: list[tuple[pa.Array[Any], Any, str]] = [
    (pa.array([1, None], pa.int64()), None, "the time is missing"),
    (pa.array([1, None], pa.timestamp("ms")), None, "the time is missing"),
    (pa.array([1.0, math.nan]), math.nan, "the time is NaN"),
    (pa.array([1.0, 1.5]), 1.5, "the time is not a whole number of microseconds"),
    (pa.array([1, -1]), -1, "the time is negative"),
    (pa.array([1, -1], pa.int8()), -1, "the time is negative"),
    (pa.array([1, -7], pa.timestamp("us", "UTC")), -7, "the time is negative"),
    (pa.array([1, 2**63], pa.uint64()), 2**63, "the time is beyond int64"),
    (pa.array([1.0, 1e30]), 1e30, "the time is beyond int64"),
]
bad_columns = pytest.mark.parametrize(
    ("column", "value", "reason"), BAD_COLUMNS, ids=[f"{c.type}-{r}" for c, _, r in BAD_COLUMNS]
)


def table(times: pa.Array[Any]) -> pa.Table:
    return pa.table(
        {
            "ts": times,
            "type": pa.array(["A"] * len(times), pa.string()),
            "v": list(range(len(times))),
        }
    )


@bad_values
def test_a_bad_time_of_an_event_is_an_error_that_names_row_value_and_what_was_expected(
    value: Any, reason: str
) -> None:
    with pytest.raises(EventError) as caught:
        EventBatch.from_rows([Event("A", 1), Event("A", value)])
    hint = '; if numbers count seconds, set unit="s"' if value == 1.5 else ""
    assert str(caught.value) == (
        f"expected a time in whole microseconds, 0 to {LAST}; row 1: {reason}, got {value!r}{hint}"
    )
    assert isinstance(caught.value, BetimesError)
    assert isinstance(caught.value, ValueError)


@bad_values
def test_sifting_events_gives_the_bad_ones_beside_the_good(value: Any, reason: str) -> None:
    events = [Event("A", 1, {"v": 0}), Event("B", value, {"v": 1}), Event("C", 3, {"v": 2})]
    batch, rejected = EventBatch.sift_rows(events)
    assert list(batch) == [events[0], events[2]]
    assert [(r.row, r.reason) for r in rejected] == [(1, reason)]
    assert rejected[0].value is value


@bad_columns
def test_a_bad_time_in_a_column_is_an_error_that_names_row_value_and_what_was_expected(
    column: pa.Array[Any], value: Any, reason: str
) -> None:
    with pytest.raises(EventError) as caught:
        EventBatch.from_arrow(table(column))
    assert f"row 1: {reason}, got {value!r}" in str(caught.value)
    assert str(caught.value).startswith("expected a time in whole microseconds")


@bad_columns
def test_sifting_columns_gives_the_bad_rows_beside_the_good(
    column: pa.Array[Any], value: Any, reason: str
) -> None:
    batch, rejected = EventBatch.sift_arrow(table(column))
    assert list(batch) == [Event("A", 1 if column.type != pa.timestamp("ms") else 1000, {"v": 0})]
    assert [str(r) for r in rejected] == [f"row 1: {reason}, got {value!r}"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True]),
        pa.array([date(2026, 1, 1)]),
        pa.array([b"1"]),
        pa.array([[1]]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_that_cannot_hold_times_is_named_with_its_type(column: pa.Array[Any]) -> None:
    for build in (EventBatch.from_arrow, EventBatch.sift_arrow):
        with pytest.raises(EventError) as caught:
            build(table(column))
        assert "in column 'ts'" in str(caught.value)
        assert f"got a column of type {column.type}" in str(caught.value)
        assert "cast it first, or choose another column for the time" in str(caught.value)


def test_the_error_says_how_many_more_rows_are_bad() -> None:
    with pytest.raises(EventError, match=r"row 0: .* got 1.5; if numbers count seconds, set unit="):
        EventBatch.from_rows([Event("A", 1.5)])  # type: ignore[arg-type]
    with pytest.raises(EventError, match=r"row 0: .* got -1 \(1 more row is bad\)"):
        EventBatch.from_rows([Event("A", -1), Event("A", -1)])
    with pytest.raises(EventError, match=r"row 1: .* got -1 \(2 more rows are bad\)"):
        EventBatch.from_rows([Event("A", ts) for ts in (0, -1, -2, 5, -3)])


def test_a_column_of_nothing_is_all_missing_times() -> None:
    batch, rejected = EventBatch.sift_arrow(table(pa.nulls(2)))
    assert len(batch) == 0
    assert rejected == [Rejected(row, None, "the time is missing") for row in (0, 1)]


@pytest.mark.parametrize(
    "value", [0, 7, LAST, 5.0, 1e15, np.int64(3), np.uint8(200), np.float64(8.0), np.int32(4)]
)
def test_whole_numbers_of_any_kind_are_times(value: Any) -> None:
    batch = EventBatch.from_rows([Event("A", 1), Event("A", value)])
    assert batch.ts.dtype == np.int64
    assert batch.ts.tolist() == [1, int(value)]


@pytest.mark.parametrize(
    "type",
    [pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64()],
)
def test_number_columns_of_any_width_are_microseconds(type: pa.DataType) -> None:
    assert EventBatch.from_arrow(table(pa.array([3, 1], type))).ts.tolist() == [3, 1]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize(("unit", "us"), [("s", 10**6), ("ms", 10**3), ("us", 1)])
def test_timestamps_of_any_unit_become_microseconds(unit: Any, us: int, zone: str | None) -> None:
    column = pa.array([1_700_000_000, 3], pa.timestamp(unit, zone))
    assert EventBatch.from_arrow(table(column)).ts.tolist() == [1_700_000_000 * us, 3 * us]


def test_nanoseconds_are_cut_to_whole_microseconds() -> None:
    column = pa.array([1_700_000_000_123_456_789, 999], pa.timestamp("ns"))
    assert EventBatch.from_arrow(table(column)).ts.tolist() == [1_700_000_000_123_456, 0]


def test_a_timestamp_beyond_int64_microseconds_is_refused() -> None:
    with pytest.raises(EventError, match="row 0: the time is beyond int64"):
        EventBatch.from_arrow(table(pa.array([2**60, 5], pa.timestamp("s"))))


good_or_bad = st.one_of(
    st.integers(0, LAST),
    st.integers(-(2**70), 2**70),
    st.none(),
    st.floats(),
    st.booleans(),
    st.text(max_size=3),
)


@given(st.lists(good_or_bad, max_size=20))
def test_sifting_loses_no_row_and_keeps_the_order(values: list[Any]) -> None:
    batch, rejected = EventBatch.sift_rows(
        [Event("A", v, {"row": i}) for i, v in enumerate(values)]
    )
    good = [event["row"] for event in batch]
    bad = [r.row for r in rejected]
    assert good == sorted(good)
    assert bad == sorted(bad)
    assert sorted(good + bad) == list(range(len(values)))
    assert [int(values[row]) for row in good] == batch.ts.tolist()
    assert all(type(values[row]) in (int, float) and values[row] >= 0 for row in good)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), LAST)), max_size=20))
def test_rows_and_columns_refuse_the_same_times(values: list[int | None]) -> None:
    events = [Event("A", v) for v in values]  # type: ignore[arg-type]
    by_rows = EventBatch.sift_rows(events)
    by_arrow = EventBatch.sift_arrow(table(pa.array(values, pa.int64())))
    assert by_rows[0].ts.tolist() == by_arrow[0].ts.tolist()
    assert by_rows[1] == by_arrow[1]
