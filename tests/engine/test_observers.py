"""Observers see what happens at a stage, in numbers that agree with the engine's own readings."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.news.outputs import Output, Outputs
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.observers import Observer
from betimes.engine.stats import DetectorStats
from betimes.model import Event, EventBatch
from betimes.model.change import Change, content, fold
from betimes.ordering import Ordered
from betimes.patterns import pattern
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import FOREVER, Count, Watched, feed_all, flat, share
from tests.engine.slicing import EveryNth

PAYLOADS = st.fixed_dictionaries({"k": st.integers(0, 2), "v": st.integers(0, 3)})
STREAMS = disordered(max_events=40, max_delay=25, payloads=PAYLOADS)
SPLITS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"by": "k"}, {"by": "k", "order": "key"}]
)


def every_tactic() -> Hierarchy:
    """A detector for each tactic, and one above them."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted"), on=("A", "B"), emits="counted", by="k", name="rows")
    hierarchy.add(EveryNth("nth"), on=("A", "C"), emits="nth", name="slices")
    hierarchy.add(pattern("A !B C", within=20, emits="found"), name="columns")
    hierarchy.add(Count("top", 1), on=("counted", "nth", "B"), emits="top", name="above")
    return hierarchy


class Tally(Observer):
    """Counts all that it is shown, by stage."""

    def __init__(self) -> None:
        self.counts: dict[Stage, Counter[str]] = defaultdict(Counter)
        self.standing: dict[Stage, dict[str, Output]] = defaultdict(dict)
        self.settled_to: dict[Stage, int] = {}
        self.calls = 0

    def arrived(self, stage: Stage, batch: EventBatch, answer: Ordered) -> None:
        self.calls += 1
        counts = self.counts[stage]
        counts["arrived"] += len(batch)
        counts["released"] += len(answer.released)
        counts["landed"] += int((answer.replayed.at >= 0).sum())
        counts["unit settled"] += len(answer.settled)

    def replayed(self, stage: Stage, key: Any, events: int) -> None:  # noqa: ARG002
        self.calls += 1
        self.counts[stage]["replays"] += 1
        self.counts[stage]["replayed"] += events

    def made(self, stage: Stage, outputs: Outputs) -> None:
        self.calls += 1
        self.counts[stage]["made"] += len(outputs)
        for output in outputs:
            assert output.id not in self.standing[stage], "made twice"
            self.standing[stage][output.id] = output

    def retracted(self, stage: Stage, outputs: Outputs) -> None:
        self.calls += 1
        self.counts[stage]["retracted"] += len(outputs)
        for output in outputs:
            del self.standing[stage][output.id]

    def settled(self, stage: Stage, ts: int) -> None:
        self.calls += 1
        assert ts >= self.settled_to.get(stage, -1), "time goes back"
        self.settled_to[stage] = ts


def readings(engine: Engine, stage: Stage, key: Any) -> DetectorStats:
    name = stage.node.name
    return engine.stats[name if key is None else f"{name} {key}"]


def check(engine: Engine, seen: Tally, changes: list[Change]) -> None:
    """What was seen is what the engine says of itself, and what it told."""
    stats = list(engine.stats.values())
    assert len(seen.counts) == len(stats), "every stage was seen"
    for stage, counts in seen.counts.items():
        assert counts["retracted"] == stage.counts.retracted
        assert counts["replayed"] == stage.counts.replayed
        assert counts["made"] == stage.counts.made
        assert stage.finality.final_to == seen.settled_to[stage]
        released = counts["released"] + counts["landed"]
        assert released == stage.unit.stats.released
        # Above, events are also taken back before they settle.
        assert counts["unit settled"] == released or stage.reads
        # Compiled patterns go back for all disturbed keys at once.
        at_once = stage.node.name == "columns"
        assert counts["replays"] <= stage.counts.replays
        assert at_once or counts["replays"] == stage.counts.replays
    for name in ("retracted", "replayed"):
        assert sum(getattr(each, name) for each in stats) == sum(
            counts[name] for counts in seen.counts.values()
        )
    standing = (output for each in seen.standing.values() for output in each.values())
    assert Counter(content(output.event) for output in standing) == fold(changes)


@given(STREAMS, engine_options(), SPLITS, st.data())
@share(0.2)
def test_what_is_seen_agrees_with_the_readings(
    stream: list[Event], options: dict[str, Any], split: dict[str, Any], data: st.DataObject
) -> None:
    seen = Tally()
    hierarchy = every_tactic()
    engine = Engine(hierarchy, **options, **split, retention=FOREVER, observers=[seen])
    changes = flat(feed_all(engine, data.draw(cut(stream))))
    if stream or split.get("order") != "key":
        check(engine, seen, changes)


@given(STREAMS, engine_options(), SPLITS, st.data())
@share(0.1)
def test_watching_changes_nothing(
    stream: list[Event], options: dict[str, Any], split: dict[str, Any], data: st.DataObject
) -> None:
    batches = data.draw(cut(stream))
    options |= {"retention": FOREVER, "time": lambda: 0.0} | split
    plain = feed_all(Engine(every_tactic(), **options), batches)
    assert (
        feed_all(Engine(every_tactic(), **options, observers=[Tally(), Tally()]), batches) == plain
    )


def stream_of(*times: int, k: int = 0) -> list[Event]:
    return [Event("A", ts, {"k": k, "v": 0}) for ts in times]


def counting() -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted", 1), on="A", emits="counted", name="count")
    return hierarchy


def test_one_late_event_step_by_step() -> None:
    class Log(Observer):
        def __init__(self) -> None:
            self.lines: list[tuple[Any, ...]] = []

        def arrived(self, stage: Stage, batch: EventBatch, answer: Ordered) -> None:  # noqa: ARG002
            handed = answer.released.ts.tolist(), answer.replayed.ts.tolist()
            self.lines.append(("arrived", batch.ts.tolist(), *handed, answer.settled.ts.tolist()))

        def replayed(self, stage: Stage, key: Any, events: int) -> None:  # noqa: ARG002
            self.lines.append(("replayed", key, events))

        def made(self, stage: Stage, outputs: Outputs) -> None:  # noqa: ARG002
            if outputs:
                self.lines.append(("made", [output.event["n"] for output in outputs]))

        def retracted(self, stage: Stage, outputs: Outputs) -> None:  # noqa: ARG002
            self.lines.append(("retracted", [output.event["n"] for output in outputs]))

        def settled(self, stage: Stage, ts: int) -> None:  # noqa: ARG002
            self.lines.append(("settled", ts))

    log = Log()
    engine = Engine(
        counting(), attenuation=0.0, slack=5, snapshots=1, retraction="on-demand", observers=[log]
    )
    for ts in (10, 13, 11):
        engine.feed(stream_of(ts))
    assert log.lines == [
        ("arrived", [10], [10], [], []),
        ("made", [1]),
        ("settled", 5),
        ("arrived", [13], [13], [], []),
        ("made", [2]),
        ("settled", 8),
        ("arrived", [11], [], [11, 13], []),
        ("replayed", None, 2),
        ("retracted", [2]),
        ("made", [2, 3]),
        ("settled", 8),
    ]


def test_with_an_order_for_each_key_the_stages_of_all_keys_are_seen() -> None:
    seen, watched = Tally(), Watched()
    engine = Engine(
        counting(), attenuation=0.0, by="k", order="key", snapshots=1, observers=[seen, watched]
    )
    engine.feed(stream_of(1, 2, 3, k=0) + stream_of(9, 7, k=1))
    engine.feed(stream_of(5, 8, 6, 7, k=2))
    assert len(watched.stages) == len(seen.counts) == 3
    for key, stage in enumerate(watched.stages):
        stats, counts = readings(engine, stage, key), seen.counts[stage]
        assert stats.replays == counts["replays"]
        assert stats.retracted == counts["retracted"]
        assert stats.released == counts["released"]
    assert [seen.counts[stage]["arrived"] for stage in watched.stages] == [3, 2, 4]


def test_observers_that_override_nothing_are_fine_and_several_see_the_same() -> None:
    one, another = Tally(), Tally()
    engine = Engine(counting(), attenuation=0.0, observers=[one, Observer(), another])
    engine.feed(stream_of(3, 1, 2))
    assert one.counts == another.counts
    assert one.calls == another.calls > 0


def test_without_observers_nobody_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("arrived", "replayed", "made", "retracted", "settled"):
        monkeypatch.setattr(Observer, name, lambda *_, name=name: calls.append(name))
    batches = [stream_of(5, 9, 7), stream_of(8, 30, 20)]
    feed_all(Engine(every_tactic(), attenuation=0.0), batches)
    assert not calls
    feed_all(Engine(every_tactic(), attenuation=0.0, observers=[Observer()]), batches)
    assert {"arrived", "made", "settled", "replayed"} <= set(calls)
