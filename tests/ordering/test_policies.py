"""Slack policies: how the slack follows the delays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from betimes.model import Duration, Event, EventBatch
from betimes.ordering import Ordered, OrderingUnit
from betimes.testing import delayed

Ints = npt.NDArray[np.int64]
MS = 1000


def straggling(delays: Ints, *, gap: int = MS) -> EventBatch:
    """Events of one type, `gap` apart, that arrive with these delays."""
    ts = np.arange(len(delays), dtype=np.int64) * gap
    return delayed(EventBatch(ts, np.zeros(len(ts), np.int32), ("A",)), delays)


def regime(n: int, longest: int, rng: np.random.Generator) -> Ints:
    return rng.integers(0, longest + 1, n)


def mean_wait(ordered: Ordered, batch: EventBatch) -> float:
    """In stream time: the clock at the release minus the clock at the arrival."""
    clock = np.maximum.accumulate(batch.ts)
    released = ordered.released
    return float(np.mean(clock[released.at] - clock[released.rows]))


def feed_names(unit: OrderingUnit, names: str) -> None:
    unit.feed([Event(name[0], int(name[1:])) for name in names.split()])


def test_largest_never_shrinks() -> None:
    rng = np.random.default_rng(1)
    delays = np.concatenate([regime(500, 100 * MS, rng), regime(5000, MS, rng)])
    slack = OrderingUnit(clock="*").feed(straggling(delays)).slack
    assert (np.diff(slack) >= 0).all()
    assert 90 * MS < slack[-1] < 130 * MS


def test_margin_adds_standard_deviations_of_the_delays() -> None:
    rng = np.random.default_rng(2)
    n = 20_000
    ts = np.arange(2 * n, dtype=np.int64) // 2 * 100
    codes = np.tile(np.array([0, 1], np.int32), n)
    # A sets the clock and is never late; B is 10 ms late, give or take up to 1 ms.
    lags = np.where(codes == 0, 0, rng.integers(9 * MS, 11 * MS + 1, 2 * n))
    batch = delayed(EventBatch(ts, codes, ("A", "B")), lags)
    slacks = {}
    for margin in (0.0, 1.0, 3.0):
        unit = OrderingUnit(clock="A", on="B", margin=margin)
        unit.feed(batch)
        slacks[margin] = unit.stats.slack
    deviation = 2 * MS / np.sqrt(12)
    assert slacks[1.0] - slacks[0.0] == pytest.approx(deviation, rel=0.3)
    assert slacks[3.0] - slacks[0.0] == pytest.approx(3 * deviation, rel=0.3)


@pytest.mark.parametrize("slack", ["largest", "decaying", "quantile"])
def test_clamps_clamp_the_slack_and_do_not_ignore_the_delay(slack: str) -> None:
    low = OrderingUnit(clock="A", slack=slack, min_slack=5, max_slack=20)
    assert low.stats.slack == 5
    feed_names(low, "A0 A2 C1 A3")
    assert low.stats.slack == 5
    feed_names(low, "A10 A20 A30 A50 C8 A51")
    assert low.stats.slack == 20
    assert low.stats.largest_delay == 43


@pytest.mark.parametrize("slack", ["3ms", 3000])
def test_a_duration_is_a_fixed_slack(slack: Duration) -> None:
    unit = OrderingUnit(clock="*", slack=slack)
    rng = np.random.default_rng(3)
    ordered = unit.feed(straggling(regime(2000, 50 * MS, rng)))
    assert set(ordered.slack.tolist()) == {3000}
    assert (ordered.released.ts <= ordered.clock[ordered.released.at] - 3000).all()


def test_decaying_forgets_a_straggler_with_stream_time() -> None:
    def slack_after(quiet: int) -> int:
        unit = OrderingUnit(clock="A", slack="decaying", decay="1s")
        feed_names(unit, f"A0 A{1000 * MS} B0 A{1000 * MS + 1}")
        assert unit.stats.slack == pytest.approx(1000 * MS, rel=0.01)
        unit.feed([Event("A", 1000 * MS + t * MS) for t in range(10, quiet, 10)])
        return unit.stats.slack

    slacks = [slack_after(quiet) for quiet in (100, 1000, 3000, 10_000)]
    assert slacks == sorted(slacks, reverse=True)
    # About 1/e after one time constant, next to nothing after ten.
    assert slacks[1] == pytest.approx(1000 * MS * 0.37, rel=0.1)
    assert slacks[3] < 20 * MS


def test_decaying_grows_at_once() -> None:
    unit = OrderingUnit(clock="A", slack="decaying", decay="1s")
    feed_names(unit, "A0 A10 A5000 B100 A5001")
    assert unit.stats.slack >= 4901


@pytest.mark.parametrize("max_late", [0.01, 0.05])
def test_quantile_follows_delays_that_grow_and_delays_that_shrink(max_late: float) -> None:
    rng = np.random.default_rng(4)
    n = 20_000
    spans = [10 * MS, 100 * MS, 10 * MS]
    delays = np.concatenate([regime(n, span, rng) for span in spans])
    ordered = OrderingUnit(clock="*", slack="quantile", max_late=max_late).feed(straggling(delays))
    for part, span in enumerate(spans):
        # The newest half of each regime, when the unit has had time to learn it.
        learned = slice(part * n + n // 2, (part + 1) * n)
        slack = np.mean(ordered.slack[learned])
        assert 0.5 * span < slack < 1.1 * span, f"regime {part}"
        late = np.count_nonzero((ordered.late >= learned.start) & (ordered.late < learned.stop))
        share = late / (n // 2)
        assert max_late / 4 < share < 1.2 * max_late, f"regime {part}"
    assert len(ordered.late) < 1.5 * max_late * len(delays)


def test_quantile_with_no_late_event_allowed_is_as_safe_as_its_window() -> None:
    rng = np.random.default_rng(5)
    batch = straggling(regime(20_000, 20 * MS, rng))
    unit = OrderingUnit(clock="*", slack="quantile", max_late=0.0)
    assert len(unit.feed(batch).late) < 0.005 * len(batch)


def test_quantile_does_not_let_one_straggler_set_the_slack() -> None:
    rng = np.random.default_rng(6)
    delays = regime(20_000, 10 * MS, rng)
    delays[1000] = 2000 * MS
    batch = straggling(delays)
    waits = {
        slack: mean_wait(OrderingUnit(clock="*", slack=slack).feed(batch), batch)
        for slack in ("largest", "quantile")
    }
    assert waits["quantile"] < 15 * MS
    assert waits["largest"] > 1000 * MS
