"""`detect`: a finished table gives what perfect order would have given, all of it final."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import permutations
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes.testing.oracle import oracle
from tests.engine.material import hierarchies, share, streams


@given(hierarchies(), streams())
@share(0.3)
def test_it_is_the_oracle(hierarchy: bt.Hierarchy, stream: list[bt.Event]) -> None:
    changes = bt.detect(stream, hierarchy)
    stream.sort(key=lambda e: (e.ts, e.type, sorted(e.payload.items())))
    assert bt.fold(changes) == oracle(hierarchy, stream)
    assert {(change.change_type, change.status) for change in changes} <= {("insert", "final")}
    assert [change.seq for change in changes] == list(range(1, len(changes) + 1))


def touches() -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="*")
    hierarchy.add(bt.pattern("near hit", by="player", emits="touch", within="1s"))
    return hierarchy


ROWS: dict[str, Any] = {
    "ts": [5, 3, 9, 7],
    "type": ["hit", "near", "hit", "near"],
    "player": [1, 1, 2, 2],
}
TABLES: dict[str, Any] = {
    "arrow": pa.table(ROWS),
    "record batch": pa.record_batch(ROWS),
    "pandas": pd.DataFrame(ROWS),
    "batch": bt.EventBatch.from_arrow(pa.table(ROWS)),
    "events": bt.EventBatch.from_arrow(pa.table(ROWS)).rows(),
    "generator": (event for event in bt.EventBatch.from_arrow(pa.table(ROWS)).rows()),
}


@pytest.mark.parametrize("form", TABLES)
def test_every_form_of_a_table(form: str) -> None:
    assert [change.ts for change in bt.detect(TABLES[form], touches())] == [5, 9]


@pytest.mark.parametrize("form", ["arrow", "pandas", "events"])
def test_an_engine_takes_the_same_forms(form: str) -> None:
    engine = bt.Engine(touches(), attenuation=0.0)
    changes = [*engine.feed(TABLES[form]), *engine.finish()]
    assert bt.fold(changes) == bt.fold(bt.detect(TABLES[form], touches()))


def test_options_are_those_of_an_engine() -> None:
    assert len(bt.detect(TABLES["arrow"], touches(), by="player")) == 2
    with pytest.raises(bt.OptionError, match="did you mean 'attenuation'"):
        bt.detect(TABLES["arrow"], touches(), atenuation=1.0)
    with pytest.raises(bt.EventError, match="expected events as"):
        bt.detect(5, touches())  # type: ignore[arg-type]


def test_time_runs_out_or_stays() -> None:
    hierarchy = bt.Hierarchy(clock="*")
    hierarchy.add(bt.pattern("hit !near", emits="alone", within="1s"))
    stream = [bt.Event("hit", 5)]
    assert len(bt.detect(stream, hierarchy)) == 1
    assert len(bt.detect(stream, hierarchy, advance=False)) == 0


@given(hierarchies(), streams(), st.randoms(use_true_random=False), st.sampled_from([1, 20]))
@share(0.3)
def test_any_permutation_gives_one_result(
    hierarchy: bt.Hierarchy, stream: list[bt.Event], random: Random, coarse: int
) -> None:
    """Also if many events have the same time."""
    stream = [bt.Event(e.type, e.ts // coarse, e.payload) for e in stream]
    expected = [change.match_id for change in bt.detect(stream, hierarchy)]
    random.shuffle(stream)
    assert [change.match_id for change in bt.detect(stream, hierarchy)] == expected
    table = bt.EventBatch.of(stream).to_arrow()
    tabled = [change.match_id for change in bt.detect(table, hierarchy)]
    random.shuffle(order := list(range(len(table))))
    permuted = table.take(pa.array(order, pa.int64()))
    assert [change.match_id for change in bt.detect(permuted, hierarchy)] == tabled


@pytest.mark.parametrize("extra", [None, 1, 2.5, "x", {"deep": 1}, [1, 2]])
def test_events_of_the_same_time_are_sorted_by_their_content(extra: Any) -> None:
    hierarchy = bt.Hierarchy(clock="*")
    one = {"x": "type == 'a'", "y": "type == 'a'"}
    hierarchy.add(bt.pattern("x-y", define=one, where="x.n + 1 == y.n", emits="two"))
    same = [bt.Event("a", 5, {"n": n, "a": extra}) for n in range(4)]
    for order in permutations(same):
        for form in (list(order), bt.EventBatch.of(list(order)).to_arrow()):
            assert len(bt.detect(form, hierarchy)) == 2


@dataclass
class Numbered:
    """Numbers the values that it gets."""

    n: int = 0

    def on_event(self, event: bt.Event) -> bt.Event:
        self.n += 1
        return bt.Event("o", event.ts, {"n": self.n, "v": repr(event["v"])})


@pytest.mark.parametrize(
    "values",
    [[True, 1, 1.0], [0.0, -0.0], [datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)]],
)
def test_values_that_are_equal_and_still_differ_have_an_order(values: list[Any]) -> None:
    hierarchy = bt.Hierarchy(clock="*")
    hierarchy.add(Numbered, on="a", emits="o")
    found = set[tuple[str, ...]]()
    for order in permutations([bt.Event("a", 5, {"v": value}) for value in values]):
        found.add(tuple(change.match_id for change in bt.detect(order, hierarchy)))
        if values == [0.0, 0.0]:
            table = bt.EventBatch.of(order).to_arrow()
            found.add(tuple(change.match_id for change in bt.detect(table, hierarchy)))
    assert len(found) == 1


def test_a_table_may_have_nothing_but_times_and_types() -> None:
    hierarchy = bt.Hierarchy(clock="*")
    hierarchy.add(bt.pattern("hit near", emits="touch", within="1s"))
    for types in (["near", "hit"], ["hit", "near"]):
        assert len(bt.detect(pa.table({"ts": [5, 5], "type": types}), hierarchy)) == 1


@given(hierarchies(), streams(), st.randoms(use_true_random=False))
@share(0.3)
def test_a_column_gives_the_order_of_arrival(
    hierarchy: bt.Hierarchy, stream: list[bt.Event], random: Random
) -> None:
    stream = [bt.Event(e.type, e.ts, {**e.payload, "n": n}) for n, e in enumerate(stream)]
    engine = bt.Engine(hierarchy, late="side", attenuation=1.0)
    expected = bt.fold([*engine.feed(stream), *engine.finish()])
    random.shuffle(stream)
    changes = bt.detect(stream, hierarchy, arrival="n", late="side", attenuation=1.0)
    assert bt.fold(changes) == expected


def test_an_order_of_arrival_that_cannot_be() -> None:
    rows = pa.table(ROWS | {"seq": [3, None, 1, 2]})
    with pytest.raises(bt.EventError, match="expected arrival='seq' to name a column with values"):
        bt.detect(rows, touches(), arrival="seq")
    with pytest.raises(bt.EventError, match="expected a payload column 'sequence'"):
        bt.detect(rows, touches(), arrival="sequence")
