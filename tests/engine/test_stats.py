"""The readings of an engine make sense, and agree with what it told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.patterns import pattern
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import (
    FOREVER,
    BatchSum,
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


def test_delays_are_told_by_type() -> None:
    """However the stream is cut, and across a restart."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted", every=1), on=("A", "B", "C"), emits="counted", name="count")
    stream = [tick(ts) for ts in (0, 10)] + [Event("B", 6), tick(20), Event("C", 19), tick(22)]
    stream += [Event("B", 21), Event("B", 5)]
    rest = [tick(30)]
    for size in (1, 3, len(stream)):
        engine = Engine(hierarchy, attenuation=0.5)
        for low in range(0, len(stream), size):
            engine.feed(stream[low : low + size])
        assert engine.stats["count"].delays == {"A": 0, "B": 14, "C": 3}
        again = Engine(hierarchy, attenuation=0.5)
        again.restore(engine.checkpoint())
        for each in (engine, again):
            each.feed(rest)
            assert each.stats["count"].delays == {"A": 0, "B": 25, "C": 3}
    assert "delays={'A': 0, 'B': 25 us, 'C': 3 us}" in repr(again.stats["count"])


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


@pytest.mark.filterwarnings("ignore:pattern 'm'.*may wait forever")  # for that end, here
@pytest.mark.parametrize("compiled", [True, False])
def test_a_match_that_waits_for_the_end_of_the_stream_is_final_then(compiled: bool) -> None:
    rising = pattern("A B", where="B.v > A.v", emits="m", on=("A", "B"), limit=1000)
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(rising if compiled else rising.make, on=("A", "B"), emits="m", name="m")
    for count in (1, 200):
        engine = Engine(hierarchy)
        for at in range(0, 1000 * count, 1000):
            found = [("A", 1, 5), ("A", 2, 1), ("B", 3, 2)]
            engine.feed([Event(kind, at + ts, {"v": v}) for kind, ts, v in found])
        engine.finish()
        latency = engine.stats["m"].latency_final
        assert latency is not None
        assert 0 <= latency < 1000 * count


PAYLOADS = st.fixed_dictionaries({"k": st.integers(0, 1), "v": st.integers(0, 2)})


def _kinds() -> dict[str, Any]:
    """A detector of each tactic that takes A and B."""
    conditions = {"A": "type == 'A' and v < 2", "B": "type == 'B' and v > 0"}
    return {
        "rows": lambda: Count("m", every=2),
        "slices": lambda: BatchSum("m"),
        "columns": pattern("A B", emits="m", by="k", within=20, on=("A", "B"), limit=1000),
        "strict": pattern("A-B", emits="m", by="k", within=20, on=("A", "B"), limit=1000),
        "conditions": pattern("A B", emits="m", by="k", within=20, define=conditions),
        "general": pattern("A B+", emits="m", by="k", within=20, on=("A", "B"), limit=1000),
    }


@given(
    st.sampled_from(["rows", "slices", "columns", "strict", "conditions", "general"]),
    disordered(types="AABC", min_events=15, max_delay=25, payloads=PAYLOADS),
    st.fixed_dictionaries({
        "attenuation": st.sampled_from([1.0, 0.4, 0.0]),
        "late": st.sampled_from(["repair", "side", "drop"]),
        "retention": st.sampled_from([0, 5, FOREVER]),
        "max_skew": st.sampled_from(["off", 12]),
        "slack": st.sampled_from(["largest", 3]),
        "errors": st.just("skip"),
    }),
    st.sampled_from([
        {}, {"by": "k"}, {"by": "k", "order": "key"}, {"source": "v", "quiet": 15},
        {"source": "k", "by": "k"}, {"source": "v", "by": "k", "order": "key"},
    ]),
    st.booleans(),
    st.integers(1, 6),
)  # fmt: skip
def test_every_event_of_the_input_is_accounted_for(
    kind: str, stream: list[Event], options: dict[str, Any], keys: dict[str, Any], restart: bool,
    size: int,
) -> None:  # fmt: skip
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(_kinds()[kind], on=("A", "B"), emits="m", by="k", name="m")
    engine = Engine(hierarchy, **options, **keys)
    for low in range(0, len(stream), size):
        engine.feed(stream[low : low + size])
        fed = min(low + size, len(stream))
        check_law(engine, fed)
        if restart:
            other = Engine(hierarchy, **options, **keys)
            other.restore(engine.checkpoint())
            engine = other
            check_law(engine, fed)
    engine.finish()
    check_law(engine, len(stream))
    assert not sum(stats.waiting for stats in engine.stats.values())


def check_law(engine: Engine, fed: int) -> None:
    """Inputs are handled, late, rejected, ignored, or wait; each is one of these."""
    stats = engine.stats.values()
    told = sum(each.handled + each.late + each.waiting for each in stats)
    assert told + engine.rejected + sum(engine.ignored.values()) == fed


def test_errors_are_those_that_were_not_repaired() -> None:
    class NeverTwice:
        """Fails at an event that is like the one before."""

        def __init__(self) -> None:
            self.last = -1

        def on_event(self, event: Event) -> None:
            if event["n"] == self.last:
                raise ValueError("twice")
            self.last = event["n"]

    hierarchy = Hierarchy(clock="*")
    hierarchy.add(NeverTwice, on="A", emits="m", name="m")
    for batch in (False, True):
        engine = Engine(hierarchy, slack=0, errors="skip", retention=FOREVER, attenuation=0.0)
        engine.feed([tick(10, n=1), tick(20, n=1), tick(30, n=2)])
        assert engine.stats["m"].errors == 1
        engine.feed([tick(15, n=2)] if not batch else [tick(15, n=2), tick(40, n=1)])
        assert engine.stats["m"].errors == 0, "20 no longer follows an equal one"
        engine.feed([tick(16, n=1)])
        assert engine.stats["m"].errors == 1


def test_keys_that_look_alike_have_readings_of_their_own() -> None:
    engine = Engine(counting(), by="k", order="key")
    engine.feed([tick(1, k="1"), tick(2, k=1), tick(3, k=1)])
    engine.finish()
    assert {name: each.handled for name, each in engine.stats.items()} == {
        "count 1": 1, "count 1 (int)": 2,
    }  # fmt: skip
