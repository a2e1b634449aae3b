"""Edges of the ordering unit: few events, ties, duplicates, bad options, payloads, memory."""

from __future__ import annotations

import mmap
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import BetimesError, Event, EventBatch, EventError, OptionError, StreamEndedError
from betimes.ordering import OrderingUnit
from betimes.testing import sensor_stream
from betimes.testing.strategies import cut, disordered

every_policy = pytest.mark.parametrize("slack", ["largest", "decaying", "quantile", "5us"])
every_attenuation = pytest.mark.parametrize("attenuation", [1.0, 1 / 3, 0.0])
EMPTY = EventBatch.from_rows([Event("A", 1, {"v": 1})]).to_arrow().slice(0, 0)


def settle_all(unit: OrderingUnit, *batches: Any) -> list[Event]:
    parts = [unit.feed(batch).settled.events for batch in batches]
    return [event for part in [*parts, unit.finish().settled.events] for event in part]


@every_policy
@every_attenuation
@pytest.mark.parametrize("batch", [1, 7, 40])
def test_numbers_alone_are_the_same_numbers(slack: str, attenuation: float, batch: int) -> None:
    stream = sensor_stream(400)
    one, other = (
        OrderingUnit(clock="ball", slack=slack, attenuation=attenuation, max_skew="50ms")
        for _ in range(2)
    )
    for n, low in enumerate(range(0, len(stream), batch)):
        part = stream[low : low + batch]
        if n % 5 == 3:  # a mistake
            ahead = np.where(np.arange(len(part)) == 0, 10**9, 0)
            part = EventBatch(part.ts + ahead, part.codes, part.types)
        whole, step = one.feed(part), other.order(part)
        for name in ("released", "replayed", "settled", "late", "rejected"):
            assert np.array_equal(getattr(whole.step, name), getattr(step, name)), name
        assert [each.tolist() for each in step.path()] == [
            each.tolist() for each in whole.step.path()
        ]
        assert one.suspect_rows == other.suspect_rows
    assert str(one.stats) == str(other.stats)


# Few events


@every_policy
@every_attenuation
def test_a_stream_of_nothing_gives_nothing(slack: str, attenuation: float) -> None:
    unit = OrderingUnit(slack=slack, attenuation=attenuation)
    nothings: list[Any] = [[], EMPTY, EventBatch.concat([])]
    for nothing in nothings:
        ordered = unit.feed(nothing)
        assert (len(ordered.released), len(ordered.settled), len(ordered.clock)) == (0, 0, 0)
    assert len(unit.finish().settled) == 0
    assert unit.stats.arrived == 0
    assert unit.stats.clock is None


@every_policy
@every_attenuation
@pytest.mark.parametrize("clock", ["A", "B", "*", None])
def test_one_event_is_settled_at_the_end_at_the_latest(
    slack: str, attenuation: float, clock: str | None
) -> None:
    event = Event("A", 7, {"v": 1})
    unit = OrderingUnit(clock=clock, slack=slack, attenuation=attenuation)
    assert settle_all(unit, event) == [event]
    assert unit.stats.settled == 1


def test_an_empty_feed_between_others_changes_nothing() -> None:
    unit = OrderingUnit(clock="A")
    unit.feed([Event("A", 1000), Event("A", 500)])
    unit.attenuation = 0.5
    before = unit.stats
    assert len(unit.feed([]).released) == 0
    assert unit.stats == before


@every_policy
@every_attenuation
@pytest.mark.parametrize("arrow", [False, True])
def test_events_with_the_same_time_keep_their_order_of_arrival(
    slack: str, attenuation: float, arrow: bool
) -> None:
    events = [Event("AB"[i % 2], 7, {"n": i}) for i in range(200)]
    unit = OrderingUnit(clock="A", slack=slack, attenuation=attenuation)
    parts = [EventBatch.from_rows(events[low : low + 30]) for low in range(0, 200, 30)]
    settled = settle_all(unit, *([p.to_arrow() for p in parts] if arrow else parts))
    assert [event["n"] for event in settled] == list(range(200))
    assert unit.stats.late == 0


# Input and options that cannot be


@pytest.mark.parametrize("bad", [None, float("nan"), -1, 2**63, "7", True, 1.5])
@pytest.mark.parametrize("known", [False, True])
def test_a_bad_time_is_refused_and_the_unit_goes_on_as_if_it_had_not_come(
    bad: Any, known: bool
) -> None:
    unit = OrderingUnit(clock="A")
    if known:
        unit.feed(Event("A", 1))
    before = unit.stats
    for batch in (Event("A", bad), [Event("A", 3), Event("A", bad)]):
        with pytest.raises(EventError, match=r"expected a time in whole microseconds.*row [01]:"):
            unit.feed(batch)
    assert unit.stats == before
    assert unit.feed(Event("A", 4)).clock.tolist() == [4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slack": "biggest"}, "expected slack to be one of largest, decaying, quantile"),
        ({"slack": "-3s"}, "expected slack to be a duration"),
        ({"slack": -1}, "expected slack to be 0 or longer"),
        ({"margin": -0.1}, r"expected margin to be 0 or more .* got margin=-0\.1"),
        ({"margin": float("nan")}, "expected margin to be 0 or more"),
        ({"margin": "much"}, "expected margin to be 0 or more"),
        ({"attenuation": 1.1}, r"expected attenuation to be from 0 to 1, got attenuation=1\.1"),
        ({"attenuation": -0.1}, "expected attenuation to be from 0 to 1"),
        ({"attenuation": float("nan")}, "expected attenuation to be from 0 to 1"),
        ({"attenuation": "adaptive"}, "expected attenuation to be from 0 to 1"),
        ({"min_slack": 5, "max_slack": 3}, "expected min_slack <= max_slack"),
        ({"max_late": 1}, "expected max_late to be the share"),
        ({"max_late": -0.1}, "expected max_late to be the share"),
        ({"decay": 0}, "expected decay to be longer than 0"),
        ({"max_skew": "far"}, "expected max_skew to be a duration"),
        ({"clock": []}, "expected clock to be one or more event types"),
        ({"clock": [""]}, "expected clock to be one or more event types"),
        ({"unique": "id"}, r"expected unique=\(source column, number column\)"),
        ({"unique": ("s", "n"), "remember": 0}, "remember=1 or more"),
    ],
    ids=str,
)
def test_an_option_that_makes_no_sense_is_named_with_what_is_allowed(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        OrderingUnit(**options)
    assert isinstance(caught.value, BetimesError)
    assert isinstance(caught.value, ValueError)


def test_a_wrong_attenuation_at_run_time_is_refused_and_the_old_one_stays() -> None:
    unit = OrderingUnit(attenuation=0.5)
    with pytest.raises(OptionError, match="expected attenuation to be from 0 to 1"):
        unit.attenuation = 2
    assert unit.attenuation == 0.5


@pytest.mark.parametrize("many", [False, True])
def test_types_that_are_betimes_own_are_refused(many: bool) -> None:
    unit = OrderingUnit(clock="A")
    unit.feed([Event("A", 0), Event("A", 1)])
    tick = Event("betimes.tick", 10**15)
    with pytest.raises(EventError, match=r"which are betimes' own, got .*'betimes.tick'; rename"):
        unit.feed([tick, Event("A", 2)] if many else tick)
    assert unit.stats.clock == 1


@pytest.mark.parametrize("more", [Event("A", 2), [Event("A", 2)], []])
def test_feeding_after_finish_is_an_error_that_says_what_to_do(more: Any) -> None:
    unit = OrderingUnit(clock="A")
    unit.feed(Event("A", 1))
    unit.finish()
    with pytest.raises(StreamEndedError, match=r"after finish\(\).*make a new OrderingUnit"):
        unit.feed(more)


# Duplicates


def numbered(*numbers: tuple[str, int]) -> list[Event]:
    return [Event("A", 10 * number, {"s": source, "n": number}) for source, number in numbers]


@pytest.mark.parametrize("arrow", [False, True])
def test_an_event_delivered_twice_is_dropped_and_counted(arrow: bool) -> None:
    unit = OrderingUnit(clock="A", unique=("s", "n"))
    batches: list[Any] = [
        numbered(("x", 1), ("y", 1), ("x", 1)),
        numbered(("x", 2), ("y", 1), ("x", 1), ("y", 2)),
    ]
    if arrow:
        batches = [EventBatch.from_rows(batch).to_arrow() for batch in batches]
    settled = settle_all(unit, *batches)
    assert [(e["s"], e["n"]) for e in settled] == [("x", 1), ("y", 1), ("x", 2), ("y", 2)]
    assert unit.stats.duplicates == 3
    assert unit.stats.arrived == 4


def test_duplicates_are_remembered_as_far_back_as_asked() -> None:
    unit = OrderingUnit(clock="A", unique=("s", "n"), remember=2)
    unit.feed(numbered(("x", 1), ("x", 2), ("x", 3), ("x", 1), ("x", 3)))
    assert unit.stats.duplicates == 1


@pytest.mark.parametrize(
    "batch", [[Event("A", 1, {"s": 1})], pa.table({"ts": [1], "type": ["A"], "s": [1]})]
)
def test_a_missing_column_for_duplicates_is_named(batch: Any) -> None:
    unit = OrderingUnit(clock="A", unique=("s", "n"))
    with pytest.raises(EventError, match=r"expected a payload column 'n', but .* has \['s'\]"):
        unit.feed(batch)
    assert unit.stats.arrived == 0


def test_an_empty_batch_has_no_duplicates() -> None:
    unit = OrderingUnit(clock="A", unique=("s", "n"))
    assert len(unit.feed([]).released) == 0


# Payloads


def labelled(events: list[Event], form: str) -> EventBatch | pa.Table:
    rows = EventBatch.from_rows([Event(e.type, e.ts, {form: e["id"]}) for e in events])
    return rows.to_arrow() if form == "column" else rows


def label(event: Event) -> Any:
    (value,) = [v for v in event.payload.values() if v is not None]
    return value


@given(disordered(max_events=40), st.sampled_from([1.0, 1 / 3, 0.0]), st.data())
def test_the_payload_travels_with_its_event_through_reordering(
    stream: list[Event], attenuation: float, data: st.DataObject
) -> None:
    events = [Event(e.type, e.ts, {"id": i}) for i, e in enumerate(stream)]
    unit = OrderingUnit(clock="A", attenuation=attenuation)
    forms = st.sampled_from(data.draw(st.sampled_from([["row"], ["column"], ["row", "column"]])))
    seen: list[int] = []
    for part in data.draw(cut(events)):
        ordered = unit.feed(labelled(list(part), data.draw(forms)) if part else [])
        for handed in (ordered.released, ordered.replayed, ordered.settled):
            for event, row in zip(handed.events, handed.rows.tolist(), strict=True):
                assert (event.type, event.ts, label(event)) == (
                    events[row].type, events[row].ts, row
                )  # fmt: skip
        seen += ordered.settled.rows.tolist()
        for event in unit.buffer:
            assert event.ts == events[label(event)].ts
    rest = unit.finish().settled
    assert [label(event) for event in rest.events] == rest.rows.tolist()
    assert sorted(seen + rest.rows.tolist()) == list(range(len(events)))


def test_an_event_without_payload_among_others_stays_without() -> None:
    unit = OrderingUnit(clock="A", slack=10)
    table = pa.table({"ts": [2], "type": ["A"], "v": [1]})
    settled = settle_all(unit, [Event("A", 3)], table, [Event("A", 1, {"w": 2}), Event("A", 4)])
    assert [e.payload for e in settled] == [{"w": 2}, {"v": 1}, {}, {}]


def test_a_rejected_event_keeps_its_payload() -> None:
    unit = OrderingUnit(clock="A", max_skew=10)
    table = pa.table({"ts": [1, 500, 2], "type": ["A"] * 3, "v": [1, 2, 3]})
    assert list(unit.feed(table).rejected) == [Event("A", 500, {"v": 2})]


def test_columns_that_cannot_be_written_to_are_taken() -> None:
    table = sensor_stream(20_000).to_arrow()
    assert not EventBatch.from_arrow(table).ts.flags.writeable
    by_arrow, by_numpy = OrderingUnit(clock="ball"), OrderingUnit(clock="ball")
    expected = by_numpy.feed(sensor_stream(20_000))
    got = by_arrow.feed(table)
    assert got.released.rows.tolist() == expected.released.rows.tolist()


def test_the_input_is_not_changed() -> None:
    batch = sensor_stream(1000)
    before = batch.ts.copy(), batch.codes.copy()
    for attenuation in (1.0, 0.5):
        OrderingUnit(clock="ball", attenuation=attenuation).feed(batch)
    assert np.array_equal(batch.ts, before[0])
    assert np.array_equal(batch.codes, before[1])


@pytest.mark.parametrize("attenuation", [1.0, 0.3])
def test_what_was_handed_out_is_not_changed_by_later_feeds(attenuation: float) -> None:
    stream = sensor_stream(3000)
    unit = OrderingUnit(clock="ball", attenuation=attenuation)
    first = unit.feed(stream[:1000])
    before = [(h.ts.tolist(), h.rows.tolist()) for h in (first.released, first.settled)]
    path = first.clock.tolist(), first.slack.tolist()
    unit.feed(stream[1000:2000])
    unit.feed(stream[2000:])
    assert [(h.ts.tolist(), h.rows.tolist()) for h in (first.released, first.settled)] == before
    assert (first.clock.tolist(), first.slack.tolist()) == path


# Memory

STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(not STATM.exists(), reason="needs /proc")
def test_twenty_million_events_stay_within_slack_worth_of_buffer() -> None:
    size, batches, spacing = 100_000, 200, 100
    pattern = sensor_stream(size, seed=3)
    span = int(pattern.ts.max()) + spacing
    unit = OrderingUnit(clock="ball")
    released = early = 0
    for number in range(batches):
        batch = EventBatch(pattern.ts + number * span, pattern.codes, pattern.types)
        released += len(unit.feed(batch).released)
        if number == 10:
            early = resident_bytes()
    grown = resident_bytes() - early
    stats = unit.stats
    assert stats.arrived == size * batches == 20_000_000
    assert released + stats.buffered == stats.arrived
    slack_worth = stats.slack / spacing
    assert stats.buffered < 2 * slack_worth
    # Large batches are handled in pieces of some thousand events, which are held beside the slack.
    assert stats.peak < 4 * slack_worth + 10_000
    assert grown < 32 * 2**20


class Blob:
    """A payload value whose life can be watched."""


def test_rows_of_settled_events_are_let_go() -> None:
    unit = OrderingUnit(clock="A")
    alive: weakref.WeakSet[Blob] = weakref.WeakSet()
    for number in range(100):
        blobs = [Blob() for _ in range(100)]
        alive.update(blobs)
        unit.feed([Event("A", 100 * number + i, {"blob": blobs[i]}) for i in range(100)])
    del blobs
    assert unit.stats.buffered == 0
    assert len(alive) == 0


def test_columns_of_settled_events_are_let_go() -> None:
    unit = OrderingUnit(clock="A")
    rows, blob = 1000, "x" * 1000
    before = pa.total_allocated_bytes()
    for number in range(100):
        ts: Any = np.arange(rows) + rows * number
        unit.feed(pa.table({"ts": ts, "type": ["A"] * rows, "blob": [blob] * rows}))
    assert unit.stats.buffered == 0
    # A few thousand rows may stay for a while, because letting go costs a copy of what is held.
    assert pa.total_allocated_bytes() - before < 8 * rows * len(blob)
