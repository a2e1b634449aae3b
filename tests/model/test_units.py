"""What numbers count that stand for times, and times as text."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes.host import Columns
from betimes.model import Event, EventBatch, EventError, OptionError
from betimes.model.times import LAST, doubt, fault, from_arrow, last, of

PER = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
NOON = 1_777_636_800_000_000
"""2026-05-01 12:00 UTC."""


def table(times: pa.Array[Any]) -> pa.Table:
    return pa.table({"ts": times, "type": pa.array(["A"] * len(times), pa.string())})


@pytest.mark.parametrize("unit", PER)
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64(), pa.float64()])
def test_numbers_count_the_unit(unit: str, kind: pa.DataType) -> None:
    column: Any = pa.array([3_000, 1_000], kind)
    expected = [int(3_000 * PER[unit]), int(1_000 * PER[unit])]
    assert EventBatch.from_arrow(table(column), unit=unit).ts.tolist() == expected
    assert EventBatch.of(table(column), unit=unit).ts.tolist() == expected
    events = [Event("A", number) for number in column.to_pylist()]
    assert EventBatch.of(events, unit=unit).ts.tolist() == expected
    assert EventBatch.of(events[0], unit=unit).ts.tolist() == expected[:1]


@given(st.integers(0, 4 * 10**15))
def test_seconds_with_a_fraction_are_exact_to_the_microsecond(ts: int) -> None:
    assert of(ts / 1e6, "s") == ts
    assert of(ts / 1e3, "ms") == ts


@pytest.mark.parametrize("unit", PER)
def test_the_largest_time_is_the_same_in_every_unit(unit: str) -> None:
    most = last(unit)
    for good in (pa.array([most]), pa.array([most], pa.uint64())):
        assert EventBatch.from_arrow(table(good), unit=unit).ts.tolist()[0] <= LAST
    assert fault(most, unit) is None
    if most < 2**63 - 1:
        with pytest.raises(EventError, match=f"0 to {most}; row 0: the time is"):
            EventBatch.from_arrow(table(pa.array([most + 1])), unit=unit)


def test_bad_numbers_are_bad_in_every_unit() -> None:
    column = pa.array([1.0, -1.0, float("nan"), float("inf"), None])
    _, rejected = EventBatch.sift_arrow(table(column), unit="s")
    assert [(r.row, r.reason) for r in rejected] == [
        (1, "the time is negative"), (2, "the time is NaN"), (3, "the time is infinite"),
        (4, "the time is missing"),
    ]  # fmt: skip


def test_an_unknown_unit_is_refused_everywhere() -> None:
    for use in (
        lambda: EventBatch.from_arrow(table(pa.array([1])), unit="sec"),
        lambda: bt.Engine(hierarchy(), unit="sec"),
        lambda: bt.detect([Event("A", 1)], hierarchy(), unit="sec"),
    ):
        with pytest.raises(OptionError, match="expected unit to be one of s, ms, us, ns"):
            use()


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us", "UTC")])
def test_timestamps_know_their_unit(kind: pa.DataType) -> None:
    column = pa.array([datetime(2026, 5, 1, 12)], kind)
    assert EventBatch.from_arrow(table(column), unit="ns").ts.tolist() == [NOON]
    batch, bad = Columns().sift(table(column), "ns")
    assert batch.ts.tolist() == [NOON]
    assert not bad


# Text

TEXTS = [
    (["2026-05-01T12:00:00Z"], [NOON]),
    (["2026-05-01T12:00:00", "2026-05-01 12:00:00.000001"], [NOON, NOON + 1]),
    (["2026-05-01T14:00:00+02:00", "2026-05-01T12:00:00Z"], [NOON, NOON]),
    (["2026-05-01T14:00:00.5+02:00", "2026-05-01T12:00:00", "2026-05-01"],
     [NOON + 500_000, NOON, NOON - 43_200_000_000]),
    (["2026-05-01T12:00:00.123456789Z"], [NOON + 123_456]),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "expected"), TEXTS, ids=str)
def test_iso_text_is_read_with_or_without_a_zone(texts: list[str], expected: list[int]) -> None:
    for column in (
        pa.array(texts), pa.array(texts, pa.large_string()), pa.array(texts).dictionary_encode()
    ):  # fmt: skip
        assert EventBatch.from_arrow(table(column)).ts.tolist() == expected
        assert EventBatch.from_arrow(table(column), unit="s").ts.tolist() == expected
    assert [of(text, "s") for text in texts] == expected


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2999, 1, 1)),
    st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))]),
)
def test_text_is_what_python_writes(at: datetime, zone: timezone | None) -> None:
    here = at.replace(tzinfo=zone)
    ts = EventBatch.from_arrow(table(pa.array([here.isoformat()]))).ts.tolist()
    since = here.replace(tzinfo=zone or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert ts == [since // timedelta(microseconds=1)]


def test_text_that_is_no_time_is_rejected_row_by_row() -> None:
    column = pa.array(["2026-05-01T12:00:00Z", "noon", None, "1960-01-01"])
    batch, rejected = EventBatch.sift_arrow(table(column))
    assert batch.ts.tolist() == [NOON]
    reason = "the time is not ISO 8601 text, such as 2026-05-01T12:00:00Z"
    assert [(r.row, r.value, r.reason) for r in rejected] == [
        (1, "noon", reason), (2, None, "the time is missing"),
        (3, "1960-01-01", "the time is negative"),
    ]  # fmt: skip
    with pytest.raises(EventError, match=r"expected a time; row 0: the time is not ISO .*'noon'"):
        EventBatch.from_arrow(table(pa.array(["noon"])))


# Roads in


def hierarchy() -> bt.Hierarchy:
    found = bt.Hierarchy(clock="*")
    found.add(bt.pattern("A B", define={"B": "type == 'A'"}, emits="pair", within="10s"))
    return found


SECONDS = [1_777_636_800, 1_777_636_805, 1_777_636_900]
FORMS: dict[str, Any] = {
    "arrow": table(pa.array(SECONDS)),
    "doubles": table(pa.array(SECONDS, pa.float64())),
    "events": [Event("A", ts) for ts in SECONDS],
}


@pytest.mark.parametrize("form", FORMS)
def test_engines_and_detect_take_a_unit(form: str) -> None:
    engine = bt.Engine(hierarchy(), unit="s", slack="1s")
    changes = [*engine.feed(FORMS[form]), *engine.finish()]
    assert [change.ts for change in changes if change.change_type == "insert"] == [NOON + 5_000_000]
    found = bt.detect(FORMS[form], hierarchy(), unit="s")
    assert [change.ts for change in found] == [NOON + 5_000_000]


def test_one_event_at_a_time_counts_the_same_unit() -> None:
    engine = bt.Engine(hierarchy(), unit="s", slack="1s")
    changes = [change for event in FORMS["events"] for change in engine.feed(event)]
    assert {change.ts for change in changes} == {NOON + 5_000_000}


def test_a_batch_has_microseconds_already() -> None:
    batch = EventBatch.from_arrow(FORMS["arrow"], unit="s")
    assert [change.ts for change in bt.detect(batch, hierarchy(), unit="s")] == [NOON + 5_000_000]


def test_rejected_rows_have_their_time_in_microseconds() -> None:
    rows = pa.table({"ts": [1, 2], "type": ["A", None]})
    _, bad = Columns().sift(rows, "s")
    assert [(row.row["ts"], row.ts) for row in bad] == [(2, 2_000_000)]


def test_a_checkpoint_belongs_to_a_unit() -> None:
    engine = bt.Engine(hierarchy(), unit="s")
    engine.feed(FORMS["arrow"])
    with pytest.raises(bt.CheckpointError, match="unit was s, is us"):
        bt.Engine(hierarchy()).restore(engine.checkpoint())


# The warning


@pytest.mark.parametrize(
    ("scale", "unit"), [(1, "s"), (1_000, "ms"), (1_000_000_000, "ns")], ids=["s", "ms", "ns"]
)
def test_numbers_that_look_like_another_unit_draw_one_warning(
    scale: int, unit: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = bt.Engine(hierarchy())
    with caplog.at_level(logging.WARNING, "betimes"):
        for second in SECONDS:
            engine.feed(Event("A", second * scale))
        engine.feed(table(pa.array(np.array(SECONDS) * scale)))
    (record,) = caplog.records
    assert f'unit="{unit}"' in record.message
    assert "2026-05-01 12:00:00" in record.message


@pytest.mark.parametrize("unit", ["us", "s"])
def test_a_unit_that_was_given_is_believed(unit: str, caplog: pytest.LogCaptureFixture) -> None:
    bt.Engine(hierarchy(), unit=unit).feed(FORMS["arrow"])
    assert not caplog.records


@pytest.mark.parametrize("first", [0, 5, 10**8, NOON])
def test_times_since_the_start_and_of_today_are_not_doubted(first: int) -> None:
    assert doubt(first, first + 3_600_000_000) is None


def test_a_stream_that_comes_to_look_odd_is_not_doubted(caplog: pytest.LogCaptureFixture) -> None:
    engine = bt.Engine(hierarchy())
    engine.feed(Event("A", 0))
    checkpoint = engine.checkpoint()
    engine.feed(Event("A", 1_777_636_800))
    resumed = bt.Engine(hierarchy())
    resumed.restore(checkpoint)
    resumed.feed(Event("A", 1_777_636_800))
    assert not caplog.records


def test_numbers_stay_numbers_in_a_column_that_one_bad_cell_made_text() -> None:
    column = pa.chunked_array([["0", " 15", "foo", "-1", "1.5", None, "1970-01-01T00:00:02Z"]])
    ts, rejected = from_arrow(column, "ts", "ms")
    assert ts.tolist() == [0, 15_000, 0, 0, 1_500, 0, 2_000_000]
    assert [(each.row, each.reason) for each in rejected] == [
        (2, "the time is not ISO 8601 text, such as 2026-05-01T12:00:00Z"),
        (3, "the time is negative"),
        (5, "the time is missing"),
    ]
