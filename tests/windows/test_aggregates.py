"""Compiled aggregates give what Python gives, number by number, whatever the values are."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes import Engine, Event, EventBatch, Hierarchy, fold
from betimes.engine.stages.rows import RowTactic
from betimes.model.change import Change
from betimes.model.errors import BetimesError
from betimes.testing import oracle
from betimes.testing.strategies import cut, disordered
from betimes.windows.runs import RunTactic
from betimes.windows.summing import AggregateTactic
from tests.engine.material import FOREVER, share

EVERY = bt.aggregate(
    mean="avg(v)", n="count()", known="count(v)", total="sum(v)", low="min(v)", high="max(v)",
    begin="first(v)", end="last(v)", half="quantile(v, 0.5)", most="quantile(v, 0.9)",
    twice="sum(2 * v - 1)",
)  # fmt: skip
ANY = bt.aggregate(known="count(v)", begin="first(v)", end="last(v)")
SHAPES = [bt.window(time=10, slide=4), bt.window(time=6), bt.window(time=9, slide=2, offset=3)]
RUNS = [
    bt.window(count=3),
    bt.window(count=5, slide=2),
    bt.window(count=1),
    bt.window(gap=4),
    bt.window(gap=7),
]
LIMITED = [bt.window(gap=3, limit=1), bt.window(gap=5, limit=2), bt.window(gap=9, limit=4)]

floats = st.floats(allow_nan=True, allow_infinity=True, width=64)
small = st.integers(-5, 5)
NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "integers": small,
    "floats": floats,
    "both": small | floats,
    "nulls": st.none() | small,
    "large": st.integers(-(2**60), 2**60),
    "truth values": st.booleans() | small,
    "zeros": st.sampled_from([0.0, -0.0, 0]),
}


def hierarchy(operator: Any, shape: Any, by: str | None, instances: int = 1) -> Hierarchy:
    made = Hierarchy(clock="A")
    workers: Any = "auto" if instances == 1 else "inline"
    detector = bt.windowed(operator, shape, instances=instances, workers=workers)
    made.add(detector, on="A", emits="made", by=by, name="tested")
    return made


def tactic_of(made: Hierarchy) -> Any:
    return made._nodes["tested"].tactic.func  # type: ignore[attr-defined]


def streams(values: st.SearchStrategy[Any], keys: Any = None) -> st.SearchStrategy[list[Event]]:
    keys = st.integers(0, 2) if keys is None else keys
    payloads = st.fixed_dictionaries({"k": keys, "v": values})
    return disordered(types=["A"], max_events=30, max_delay=20, payloads=payloads)


def run(made: Hierarchy, batches: list[Any], **options: Any) -> tuple[Counter[Any], int]:
    engine = Engine(made, retention=FOREVER, **options)
    changes = [change for batch in batches for change in engine.feed(batch)]
    changes += engine.finish()
    return fold(changes), engine.stats["tested"].errors


@pytest.mark.parametrize("kind", NUMBERS)
@given(st.data(), st.sampled_from(SHAPES + RUNS), st.sampled_from([None, "k"]))
@share(0.3)
def test_numbers_of_all_kinds(kind: str, data: st.DataObject, shape: Any, by: str | None) -> None:
    stream = data.draw(streams(NUMBERS[kind]))
    made = hierarchy(EVERY, shape, by)
    assert tactic_of(made) in (AggregateTactic, RunTactic)
    batches = [list(batch) for batch in data.draw(cut(stream))]
    attenuation = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    assert run(made, batches, attenuation=attenuation)[0] == oracle(made, stream)


@pytest.mark.parametrize(
    "type", [pa.int8(), pa.uint64(), pa.int64(), pa.float32(), pa.float64()], ids=str
)
@given(st.data(), st.sampled_from(SHAPES + RUNS), st.sampled_from([None, "k"]))
@share(0.2)
def test_tables(type: pa.DataType, data: st.DataObject, shape: Any, by: str | None) -> None:
    values: Any = st.integers(0, 100)
    if pa.types.is_floating(type):
        values = floats.filter(lambda v: v != v or abs(v) < 1e30)
    stream = data.draw(streams(st.none() | values))
    columns: dict[str, pa.Array[Any]] = {
        "ts": pa.array([event.ts for event in stream], pa.int64()),
        "type": pa.array([event.type for event in stream], pa.string()),
        "k": pa.array([f"key {event['k']}" for event in stream], pa.string()),
        "v": pa.array([event["v"] for event in stream], pa.float64()).cast(type, safe=False),
    }
    batch = EventBatch.from_arrow(pa.table(columns))
    made = hierarchy(EVERY, shape, by)
    batches = [batch.part(low, low + 7) for low in range(0, len(batch), 7)]
    assert run(made, batches, attenuation=0.0)[0] == oracle(made, batch.rows())


@given(st.data(), st.sampled_from([None, "k"]))
@share(0.5)
def test_what_is_no_number_can_be_counted(data: st.DataObject, by: str | None) -> None:
    anything = st.none() | st.text(max_size=2) | small | st.lists(small, max_size=2)
    stream = data.draw(streams(anything, keys=st.sampled_from([1, "1", None, 2.5])))
    made = hierarchy(ANY, data.draw(st.sampled_from(SHAPES + RUNS)), by)
    batches = [list(batch) for batch in data.draw(cut(stream))]
    assert run(made, batches)[0] == oracle(made, stream)


@given(st.data(), st.sampled_from([*SHAPES, *RUNS, *LIMITED]), st.sampled_from([0.0, 0.5, 1.0]))
@share(1.0)
def test_an_event_that_cannot_be_added_is_left_out(
    data: st.DataObject, shape: Any, attenuation: float
) -> None:
    stream = data.draw(streams(small | st.sampled_from(["text", None])))
    made = hierarchy(bt.aggregate(total="sum(v)", n="count()"), shape, "k")
    batches = [list(batch) for batch in data.draw(cut(stream))]
    found = run(made, batches, errors="skip", attenuation=attenuation)
    made._nodes["tested"] = replace(made._nodes["tested"], tactic=RowTactic)
    in_order = [sorted(stream, key=lambda event: event.ts)]
    assert found == run(made, in_order, errors="skip")


def test_what_no_float_can_hold_is_infinite() -> None:
    made = hierarchy(bt.aggregate(mean="avg(v)", half="quantile(v, 0.5)"), bt.window(count=2), None)
    values = [Event("A", 1, {"v": -(10**400)}), Event("A", 2, {"v": -(10**400)})]
    assert run(made, [values[1:], values[:1]])[0] == oracle(made, values)
    (change,) = bt.detect(values, made)
    assert (change.payload["mean"], change.payload["half"]) == (-math.inf, -math.inf)


@pytest.mark.parametrize("shape", [bt.window(gap=5), bt.window(time=10)], ids=["gap", "time"])
def test_what_is_taken_back_is_what_was_said_to_the_kind_of_each_number(shape: Any) -> None:
    """Also if other results of the batch, or of the history, are of another kind."""
    made = hierarchy(bt.aggregate(x="max(v)"), shape, "k")

    def row(ts: int, v: float) -> list[Event]:
        return [Event("A", ts, {"k": k, "v": v}) for k in range(20)]

    batches = [row(1, 3), row(12, 2.5), row(25, 1), row(2, 9), row(13, 1.5), row(26, 4), row(60, 1)]
    engine, changes = Engine(made, attenuation=0, retention=FOREVER), list[Change]()
    for batch in batches:
        changes += engine.feed(batch)
        saved = engine.checkpoint()
        engine = Engine(made, attenuation=0, retention=FOREVER)
        engine.restore(saved)
    changes += engine.finish()
    said = {c.match_id: c.payload for c in changes if c.change_type == "insert"}
    for change in changes:
        assert repr(change.payload) == repr(said[change.match_id])
    assert fold(changes) == oracle(made, [event for batch in batches for event in batch])


def test_large_windows_take_no_room_for_events_that_never_came() -> None:
    made = hierarchy(bt.aggregate(n="count()"), bt.window(count=10**12, slide=1), "k")
    events = [Event("A", ts, {"k": ts // 2}) for ts in range(200)]
    assert len(bt.detect(events, made)) == 200


def test_text_that_is_no_unicode_is_handed_on() -> None:
    made = hierarchy(bt.aggregate(last="last(v)"), bt.window(count=1), None)
    (change,) = bt.detect([Event("A", 1, {"v": "\ud800"})], made)
    assert change.payload["last"] == "\ud800"


def test_values_that_cannot_be_compared_are_an_error() -> None:
    made = hierarchy(bt.aggregate(low="min(v)"), SHAPES[0], None)
    events = [Event("A", 1, {"v": 1}), Event("A", 2, {"v": "one"})]
    with pytest.raises(BetimesError, match=r"min\(v\) cannot take 'one' together with"):
        run(made, [events])


def test_a_missing_column_is_an_error() -> None:
    made = hierarchy(bt.aggregate(low="min(v)"), SHAPES[0], None)
    with pytest.raises(BetimesError, match="expected an event with a column 'v'"):
        run(made, [[Event("A", 1, {"w": 1})]])


@pytest.mark.parametrize("shape", [bt.window(time=5), bt.window(count=2)], ids=["time", "count"])
def test_a_quantile_of_text_is_an_error_of_the_event(shape: Any) -> None:
    made = hierarchy(bt.aggregate(half="quantile(v, 0.5)"), shape, None)
    events = [Event("A", ts, {"v": v}) for ts, v in ((1, "a"), (2, 4), (3, "b"), (4, 8))]
    with pytest.raises(BetimesError, match="a quantile is of numbers, not of 'a'"):
        run(made, [events])
    found, errors = run(made, [events], errors="skip")
    assert ['"half":6' in payload for _, _, payload in found] == [True]
    assert errors == 2


def test_keys_that_are_not_a_number_and_null_end_at_the_same_time() -> None:
    made = hierarchy(bt.aggregate(n="count()"), bt.window(gap=5), "k", instances=2)
    keys = (float("nan"), None, float("nan"), "null")
    found, _ = run(made, [[Event("A", 1, {"k": key}) for key in keys]], attenuation=0.0)
    assert found.total() == 4
