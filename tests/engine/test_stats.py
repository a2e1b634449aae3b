"""The readings of an engine make sense, and agree with what it told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.testing.strategies import cut, engine_options
from tests.engine.material import (
    FOREVER,
    Count,
    feed_all,
    flat,
    hierarchies,
    one_by_one,
    share,
    streams,
    tick,
)

DISORDERED = [tick(ts, k=0) for ts in (1, 2, 5, 7, 3, 9, 8, 12, 11, 20, 19, 30)]


def counting() -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted", every=1), on="A", emits="counted", name="count")
    return hierarchy


def test_before_anything_came() -> None:
    stats = Engine(counting()).stats["count"]
    assert (stats.detector, stats.level, stats.clock, stats.slack) == ("count", 1, None, 0)
    assert stats.attenuation == 1.0
    assert stats.latency_final is None
    assert stats.latency_provisional is None
    numbers = ("buffered", "remembered", "released", "handled", "replays", "replayed", "snapshots")
    assert {getattr(stats, name) for name in numbers} == {0}


def test_in_order_nothing_is_handled_twice() -> None:
    engine = Engine(counting(), attenuation=0.0)
    one_by_one(engine, [tick(ts, k=0) for ts in range(20)])
    stats = engine.stats["count"]
    assert (stats.released, stats.handled) == (20, 20)
    assert (stats.replays, stats.replayed, stats.retracted, stats.late) == (0, 0, 0, 0)
    assert (stats.buffered, stats.clock) == (0, 19)


@given(hierarchies(max_levels=3), streams(), engine_options(), st.data())
@share(0.4)
def test_readings_agree_with_what_was_told(
    hierarchy: Hierarchy, stream: list[Event], options: dict[str, object], data: st.DataObject
) -> None:
    engine = Engine(hierarchy, **options | {"retention": FOREVER})  # type: ignore[arg-type]
    changes = flat(feed_all(engine, data.draw(cut(stream))))
    for name, stats in engine.stats.items():
        deleted = [c for c in changes if (c.detector, c.change_type) == (name, "delete")]
        assert stats.retracted >= len(deleted)
        assert stats.replayed >= 0
        assert (stats.replays > 0) or not deleted
        assert stats.snapshot_bytes >= 0
        assert (stats.snapshots > 0) == (stats.remembered > 0)
        assert stats.late == stats.errors == 0
        assert stats.buffered == 0
        assert stats.busy >= 0.0
        assert stats.attenuation == options["attenuation"]
        made = any(c.detector == name for c in changes)
        assert (stats.latency_provisional is not None) == made or stats.retracted


def test_speculation_is_early_and_final_is_as_late_as_buffering() -> None:
    readings = {}
    for attenuation in (1.0, 0.0):
        engine = Engine(counting(), attenuation=attenuation, min_slack=10)
        for event in DISORDERED:
            engine.feed(event)
        stats = engine.stats["count"]
        assert stats.latency_provisional is not None
        assert stats.latency_final is not None
        readings[attenuation] = (stats.latency_provisional, stats.latency_final)
    early, final = readings[0.0]
    assert early < final
    assert early < readings[1.0][0]
    assert readings[1.0][0] <= readings[1.0][1]
    assert final >= 10


@pytest.mark.parametrize("retraction", ["full", "on-demand"])
def test_on_demand_retracts_no_more_than_what_changed(retraction: str) -> None:
    engine = Engine(counting(), attenuation=0.0, snapshots=1, retraction=retraction)
    changes = one_by_one(engine, DISORDERED)
    deleted = sum(change.change_type == "delete" for change in changes)
    stats = engine.stats["count"]
    assert stats.replays == 4
    assert stats.retraction == f"{retraction}: as configured"
    if retraction == "on-demand":
        assert stats.retracted == deleted


def test_auto_says_what_it_chose_and_why() -> None:
    engine = Engine(counting(), attenuation=0.0, retraction="auto", retention=FOREVER)
    assert engine.stats["count"].retraction.startswith("auto: on demand, until there are")
    for ts in range(0, 400, 10):
        engine.feed([tick(ts + 9, k=0)])
        engine.feed([tick(ts, k=0)])
    reason = engine.stats["count"].retraction
    assert reason.startswith(("auto: full: in", "auto: on demand: in"))
    assert "events were spared" in reason


def test_denser_snapshots_are_more() -> None:
    counts = []
    for snapshots in (1, 5, 1000):
        engine = Engine(counting(), attenuation=0.0, snapshots=snapshots)
        engine.feed(DISORDERED)
        counts.append(engine.stats["count"].snapshots)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_memory_is_bounded_by_slack_and_retention() -> None:
    engine = Engine(counting(), attenuation=0.0, snapshots=10, retention=100)
    remembered = []
    for low in range(0, 20_000, 100):
        engine.feed([tick(ts, k=0) for ts in range(low, low + 100)])
        remembered.append(engine.stats["count"].remembered)
    assert max(remembered) <= 100 + 100 + 2 * 10
    assert max(remembered[100:]) <= max(remembered[:100])


def test_late_clock_events_leave_nothing() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted"), on="B", emits="counted", name="count")
    engine = Engine(hierarchy, attenuation=1.0, late="drop")
    batches = [[tick(ts + 60), tick(ts)] for ts in range(0, 30_000, 3)]
    early, late = sizes(engine, batches)
    assert late < 1.5 * early


def test_what_came_and_went_leaves_nothing() -> None:
    """Speculation makes many outputs that nobody hears of again."""
    engine = Engine(counting(), attenuation=0.0, snapshots=10, retention=50)
    batches = [[tick(ts, k=0)] for low in range(0, 30_000, 10) for ts in (low + 9, low)]
    early, late = sizes(engine, batches)
    assert late < 1.5 * early


def sizes(engine: Engine, batches: list[list[Event]]) -> tuple[int, int]:
    """The bytes of the whole state after half of the batches, and after all."""
    half = len(batches) // 2
    for batch in batches[:half]:
        engine.feed(batch)
    early = len(engine.checkpoint())
    for batch in batches[half:]:
        engine.feed(batch)
    return early, len(engine.checkpoint())
