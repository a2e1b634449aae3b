"""Arrow columns and histories that are rare, but valid."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from betimes.engine import Engine, Hierarchy
from betimes.model import Derived, Event, EventBatch
from betimes.model.change import Change, fold
from betimes.model.detector import DetectorError
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
