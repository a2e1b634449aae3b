"""How long the policies wait, and how much is late, on many streams.

The streams and the yardstick, the best fixed slack in hindsight, are those of the benchmark.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from benchmarks.estimators import (
    DRAWN,
    HOUR,
    MINUTE,
    MS,
    SECOND,
    Recording,
    best_fixed,
    delays,
    draw,
    recorded,
    run,
    twins,
)
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import EventBatch
from betimes.model.codec import CheckpointError
from betimes.ordering import OrderingUnit, SlackPolicy
from betimes.testing import ReferenceUnit

MAX_LATE = 0.01
KINDS = ("exponential", "uniform", "lognormal", "normal", "stragglers", "heavy tail")


def steady(kind: str, unit: float, density: float, *, seed: int, n: int = 10_000) -> Recording:
    rng = np.random.default_rng(seed)
    ts = np.cumsum(rng.exponential(unit / density, n))
    return Recording.of(kind, ts, unit * delays(kind, n, rng))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [MS, SECOND, MINUTE, HOUR])
@pytest.mark.parametrize("density", [1, 10])
def test_with_steady_delays_quantile_waits_little_longer_than_the_best_fixed_slack(
    kind: str, unit: float, density: float
) -> None:
    recording = steady(kind, unit, density, seed=1)
    outcome = run(recording, "quantile", MAX_LATE)
    best = run(recording, best_fixed(recording, MAX_LATE), MAX_LATE)
    assert outcome.wait <= 1.3 * best.wait
    assert MAX_LATE / 2 < outcome.share <= MAX_LATE


@pytest.mark.parametrize("recording", [*recorded()], ids=lambda recording: recording.name)
def test_on_recordings_quantile_waits_at_most_twice_as_long_as_the_best_fixed_slack(
    recording: Recording,
) -> None:
    # Parts of a recording are recordings, too.
    n = len(recording.ts)
    for part in (slice(0, n), slice(n // 5, n), slice(0, n * 4 // 5)):
        piece = Recording("part", recording.ts[part], recording.arrival[part])
        best = run(piece, best_fixed(piece, MAX_LATE), MAX_LATE)
        outcome = run(piece, "quantile", MAX_LATE)
        assert outcome.wait <= 2 * best.wait
        assert outcome.share <= MAX_LATE


@pytest.mark.parametrize("make", DRAWN, ids=lambda make: make.__name__)
def test_late_events_stay_within_max_late_whatever_the_delays_do(make: Any) -> None:
    rng = np.random.default_rng(2)
    shares = [run(draw(make, rng, MAX_LATE)[0], "quantile", MAX_LATE).share for _ in range(8)]
    # A stream may end before what was late in a burst is paid back.
    assert np.mean(shares) <= MAX_LATE
    assert sum(share > MAX_LATE for share in shares) <= 2
    assert max(shares) < 2 * MAX_LATE


@pytest.mark.parametrize("length", [100, 300, 1000])
@pytest.mark.parametrize("times", [6, 20])
def test_a_burst_at_the_start_does_not_exceed_max_late(length: int, times: int) -> None:
    rng = np.random.default_rng(3)
    n = 10_000
    longer = np.where(np.arange(n) < length, times, 1)
    ts = (1000 * np.arange(n)).astype(np.float64)
    recording = Recording.of("burst", ts, 1000 * longer * rng.exponential(1, n))
    outcome = run(recording, "quantile", MAX_LATE)
    assert outcome.share <= MAX_LATE
    # And it is forgotten.
    calm = Recording("calm", recording.ts[2 * length :], recording.arrival[2 * length :])
    unit = OrderingUnit(clock="*", slack="quantile", max_late=MAX_LATE)
    unit.feed(recording.events)
    assert unit.stats.slack < 2 * best_fixed(calm, MAX_LATE)


@pytest.mark.parametrize("unit", [MS, SECOND, MINUTE, HOUR])
@pytest.mark.parametrize("density", [1, 10, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_decaying_suits_delays_of_any_length(kind: str, unit: float, density: float) -> None:
    recording = steady(kind, unit, density, seed=4, n=5_000)
    outcome = run(recording, "decaying", MAX_LATE)
    assert outcome.share < MAX_LATE
    assert outcome.wait <= run(recording, "largest", MAX_LATE).wait


def test_decaying_forgets_a_straggler_within_sixty_times_its_delay() -> None:
    for delay in (1_000, 1_000_000, 1_000_000_000):
        unit = OrderingUnit(clock="A", slack="decaying", max_skew="off")
        late = EventBatch(np.array([delay, 0, delay]), np.array([0, 1, 0], np.int32), ("A", "B"))
        unit.feed(late)
        assert unit.stats.slack == delay
        for times, left in ((15, 0.75), (30, 0.5), (61, 0.0)):
            quiet = delay + np.linspace(0, times * delay, 1_000).astype(np.int64)
            quiet = quiet[quiet > (unit.clock or 0)]
            unit.feed(EventBatch(quiet, np.zeros(len(quiet), np.int32), ("A",)))
            assert unit.stats.slack == pytest.approx(left * delay, abs=0.02 * delay)


def cuts(n: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, n), max_size=6).map(lambda at: [0, *sorted(at), n])


@st.composite
def long_streams(draw: st.DrawFn) -> EventBatch:
    """Long enough for the window to fade and for the account of late events to matter."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(300, 2_000))
    burst = draw(st.integers(0, n))
    unit = draw(st.sampled_from([3, 1_000, 10**9]))
    longer = np.where(np.arange(n) < burst, draw(st.sampled_from([1, 10])), 1)
    kind = draw(st.sampled_from(KINDS))
    ts = np.cumsum(rng.exponential(unit, n))
    return Recording.of(kind, ts, unit * longer * delays(kind, n, rng)).events


options = st.fixed_dictionaries(
    {
        "slack": st.sampled_from(["quantile", "decaying"]),
        "max_late": st.sampled_from([0.0, 0.001, 0.01, 0.2]),
    }
)


@given(long_streams(), options, st.data())
def test_long_streams_agree_with_the_reference(
    stream: EventBatch, options: dict[str, Any], data: st.DataObject
) -> None:
    reference = ReferenceUnit(clock=("*",), policy=SlackPolicy.parse(**options), max_skew=2**62)
    rows = [reference.feed("event", ts) for ts in stream.ts.tolist()]
    unit = OrderingUnit(clock="*", max_skew="off", **options)
    at = data.draw(cuts(len(stream)))
    answers = [unit.feed(stream[low:high]) for low, high in pairwise(at)]
    assert np.concatenate([a.slack for a in answers]).tolist() == [row.slack for row in rows]
    late = np.flatnonzero([row.late for row in rows]).tolist()
    assert np.concatenate([a.late for a in answers]).tolist() == late


@given(long_streams(), options, st.floats(0, 1))
def test_a_restart_anywhere_changes_nothing(
    stream: EventBatch, options: dict[str, Any], where: float
) -> None:
    at = int(where * len(stream))
    whole = OrderingUnit(clock="*", max_skew="off", **options)
    first = OrderingUnit(clock="*", max_skew="off", **options)
    second = OrderingUnit(clock="*", max_skew="off", **options)
    expected = whole.feed(stream).slack[at:].tolist()
    first.feed(stream[:at])
    second.resume(first.state_of())
    assert second.feed(stream[at:]).slack.tolist() == expected
    assert second.stats.late == whole.stats.late


@pytest.mark.parametrize(
    "damage",
    [
        lambda loop: loop.update(window=loop["window"][:-1]),
        lambda loop: loop.update(window=loop["window"].astype(float)),
        lambda loop: loop.update(window=-loop["window"]),
        lambda loop: loop.update(window=loop["window"] + 1),
        lambda loop: loop.update(window=np.roll(loop["window"], 1)),
        lambda loop: loop.update(state=np.zeros_like(loop["state"])),
    ],
)
def test_a_window_that_does_not_fit_is_refused(damage: Any) -> None:
    unit = OrderingUnit(clock="*", slack="quantile")
    unit.feed(steady("uniform", SECOND, 10, seed=5, n=1_000).events)
    state = unit.state_of()
    damage(state["loop"])
    with pytest.raises(CheckpointError):
        OrderingUnit(clock="*", slack="quantile").resume(state)


def test_no_policy_is_prepared_for_what_never_happened() -> None:
    """Two streams that begin alike: what is enough in one is far too much in the other."""
    calm, outage = twins(np.random.default_rng(1))
    known = 4_800
    assert (calm.ts[:known] == outage.ts[:known]).all()
    assert (calm.arrival[:known] == outage.arrival[:known]).all()
    for slack in ("quantile", "decaying", "largest"):
        assert run(calm, slack, MAX_LATE).share <= MAX_LATE
        assert run(outage, slack, MAX_LATE).share > 2 * MAX_LATE
    best, needed = best_fixed(calm, MAX_LATE), best_fixed(outage, MAX_LATE)
    assert run(calm, needed, MAX_LATE).wait > 5 * run(calm, best, MAX_LATE).wait
