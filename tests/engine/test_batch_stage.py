"""Detectors per batch that get input events as columns: the same as handing over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.stages.slices.events import Slice
from betimes.model import Derived, Event, EventBatch
from betimes.model.change import Change, fold
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import FOREVER, flat, share, standing
from tests.engine.slicing import Above, EveryNth, Own, Steps, in_columns, row_by_row, sliced

PAYLOADS = st.fixed_dictionaries({"k": st.integers(0, 2), "v": st.integers(0, 3)})
STREAMS = disordered(min_events=10, max_events=50, max_delay=25, payloads=PAYLOADS)


def as_fed(batch: Sequence[Event], form: str) -> Any:
    """A batch as Python's events, as an Arrow table, or as one or the other."""
    arrow = form == "arrow" or (form == "mixed" and len(batch) % 2)
    return EventBatch.from_rows(batch).to_arrow() if arrow and batch else list(batch)


FORMS = st.sampled_from(["arrow", "arrow", "events", "mixed"])
SPLITS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"by": None}, {"by": None}, {"by": "k"}, {"by": "k", "order": "key"}]
)


def feed_unsteadily(
    data: st.DataObject, engine: Engine, stream: list[Event], options: dict[str, Any]
) -> list[list[Change]]:
    """Feed batches; on the way the attenuation changes, and others go on from checkpoints."""
    form, changes = data.draw(FORMS), []
    for batch in data.draw(cut(stream)):
        value = data.draw(st.sampled_from([None, None, None, 1.0, 0.4, 0.0]))
        if value is not None:
            engine.set_attenuation(value)
        if data.draw(st.integers(0, 4)) == 4:
            engine = restarted(engine, options)
        changes.append(list(engine.feed(as_fed(batch, form))))
    return [*changes, list(engine.finish())]


def restarted(engine: Engine, options: dict[str, Any]) -> Engine:
    other = in_columns(engine.hierarchy, **options)
    other.restore(engine.checkpoint())
    other.set_attenuation(next(iter(engine.attenuation.values())))
    return other


# Order does not show


@given(sliced(), STREAMS, engine_options(), st.data())
@share(0.5)
def test_folded_changes_are_the_result_of_perfect_order(
    hierarchy: Hierarchy, stream: list[Event], options: dict[str, Any], data: st.DataObject
) -> None:
    options |= {"retention": FOREVER, **data.draw(SPLITS)}
    batches = feed_unsteadily(data, in_columns(hierarchy, **options), stream, options)
    assert fold(flat(batches)) == oracle(hierarchy, stream, by=options["by"])
    for batch in batches:
        ids = [change.match_id for change in batch]
        assert len(ids) == len(set(ids)), "two changes of one match in a batch"
    assert {change.status for change in standing(flat(batches)).values()} <= {"final"}


def feed_all(engine: Engine, batches: Any, form: str) -> list[Change]:
    return flat([*(engine.feed(as_fed(batch, form)) for batch in batches), engine.finish()])


@given(sliced(plain=False), STREAMS, engine_options(), st.data())
@share(0.4)
def test_rows_are_those_of_events_handed_over_one_by_one(
    hierarchy: Hierarchy, stream: list[Event], options: dict[str, Any], data: st.DataObject
) -> None:
    """Row by row the same changes: also times, causes, and what comes too late."""
    options |= {
        "late": data.draw(st.sampled_from(["repair", "side", "drop"])),
        "retention": data.draw(st.sampled_from([0, 20, FOREVER])),
        "max_skew": data.draw(st.sampled_from(["1h", 30])),
        "slack": data.draw(st.sampled_from(["largest", 5, "quantile", "decaying"])),
        "snapshots": data.draw(st.sampled_from([1, 3, 1000, "speculative:5"])),
        **data.draw(SPLITS),
    }
    batches = data.draw(cut(stream))
    columns = in_columns(hierarchy, **options)
    rows = row_by_row(hierarchy, **options)
    assert feed_all(columns, batches, data.draw(FORMS)) == feed_all(rows, batches, "events")
    for name in ("late", "released", "slack", "errors", "retracted"):
        readings = [
            [getattr(stats, name) for stats in engine.stats.values()] for engine in (columns, rows)
        ]
        assert readings[0] == readings[1], name


def test_rows_are_in_the_order_of_their_places_although_keys_went_back() -> None:
    """Two keys go back in one batch, and nothing is taken back: it does not show in the order."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(EveryNth("L0"), on="A", emits="L0", by="k")
    events = [(0, 0), (0, 1), (0, 2), (4, 0), (8, 1), *[(8, 0)] * 6, (0, 1), (0, 0), (8, 0)]
    stream = [Event("A", ts, {"k": k, "v": 0}) for ts, k in events]
    options: dict[str, Any] = {"attenuation": 1.0, "snapshots": 1, "max_skew": 30}
    for batches in ([stream], [stream[:11], stream[11:]]):
        rows = feed_all(row_by_row(hierarchy, **options), batches, "events")
        assert feed_all(in_columns(hierarchy, **options), batches, "arrow") == rows
        for batch in batches:
            inserts = [c.ts for c in in_columns(hierarchy, **options).feed(batch)]
            assert inserts == sorted(inserts)


@given(sliced(plain=False), STREAMS, st.data())
@share(0.2)
def test_with_pure_buffering_nothing_depends_on_the_cut(
    hierarchy: Hierarchy, stream: list[Event], data: st.DataObject
) -> None:
    options: dict[str, Any] = {"attenuation": 1.0, "min_slack": 200}
    expected = standing(feed_all(in_columns(hierarchy, **options), [stream], "events"))
    found = feed_all(in_columns(hierarchy, **options), data.draw(cut(stream)), "arrow")
    facts = ("type", "ts", "payload", "detected_at", "slack", "cause", "status")
    for match_id, change in standing(found).items():
        for fact in facts:
            assert getattr(change, fact) == getattr(expected[match_id], fact), fact
    assert len(standing(found)) == len(expected)


# Columns all the way


def positions(n: int = 4000, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    order = np.argsort(np.arange(n) + rng.integers(0, 40, n), kind="stable")
    types = np.where(np.arange(n) % 5 == 0, "ball", "position")[order]
    columns = {"ts": 1000 + order, "type": types, "k": order % 3, "v": rng.integers(0, 9, n)}
    named = {name: pa.array(column) for name, column in columns.items()}
    return pa.table({**named, "unused": pa.array(["text"] * n)})


def two_levels() -> Hierarchy:
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(Own("again"), on="*", emits="again", name="own")
    hierarchy.add(EveryNth("nth", every=50), on="position", emits="nth", name="nth")
    hierarchy.add(EveryNth("mine", every=9), on="position", emits="mine", by="k", name="mine")
    hierarchy.add(Above("above"), on=("nth", "mine", "again"), emits="above", name="above")
    hierarchy.add(Above("top"), on="above", emits="top", name="top")
    return hierarchy


@pytest.mark.parametrize("attenuation", [1.0, 0.3])
@pytest.mark.parametrize("by", [None, "k"])
def test_no_input_event_becomes_a_python_object(
    attenuation: float, by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, hierarchy = positions(), two_levels()
    engine = Engine(hierarchy, attenuation=attenuation, by=by)
    expected = oracle(hierarchy, EventBatch.from_arrow(table).rows(), by=by)
    with monkeypatch.context() as patch:
        patch.delattr(EventBatch, "rows")
        parts = [table.slice(low, 500) for low in range(0, len(table), 500)]
        changes = flat([engine.feed(part) for part in parts])
    assert fold([*changes, *engine.finish()]) == expected


class Reads:
    """Tells which columns it was handed."""

    columns: tuple[str, ...] | None = None

    def on_batch(self, batch: EventBatch) -> Derived:
        names = batch.payload.column_names if isinstance(batch.payload, pa.Table) else ["rows"]
        return Derived("read", rows=[0], payload={"names": [names]})


class ReadsTwo(Reads):
    columns = ("v", "k")


class ReadsNone(Reads):
    columns = ()


@pytest.mark.parametrize(
    ("detector", "names"),
    [
        (Reads, ["k", "v", "unused"]),
        (ReadsTwo, ["v", "k"]),
        (ReadsTwo(), ["v", "k"]),
        (lambda: ReadsTwo(), ["v", "k"]),
        (ReadsNone, ["rows"]),
    ],
)
def test_only_declared_columns_are_kept(detector: Any, names: list[str]) -> None:
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(detector, on="position", emits="read")
    engine = Engine(hierarchy, attenuation=1.0)
    changes = [*engine.feed(positions(100)), *engine.finish()]
    assert {tuple(change.payload["names"]) for change in changes} == {tuple(names)}


def test_large_slices_are_handed_over_as_they_come() -> None:
    sizes = []

    class Sizes:
        def on_batch(self, batch: EventBatch) -> None:
            sizes.append(len(batch))

    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(Sizes, on="*", emits="nothing")
    engine = Engine(hierarchy, attenuation=1.0, min_slack=100)
    table = positions(40_000)
    for low in (0, 20_000):
        engine.feed(table.slice(low, 20_000))
    engine.finish()
    assert sum(sizes) == 40_000
    assert sorted(sizes)[-2:][0] > 19_000, "a batch is one slice"


def test_a_replay_stops_where_the_state_is_as_it_was() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Steps("step"), on=("A", "B"), emits=("step", "step-"), name="steps")
    options: dict[str, Any] = {"attenuation": 0.0, "snapshots": 10, "min_slack": 150}
    engine = Engine(hierarchy, retraction="on-demand", **options)
    stream = [Event("A", ts, {"k": 0, "v": ts % 7}) for ts in range(200)]
    stream += [Event("B", 105, {"k": 0, "v": 9}), Event("A", 200, {"k": 0, "v": 9})]
    first, late, after = (engine.feed(part) for part in (stream[:200], stream[200], stream[201]))
    assert {change.ts for change in late if change.change_type == "insert"} == {105, 106}
    assert engine.stats["steps"].replayed <= 20
    assert fold([*first, *late, *after, *engine.finish()]) == oracle(hierarchy, stream)


def test_events_of_one_time_stand_in_the_order_of_their_arrival() -> None:
    ts, arrival = np.array([3, 3, 5, 3, 1]), np.array([4, 7, 0, 2, 9])
    events = Slice(EventBatch(ts, np.zeros(5, np.int32), ("A",)), arrival, arrival)
    assert events.sorted().arrival.tolist() == [9, 2, 4, 7, 0]


@pytest.mark.parametrize("by", [None, "k"])
def test_what_is_settled_is_forgotten_for_every_key(by: str | None) -> None:
    """Also of keys that fall silent, or are rare: 5 of 500 events at a time."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(EveryNth("nth"), on="A", emits="nth", by=by, name="nth")
    engine = Engine(hierarchy, attenuation=0.5, min_slack=20, retention=500)
    remembered = []
    for low in range(0, 20_000, 500):
        keys = [low // 1000 if ts % 100 else 1000 + ts % 7 for ts in range(low, low + 500)]
        events = [Event("A", low + n, {"k": key, "v": 1}) for n, key in enumerate(keys)]
        engine.feed(EventBatch.from_rows(events).to_arrow())
        remembered.append(engine.stats["nth"].remembered)
    assert max(remembered[10:]) <= max(remembered[:10])


def test_a_checkpoint_holds_what_is_remembered_and_no_more() -> None:
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(EveryNth("nth", every=50), on="*", emits="nth", name="nth")
    engine = Engine(hierarchy, attenuation=1.0, retention=100)
    table = positions(10_000)
    sizes = []
    for low in range(0, len(table), 500):
        engine.feed(table.slice(low, 500))
        sizes.append(len(engine.checkpoint()))
    assert max(sizes[12:]) < 1.5 * max(sizes[:6])
