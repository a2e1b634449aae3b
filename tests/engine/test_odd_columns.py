"""Arrow columns and histories that are rare, but valid."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Derived, Event, EventBatch
from betimes.model.change import Change, content, fold
from betimes.model.detector import DetectorError
from betimes.model.errors import EventError
from betimes.patterns import pattern
from betimes.testing.oracle import oracle

COUNT = 512


def pairs(by: str | None = None) -> Hierarchy:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(pattern("A B", emits="pair", by=by, within="1s"))
    return hierarchy


def table(column: Any) -> pa.Table:
    return pa.table({"ts": range(COUNT), "type": ["A", "B"] * (COUNT // 2), "d": column})


def coded(values: int, kind: Any) -> Any:
    """A dictionary that uses all numbers of its kind, and nulls."""
    codes = [None if row % 5 == 0 else row % values for row in range(COUNT)]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, kind), pa.array([f"d{value}" for value in range(values)])
    )


@pytest.mark.parametrize("by", [None, "d"])
@pytest.mark.parametrize("column", [coded(128, pa.int8()), coded(256, pa.uint8())])
def test_a_dictionary_may_be_full_and_have_nulls(column: Any, by: str | None) -> None:
    events = table(column)
    engine = Engine(pairs(by), attenuation=1.0)
    changes = [engine.feed(events), engine.finish()]
    rows = [change for batch in changes for change in batch]
    assert fold(rows) == oracle(pairs(by), EventBatch.from_arrow(events))
    written = [json.loads(str(text)) for batch in changes
               for text in batch.to_arrow(payload="json")["payload"].to_pylist()]  # fmt: skip
    assert written == [change.payload for change in rows]


@pytest.mark.parametrize("by", [None, "k"])
def test_null_in_a_dictionary_is_a_key(by: str | None) -> None:
    names = pa.array(["x", None, "x", None]).dictionary_encode()
    events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "k": names})
    engine = Engine(pairs("k"), attenuation=1.0, by=by)
    found = fold([*engine.feed(events), *engine.finish()])
    assert found == oracle(pairs("k"), EventBatch.from_arrow(events), by=by)
    assert sum(found.values()) == 2


def test_a_column_that_is_not_data_is_an_error_of_the_detector() -> None:
    pytest.importorskip("pandas")  # which Arrow needs for nanoseconds
    engine = Engine(pairs(), attenuation=1.0)
    events = table(pa.array(range(COUNT), pa.timestamp("ns")))
    with pytest.raises(
        DetectorError, match=r"'pair' made a 'pair' event between 1 and .* not data"
    ):
        engine.feed(events)


@dataclass
class Next:
    """A B right after an A."""

    last: str = ""

    def on_event(self, event: Event) -> Event | None:
        before, self.last = self.last, event.type
        return Event("hit", event.ts) if (before, event.type) == ("A", "B") else None


class Echo:
    def on_batch(self, batch: EventBatch) -> Derived:
        return Derived("echo", rows=range(len(batch)))


def test_a_restart_remembers_a_segment_whose_events_were_all_taken_back() -> None:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(Next, on=("A", "B", "C"), emits="hit", name="next")
    hierarchy.add(Echo, on="hit", emits="echo", name="echo")
    stream = [Event("A", 1), Event("B", 5), Event("C", 3), Event("A", 6), Event("B", 7)]
    engine = Engine(hierarchy, attenuation=0.0)
    changes: list[Change] = []
    for event in stream:
        changes += engine.feed([event])
        other = Engine(hierarchy, engine.options)
        other.restore(engine.checkpoint())
        engine = other
    changes += engine.finish()
    assert {"insert", "delete"} <= {c.change_type for c in changes if c.type == "echo"}
    assert fold(changes) == oracle(hierarchy, stream)


class Values:
    def on_batch(self, batch: EventBatch) -> Derived:
        return Derived("value", rows=range(len(batch)), payload={"v": batch.column("v")})


def test_whole_numbers_that_no_float_holds_may_be_followed_by_floats() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Values, on=("A", "B"), emits="value", name="values")
    engine = Engine(hierarchy, attenuation=1.0, slack=5)
    whole = pa.table({"ts": [1, 2], "type": ["A", "B"], "v": [2**53 + 1, 2]})
    broken = pa.table({"ts": [20, 21], "type": ["A", "B"], "v": [1.5, 2.5]})
    changes = [*engine.feed(whole), *engine.feed(broken), *engine.finish()]
    values = [change.payload["v"] for change in changes if change.change_type == "insert"]
    assert values == [2**53 + 1, 2, 1.5, 2.5]


def run_ends(values: list[Any]) -> Any:
    ends = pa.array(range(1, len(values) + 1), pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, pa.array(values))


def full(prefix: str) -> Any:
    """Chunks whose dictionaries do not fit into one with the same numbers."""
    return pa.chunked_array([
        pa.DictionaryArray.from_arrays(
            pa.array(range(128), pa.int8()), pa.array([f"{prefix}{part}-{n}" for n in range(128)])
        )
        for part in range(COUNT // 128)
    ])  # fmt: skip


@pytest.mark.parametrize("by", [None, "d"])
@pytest.mark.parametrize(
    "columns",
    [
        {"type": pa.array(["A", "B"] * (COUNT // 2)).cast(pa.string_view())},
        {"d": pa.array(["x", "y"] * (COUNT // 2)).cast(pa.string_view())},
        {"type": run_ends(["A", "B"] * (COUNT // 2))},
        {"d": run_ends([1, 2] * (COUNT // 2))},
        {"ts": run_ends(list(range(COUNT)))},
        {"d": full("d")},
        {"type": full("t")},
    ],
)
def test_any_encoding_of_a_column_will_do(columns: dict[str, Any], by: str | None) -> None:
    events = table(["x"] * COUNT)
    for name, column in columns.items():
        events = events.set_column(events.column_names.index(name), name, column)
    rows = [Event(*row.values()) for row in ({"type": each.pop("type"), "ts": each.pop("ts"),
            "payload": each} for each in events.to_pylist())]  # fmt: skip
    engine = Engine(pairs(by), attenuation=0.5)
    half = COUNT // 2
    parts = [engine.feed(events.slice(0, half)), engine.feed(events.slice(half)), engine.finish()]
    assert fold([change for part in parts for change in part]) == oracle(pairs(by), rows)


def test_two_columns_of_the_same_name_are_an_error_that_names_it() -> None:
    twice = pa.Table.from_arrays(
        [pa.array([1]), pa.array(["A"]), pa.array([1]), pa.array([2])], ["ts", "type", "d", "d"]
    )
    with pytest.raises(EventError, match="a different name for each column, got 'd' twice"):
        Engine(pairs()).feed(twice)


HALF = "\ud800"
"""Half of a surrogate pair: Python has such texts, UTF-8 does not."""


def echo(event: Event) -> Event:
    return Event("echo", event.ts, {**event.payload, "half": HALF, "list": [HALF]})


@pytest.mark.parametrize("by", [None, "d"])
@pytest.mark.parametrize("order", ["shared", "key"])
def test_texts_that_are_no_utf_8_are_kept_and_written_as_json(by: str | None, order: str) -> None:
    hierarchy = pairs(by)
    hierarchy.add(echo, on="A", emits="echo", by=by)
    events = [Event(kind, ts, {"d": HALF, HALF: 1}) for ts, kind in enumerate("ABBAB")]
    engine = Engine(hierarchy, attenuation=0.5, by="d", order=order)
    changes = [engine.feed(events[:3])]
    again = Engine(hierarchy, attenuation=0.5, by="d", order=order)
    again.restore(engine.checkpoint())
    changes += [again.feed(events[3:]), again.finish()]
    rows = [change for batch in changes for change in batch]
    assert fold(rows) == oracle(hierarchy, events, by="d")
    written = [json.loads(str(text)) for batch in changes
               for text in batch.to_arrow()["payload"].to_pylist()]  # fmt: skip
    assert written == [change.payload for change in rows]


def test_a_type_must_be_text_that_can_be_written() -> None:
    for events in (Event(HALF, 1), [Event("A", 1), Event(HALF, 1)]):
        with pytest.raises(EventError, match=r"the type is not text, got '\\ud800'"):
            Engine(pairs()).feed(events)


class Repeat:
    """Publishes what it gets, event by event."""

    def on_batch(self, batch: EventBatch) -> list[Derived]:
        return [
            Derived("echo", rows=[row], payload={n: [v] for n, v in event.payload.items()})
            for row, event in enumerate(batch)
        ]


COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(0, 5),
    "float": st.floats(0, 5),
    "null": st.one_of(st.none(), st.integers(0, 5)),
    "text": st.sampled_from(["a", "b"]),
}


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    """A stream in tables whose columns come and go, and change their types."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        kinds = draw(st.dictionaries(st.sampled_from("vw"), st.sampled_from([*COLUMNS])))
        count = draw(st.integers(1, 4))
        columns = {
            name: [draw(COLUMNS[kind]) for _ in range(count)] for name, kind in kinds.items()
        }
        times = draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))
        types = draw(st.lists(st.sampled_from("AX"), min_size=count, max_size=count))
        found.append(pa.table({"ts": times, "type": types, **columns}))
    return found


@given(tables(), st.sampled_from([0.0, 0.5, 1.0]))
def test_an_event_keeps_its_columns_whatever_it_is_handed_over_with(
    stream: list[pa.Table], attenuation: float
) -> None:
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(Repeat, on="A", emits="echo")
    engine = Engine(hierarchy, attenuation=attenuation, slack="100us")
    changes = [change for events in stream for change in engine.feed(events)]
    events = [event for each in stream for event in EventBatch.from_arrow(each)]
    sent = [Event("echo", event.ts, event.payload) for event in events if event.type == "A"]
    assert fold([*changes, *engine.finish()]) == Counter(map(content, sent))


@pytest.mark.parametrize(
    "where",
    [
        "A.v == B.ts",
        "A.ts != B.v",
        "A.v == B.w and abs(A.v) == B.v",
        "A.w == B.v and (A.w == B.w or A.v < B.v)",
        "A.flag or B.v > A.v",
        "not A.flag or A.v == B.v",
        "A.flag != B.flag or not B.flag and A.flag",
    ],
)
def test_columns_that_are_compared_are_kept_alike(where: str) -> None:
    """Columns of any kind may be compared with columns that must be numbers, or be conditions."""
    chance = Random(5)
    events = [
        Event(chance.choice("AB"), row // 4, {
            "v": chance.randint(0, 9), "w": 9 - chance.randint(0, 9),
            "flag": chance.choice([False, True, None]) if row else True,
        })
        for row in range(60)
    ]  # fmt: skip
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(pattern("A B", where=where, emits="pair", select={"a": "A.ts"}, within=60))
    expected = oracle(hierarchy, events)
    assert expected
    for form in (events, EventBatch.from_rows(events).to_arrow()):
        engine = Engine(hierarchy, attenuation=1.0)
        assert fold([*engine.feed(form), *engine.finish()]) == expected
