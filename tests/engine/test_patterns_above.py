"""Compiled patterns above the first level: the same as the general matcher, and as the oracle."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes.engine import Engine, Hierarchy
from betimes.engine.news.outputs import Outputs
from betimes.engine.stages.columns import ColumnTactic
from betimes.engine.stages.observers import Observer
from betimes.engine.stages.rows import RowTactic
from betimes.model import Event, EventBatch
from betimes.model.change import Change, ChangePart, content, fold
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import FOREVER, flat, share, standing

PAYLOADS = st.fixed_dictionaries({"k": st.integers(0, 1), "v": st.integers(0, 3)})
STREAMS = disordered(min_events=10, max_events=50, max_delay=25, payloads=PAYLOADS)
LOWER = ["A B", "A !B C", "A !(A|B) C", "A (B|C)"]
UPPER = ["pair C", "pair !B C", "(pair|A) C", "pair !(A|pair) (C|B)", "A pair", "A !pair B"]


@st.composite
def two_levels(draw: st.DrawFn) -> Hierarchy:
    """A pattern on input events, perhaps a detector in Python, and a pattern above them."""
    hierarchy = Hierarchy(clock=draw(st.sampled_from(["A", ("A", "B"), "*"])))
    by = draw(st.sampled_from([None, "k"]))
    within = draw(st.sampled_from([None, 20]))
    select = {"k": "A.k"} if by else None
    lower = draw(st.sampled_from(LOWER))
    hierarchy.add(bt.pattern(lower, by=by, emits="pair", within=within, select=select))
    if draw(st.booleans()):
        hierarchy.add(odd, on=("A", "B"), emits="pair", name="odd")
    upper = draw(st.sampled_from(UPPER))
    hierarchy.add(bt.pattern(upper, by=by, emits="top", within=draw(st.sampled_from([None, 30]))))
    return hierarchy


def odd(event: Event) -> Event | None:
    """Publishes the same type with other fields."""
    return Event("pair", event.ts, {"k": event["k"], "odd": event["v"]}) if event["v"] % 2 else None


def general(hierarchy: Hierarchy) -> Hierarchy:
    """The same with all patterns run by the general matcher."""
    rows = copy.copy(hierarchy)
    rows._nodes = {node.name: replace(node, tactic=RowTactic) for node in hierarchy}
    return rows


def feed_all(
    engine: Engine, batches: Sequence[Sequence[Event]], *, arrow: bool, restarts: list[bool]
) -> list[Change]:
    changes = []
    for batch, restart in zip(batches, restarts, strict=True):
        if restart:
            other = Engine(engine.hierarchy, engine.options)
            other.restore(engine.checkpoint())
            engine = other
        table: Any = EventBatch.from_rows(batch).to_arrow() if arrow and batch else batch
        changes.append(engine.feed(table))
    return flat([*changes, engine.finish()])


@given(two_levels(), STREAMS, engine_options(), st.data())
@share(0.6)
def test_compiled_patterns_find_the_same_on_every_level(
    hierarchy: Hierarchy, stream: list[Event], options: dict[str, Any], data: st.DataObject
) -> None:
    options |= {"retention": FOREVER}
    batches = data.draw(cut(stream))
    restarts = data.draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))
    compiled = Engine(hierarchy, **options)
    assert isinstance(compiled._order.stages["top"].tactic, ColumnTactic)
    changes = feed_all(compiled, batches, arrow=data.draw(st.booleans()), restarts=restarts)
    assert fold(changes) == oracle(hierarchy, stream)
    assert {change.status for change in standing(changes).values()} <= {"final"}
    rows = feed_all(
        Engine(general(hierarchy), **options), batches, arrow=False, restarts=[False] * len(batches)
    )
    assert told(changes) == told(rows)


@given(two_levels(), STREAMS, st.data())
@share(0.2)
def test_matches_are_dated_alike_on_every_level(
    hierarchy: Hierarchy, stream: list[Event], data: st.DataObject
) -> None:
    """With pure buffering nothing goes back, so all that is told must be the same."""
    options: dict[str, Any] = {"attenuation": 1.0, "min_slack": 200}
    batches = data.draw(cut(stream))
    once = [False] * len(batches)
    found = feed_all(Engine(hierarchy, **options), batches, arrow=True, restarts=once)
    rows = feed_all(Engine(general(hierarchy), **options), batches, arrow=False, restarts=once)
    assert found == rows


def told(changes: list[Change]) -> list[Any]:
    """What stands in the end."""
    rows = standing(changes).values()
    return sorted((c.match_id, content(c.event), c.cause) for c in rows)


def test_matches_of_matches_stay_columns() -> None:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(bt.pattern("A B", emits="pair"))
    hierarchy.add(bt.pattern("pair C", emits="top"))
    times = list(range(1, 1001))
    table = pa.table({"ts": times, "type": ["A", "B", "C", "X"] * 250, "v": times})
    engine = Engine(hierarchy, attenuation=1.0)
    parts = [part for part in engine.feed(table).parts if isinstance(part, ChangePart)]
    (part,) = (part for part in parts if part.detector == "top")
    assert isinstance(part.events.payload, pa.Table)
    assert part.rows()[0].payload == {
        "pair.ts": 2, "pair.A.ts": 1, "pair.A.v": 1, "pair.B.ts": 2, "pair.B.v": 2, "C.ts": 3,
        "C.v": 3,
    }  # fmt: skip


class Listens(Observer):
    """Compares what outputs say by columns with what they say one by one."""

    def __init__(self) -> None:
        self.columns = 0

    def made(self, stage: Any, outputs: Outputs) -> None:  # noqa: ARG002
        count = len(outputs)
        self.columns += 0 if outputs.made_one_by_one else count
        each = np.arange(count)
        picked = outputs.pick(each[::-1])
        both = Outputs.concat([picked, outputs])
        assert [*map(both.place, range(count))] == [*map(picked.place, range(count))]
        assert both.place(count) == outputs.place(0)
        assert both.ids_of(each) == outputs.ids_of(each[::-1]) == picked.ids
        rows = Outputs.of(list(outputs))
        assert [*map(outputs.place, range(count))] == rows.places == outputs.places
        assert both.places == picked.places + rows.places
        assert both.causes == picked.causes + rows.causes
        assert (outputs.identities == rows.identities).all()


def test_columns_of_outputs_say_what_their_rows_say() -> None:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(bt.pattern("A B", emits="pair", select={"v": "A.v"}))
    hierarchy.add(bt.pattern("pair C", emits="top", select={"v": "C.v"}))
    observer, times = Listens(), list(range(1, 1001))
    table = pa.table({"ts": times, "type": ["A", "B", "C", "X"] * 250, "v": [5] * 1000})
    engine = Engine(hierarchy, attenuation=0.5, observers=[observer])
    for low in range(0, 1000, 100):
        engine.feed(table.slice(low, 100))
    engine.finish()
    assert observer.columns > 400
