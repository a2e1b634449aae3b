"""The clock: which events move it, how it is learned, and what happens to absurd times."""

from __future__ import annotations

import logging
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.model import Event, EventBatch
from betimes.ordering import Ordered, OrderingUnit
from betimes.ordering.clock import OffsetLearner
from betimes.testing import delayed, sensor_stream

MS = 1000
HOUR = 3_600_000_000


def names(events: EventBatch) -> list[str]:
    return [f"{e.type}{e.ts}" for e in events]


def parse(text: str) -> list[Event]:
    return [Event(name[0], int(name[1:])) for name in text.split()]


def mixed(
    periods: dict[str, int], lags: dict[str, tuple[int, int]], *, until: int, seed: int = 0
) -> EventBatch:
    """Events of several types, each with its own period and range of delays."""
    rng = np.random.default_rng(seed)
    ts, codes, delays = [], [], []
    for code, (name, period) in enumerate(periods.items()):
        own = np.arange(0, until, period, dtype=np.int64)
        ts.append(own + rng.integers(0, period, len(own)))
        codes.append(np.full(len(own), code, np.int32))
        low, high = lags[name]
        delays.append(rng.integers(low, high + 1, len(own)))
    batch = EventBatch(np.concatenate(ts), np.concatenate(codes), tuple(periods))
    return delayed(batch, np.concatenate(delays))


# Designated


def test_a_far_off_time_of_another_type_does_not_move_the_clock() -> None:
    unit = OrderingUnit(clock="A", max_skew=None)
    ordered = unit.feed(parse("A0 A2 E999999 A4 B3 A6"))
    assert ordered.clock.tolist() == [0, 2, 2, 4, 4, 6]
    assert names(ordered.released.events) == ["A0", "A2", "A4", "B3"]
    assert names(unit.finish().released.events) == ["A6", "E999999"]


def test_the_clock_never_goes_back() -> None:
    ordered = OrderingUnit(clock="A").feed(parse("A5 A3 A9 A1"))
    assert ordered.clock.tolist() == [5, 5, 9, 9]


def test_clock_events_move_the_clock_though_they_are_not_subscribed() -> None:
    unit = OrderingUnit(clock="A", on="B")
    ordered = unit.feed(parse("A1 B0 A3 B2 A6"))
    assert ordered.clock.tolist() == [1, 1, 3, 3, 6]
    assert names(ordered.released.events) == ["B0", "B2"]
    assert unit.stats.slack == 4


def test_a_stream_without_clock_events_says_so_and_finish_settles_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unit = OrderingUnit(clock="X")
    assert len(unit.feed(parse("B3 A1 B2")).released) == 0
    assert unit.stats.clock is None
    assert "no event of the clock type X has arrived, only B, A" in unit.stats.clock_reason
    with caplog.at_level(logging.WARNING, "betimes"):
        rest = unit.finish()
    assert names(rest.settled.events) == ["A1", "B2", "B3"]
    assert "no event of the clock type X has arrived" in caplog.text


def test_types_of_which_no_event_has_come_are_not_said_to_have_come() -> None:
    unit = OrderingUnit(clock="A")
    unit.feed(EventBatch.from_rows(parse("A1 B2"))[1:])
    assert unit.stats.clock_reason == "no event of the clock type A has arrived, only B"


def test_a_stream_with_clock_events_draws_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    for clock in ("A", "*", None):
        unit = OrderingUnit(clock=clock)
        unit.feed(parse("B3 A1 B2"))
        unit.finish()
    OrderingUnit(clock="A").finish()
    assert caplog.text == ""


# Learned


def test_the_frequent_steady_type_becomes_the_clock_and_the_statistics_say_why() -> None:
    unit = OrderingUnit(clock=None)
    assert "until 256 events have arrived" in unit.stats.clock_reason
    unit.feed(sensor_stream(20_000))
    assert unit.stats.clock_types == ("ball",)
    assert unit.stats.clock_reason.startswith("'ball': 88% of the events, ")
    assert "apart" in unit.stats.clock_reason
    assert "out of order on average" in unit.stats.clock_reason


def test_steadiness_counts_beside_frequency() -> None:
    # Twice as frequent, but hundreds of milliseconds out of order.
    stream = mixed(
        {"wild": 5 * MS, "calm": 10 * MS}, {"wild": (0, 500 * MS), "calm": (0, 0)}, until=10**8
    )
    unit = OrderingUnit(clock=None)
    unit.feed(stream)
    assert unit.stats.clock_types == ("calm",)


def test_a_learned_clock_serves_as_well_as_the_right_one_designated() -> None:
    stream = sensor_stream(50_000, stragglers=0)
    learned, told = OrderingUnit(clock=None), OrderingUnit(clock="ball")
    learned.feed(stream)
    told.feed(stream)
    assert learned.stats.slack == pytest.approx(told.stats.slack, rel=0.05)
    # What came before the choice was ordered by every type.
    assert learned.stats.late - told.stats.late < 50


def test_the_clock_changes_when_its_type_falls_silent() -> None:
    first = mixed({"A": MS, "B": 4 * MS}, {"A": (0, 0), "B": (0, 0)}, until=10**7)
    second = mixed({"B": 4 * MS}, {"B": (0, 0)}, until=2 * 10**7, seed=1)
    unit = OrderingUnit(clock=None)
    unit.feed(first)
    assert unit.stats.clock_types == ("A",)
    unit.feed(EventBatch(second.ts + 10**7, second.codes, second.types))
    assert unit.stats.clock_types == ("B",)
    assert "before: 'A', which fell silent" in unit.stats.clock_reason
    last = int(second.ts.max()) + 10**7
    assert unit.stats.clock == last
    assert unit.stats.buffered < 100


@pytest.mark.parametrize(("period", "clock"), [(8 * MS, "A"), (2 * MS, "B")])
def test_the_clock_changes_only_for_a_type_that_is_twice_as_good(period: int, clock: str) -> None:
    in_time = {"A": (0, 0), "B": (0, 0)}
    first = mixed({"A": 10 * MS, "B": 12 * MS}, in_time, until=10**7)
    second = mixed({"A": 10 * MS, "B": period}, in_time, until=10**8)
    unit = OrderingUnit(clock=None)
    unit.feed(first)
    assert unit.stats.clock_types == ("A",)
    unit.feed(EventBatch(second.ts + 10**7, second.codes, second.types))
    assert unit.stats.clock_types == (clock,)


def total(unit: OrderingUnit, parts: list[Ordered]) -> dict[str, object]:
    return {
        "clock": np.concatenate([o.clock for o in parts]).tolist(),
        "slack": np.concatenate([o.slack for o in parts]).tolist(),
        "released": [
            pair
            for o in parts
            for pair in zip(o.released.rows.tolist(), o.released.at.tolist(), strict=True)
        ],
        "late": [row for o in parts for row in o.late.tolist()],
        "stats": str(unit.stats).replace(f"peak={unit.stats.peak}", ""),
    }


@settings(max_examples=15)
@given(
    st.sampled_from([None, ("ball", "near"), "ball"]),
    st.sampled_from(["largest", "decaying", "quantile"]),
    st.lists(st.integers(1, 9_000), min_size=1, max_size=8),
)
def test_learned_clocks_and_offsets_do_not_depend_on_batches(
    clock: str | tuple[str, ...] | None, slack: str, sizes: list[int]
) -> None:
    stream = sensor_stream(10_000, seed=7)
    whole, cut = OrderingUnit(clock=clock, slack=slack), OrderingUnit(clock=clock, slack=slack)
    bounds = [0, *np.minimum(np.cumsum(sizes), len(stream)).tolist(), len(stream)]
    parts = [cut.feed(stream[low:high]) for low, high in pairwise(bounds)]
    assert total(cut, parts) == total(whole, [whole.feed(stream)])


# Several clock types


def test_the_offsets_of_clock_types_are_measured() -> None:
    stream = mixed(
        {"fast": 20 * MS, "slow": MS}, {"fast": (0, 0), "slow": (50 * MS, 51 * MS)}, until=10**7
    )
    unit = OrderingUnit(clock=("fast", "slow"))
    unit.feed(stream)
    offsets = unit.stats.clock_offsets
    assert offsets["fast"] == 0
    # "slow" stays at least 50 ms behind, less the age of the newest "fast" event.
    assert 25 * MS < offsets["slow"] <= 51 * MS


def test_offsets_shorten_the_wait_when_a_rare_type_is_fast_and_a_frequent_one_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = mixed(
        {"fast": 20 * MS, "slow": MS, "x": 5 * MS},
        {"fast": (0, 0), "slow": (50 * MS, 51 * MS), "x": (0, 30 * MS)},
        until=10**7,
    )

    def wait_and_late(slack: str) -> tuple[float, int]:
        """The mean wait in arrivals, of the newer half of the stream."""
        unit = OrderingUnit(clock=("fast", "slow"), slack=slack)
        ordered = unit.feed(stream)
        released = ordered.released
        newer = released.rows > len(stream) // 2
        return float(np.mean((released.at - released.rows)[newer])), unit.stats.late

    measured = {slack: wait_and_late(slack) for slack in ("largest", "quantile")}
    monkeypatch.setattr(OffsetLearner, "measure", lambda *_: {})
    ignored = {slack: wait_and_late(slack) for slack in ("largest", "quantile")}
    assert measured["largest"][0] < 0.85 * ignored["largest"][0]
    assert measured["quantile"][0] < 0.6 * ignored["quantile"][0]
    for slack in measured:
        assert measured[slack][1] <= ignored[slack][1]


# Absurd times


def test_an_absurd_clock_event_becomes_a_side_row_and_does_not_settle_the_buffer() -> None:
    unit = OrderingUnit(clock="A", slack=10)
    unit.feed(parse("A0 B5 A8"))
    held = names(unit.buffer)
    absurd = Event("A", 2 * HOUR, {"sensor": 7})
    ordered = unit.feed([absurd])
    assert len(ordered.settled) == 0
    assert unit.stats.clock == 8
    assert names(unit.buffer)[: len(held)] == held
    ordered = unit.feed(parse("A9"))
    assert list(ordered.rejected) == [absurd]
    assert unit.stats.rejected == 1
    ordered = unit.feed(parse("B7 A30"))
    assert names(ordered.released.events) == ["A0", "B5", "B7", "A8", "A9"]
    assert names(unit.finish().released.events) == ["A30"]


def test_an_absurd_clock_event_in_the_middle_of_a_batch_leaves_the_rest_as_it_was() -> None:
    clean = parse("A0 B5 A8 A9 B7 A30 B20 A40")
    absurd = Event("A", 5 * HOUR)
    without, with_it = OrderingUnit(clock="A"), OrderingUnit(clock="A")
    expected = without.feed(clean)
    got = with_it.feed([*clean[:3], absurd, *clean[3:]])
    assert names(got.released.events) == names(expected.released.events)
    assert list(got.rejected) == [absurd]
    assert with_it.stats.slack == without.stats.slack


def test_three_absurd_clock_events_in_a_row_are_believed_and_nothing_is_lost() -> None:
    unit = OrderingUnit(clock="A", slack=10)
    stream = [*parse("A0 B5 A8"), *(Event("A", 2 * HOUR + t) for t in (0, 1, 2))]
    parts = [unit.feed(event) for event in stream]
    assert [o.clock[0] for o in parts] == [0, 0, 8, 8, 8, 2 * HOUR + 2]
    assert unit.stats.rejected == 0
    settled = [name for o in parts for name in names(o.settled.events)]
    settled += names(unit.finish().settled.events)
    assert sorted(settled) == sorted(f"{e.type}{e.ts}" for e in stream)


def test_suspects_at_the_end_of_the_stream_are_settled_not_lost() -> None:
    unit = OrderingUnit(clock="A", slack=10)
    unit.feed([*parse("A0 B5"), Event("A", 2 * HOUR)])
    assert names(unit.finish().settled.events) == ["A0", "B5", f"A{2 * HOUR}"]


def test_a_clock_event_exactly_max_skew_ahead_is_sound() -> None:
    unit = OrderingUnit(clock="A", max_skew=100)
    ordered = unit.feed(parse("A0 A100 A201 A200"))
    assert ordered.clock.tolist() == [0, 100, 100, 200]
    assert names(ordered.rejected) == ["A201"]


def test_max_skew_can_be_set_and_switched_off() -> None:
    stream = parse("A0 A200 A5")
    strict = OrderingUnit(clock="A", max_skew=100)
    assert names(strict.feed(stream).rejected) == ["A200"]
    trusting = OrderingUnit(clock="A", max_skew="off")
    ordered = trusting.feed([*stream, Event("A", 90 * HOUR)])
    assert len(ordered.rejected) == 0
    assert trusting.stats.clock == 90 * HOUR


def test_an_absurd_first_clock_event_does_not_stop_the_clock_for_good() -> None:
    unit = OrderingUnit(clock="A")
    unit.feed([Event("A", 1000 * HOUR), *(Event("A", t) for t in range(1000))])
    assert unit.stats.clock == 999
    assert unit.stats.buffered < 10
