"""Batches: rows and columns are two views of the same events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import Event, EventBatch, EventError
from betimes.model.arrays import ArrayBatch, concat, in_arrays

payloads = st.dictionaries(st.sampled_from("xyz"), st.integers(-9, 9), max_size=3)
events = st.builds(Event, st.sampled_from("ABC"), st.integers(0, 2**62 - 1), payloads)
streams = st.lists(events, max_size=12)


def filled(stream: list[Event]) -> list[Event]:
    """The events as columns show them: every name that any event has, None where one has not."""
    names = dict.fromkeys(name for event in stream for name in event.payload)
    return [Event(e.type, e.ts, {n: e.payload.get(n) for n in names}) for e in stream]


def by_arrow(stream: list[Event]) -> EventBatch:
    return EventBatch.from_arrow(EventBatch.from_rows(stream).to_arrow())


@given(streams)
def test_rows_come_back_as_they_were(stream: list[Event]) -> None:
    assert list(EventBatch.from_rows(stream)) == stream
    assert list(EventBatch.of(iter(stream))) == stream


@given(streams)
def test_columns_come_back_with_null_for_what_an_event_has_not(stream: list[Event]) -> None:
    assert list(by_arrow(stream)) == filled(stream)


@given(streams)
def test_arrow_in_arrow_out_is_the_same_table(stream: list[Event]) -> None:
    table = EventBatch.from_rows(stream).to_arrow()
    assert EventBatch.from_arrow(table).to_arrow().equals(table)


@given(streams, st.data())
def test_take_and_part_give_those_rows_with_their_payload(
    stream: list[Event], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.integers(0, len(stream) - 1))) if stream else []
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(stream))] * 2)))
    for batch, expected in (
        (EventBatch.from_rows(stream), stream),
        (by_arrow(stream), filled(stream)),
    ):
        taken = batch.take(np.array(rows, np.int64))
        assert list(taken) == [expected[row] for row in rows]
        assert list(batch.part(low, high)) == expected[low:high]


@given(streams, st.slices(12))
def test_indexing_is_that_of_a_list(stream: list[Event], rows: slice) -> None:
    batch = EventBatch.from_rows(stream)
    assert list(batch[rows]) == stream[rows]
    for row in range(-len(stream), len(stream)):
        assert batch[row] == stream[row]
    for row in (len(stream), -len(stream) - 1):
        with pytest.raises(
            IndexError, match=f"row {row} is outside a batch of {len(stream)} events"
        ):
            batch[row]


@given(st.lists(streams, max_size=4), st.data())
def test_concatenated_batches_hold_all_events_in_order(
    parts: list[list[Event]], data: st.DataObject
) -> None:
    batches, expected = [], []
    for part in parts:
        arrow = data.draw(st.booleans())
        batches.append(by_arrow(part) if arrow else EventBatch.from_rows(part))
        expected += [(e.type, e.ts, known(e)) for e in part]
    got = [(e.type, e.ts, known(e)) for e in EventBatch.concat(batches)]
    assert got == expected


def known(event: Event) -> dict[str, Any]:
    return {name: value for name, value in event.payload.items() if value is not None}


def test_head_starts_travel_through_part_take_and_concat() -> None:
    batch = EventBatch(
        np.array([1, 2, 3]), np.zeros(3, np.int32), ("A",), head_start=np.array([7, 8, 9])
    )
    plain = EventBatch.from_rows([Event("B", 4)])
    assert batch.part(1, 3).head_start.tolist() == [8, 9]  # type: ignore[union-attr]
    assert batch.take(np.array([2, 0])).head_start.tolist() == [9, 7]  # type: ignore[union-attr]
    joined = EventBatch.concat([plain, batch]).head_start
    assert joined is not None
    assert joined.tolist() == [0, 7, 8, 9]


def test_the_arrival_column_gives_the_order_and_ties_stay_as_they_stand() -> None:
    table = pa.table({"ts": [5, 6, 7, 8], "type": list("ABCD"), "n": [3, 1, 3, 2]})
    batch = EventBatch.from_arrow(table, arrival="n")
    assert [(e.type, e["n"]) for e in batch] == [("B", 1), ("D", 2), ("A", 3), ("C", 3)]


def test_columns_may_have_other_names_and_the_rest_is_payload() -> None:
    table = pa.table({"when": [5], "what": ["A"], "ts": [1], "type": ["x"]})
    (event,) = EventBatch.from_arrow(table, time="when", type="what")
    assert event == Event("A", 5, {"ts": 1, "type": "x"})


@pytest.mark.parametrize("role", ["time", "type", "arrival"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(role: str) -> None:
    table = pa.table({"ts": [5], "type": ["A"]})
    with pytest.raises(EventError, match=rf"a column 'nope' for the {role}, got") as caught:
        EventBatch.from_arrow(table, **{role: "nope"})
    assert "['ts', 'type']" in str(caught.value)


TEXT = pa.chunked_array([["A", "B"], [], ["A", "C"]])


@pytest.mark.parametrize(
    "names",
    [
        TEXT,
        TEXT.cast(pa.large_string()),
        TEXT.dictionary_encode(),
        pa.chunked_array([chunk.dictionary_encode() for chunk in TEXT.chunks]),
        TEXT.cast(pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=["text", "large text", "coded", "coded by chunk", "small codes"],
)
def test_types_may_be_text_or_dictionary_coded(names: Any) -> None:
    batch = EventBatch.from_arrow(pa.table({"ts": [1, 2, 3, 4], "type": names}))
    assert [e.type for e in batch] == ["A", "B", "A", "C"]
    assert sorted(batch.types) == ["A", "B", "C"]


def test_a_type_column_of_numbers_is_refused_by_name() -> None:
    with pytest.raises(EventError, match=r"type column 'type' to hold text, got int64; cast it"):
        EventBatch.from_arrow(pa.table({"ts": [1], "type": [1]}))


def test_a_row_without_a_type_is_refused_or_sifted_out() -> None:
    table = pa.table({"ts": [1, 2, 3], "type": ["A", None, "C"], "v": [1, 2, 3]})
    with pytest.raises(EventError, match="row 1: the type is missing"):
        EventBatch.from_arrow(table)
    batch, rejected = EventBatch.sift_arrow(table)
    assert [e["v"] for e in batch] == [1, 3]
    assert [(r.row, r.reason) for r in rejected] == [(1, "the type is missing")]


def test_a_row_that_is_bad_twice_is_rejected_once() -> None:
    table = pa.table({"ts": pa.array([None, 2], pa.int64()), "type": [None, "B"]})
    batch, rejected = EventBatch.sift_arrow(table)
    assert len(batch) == 1
    assert [r.row for r in rejected] == [0]


def test_a_null_inside_the_dictionary_of_types_is_a_missing_type() -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["A", None]))
    batch, rejected = EventBatch.sift_arrow(pa.table({"ts": [1, 2], "type": names}))
    assert [e.type for e in batch] == ["A"]
    assert [r.row for r in rejected] == [1]


def test_a_dictionary_of_types_may_have_a_name_twice_or_in_vain() -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1]), pa.array(["B", "A", "A", "C"]))
    batch = EventBatch.from_arrow(pa.table({"ts": [1, 2, 3], "type": names}))
    assert [e.type for e in batch] == ["A", "B", "A"]
    assert batch.types == ("A", "B")
    once = pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array(["B", "C", "A"]))
    assert EventBatch.from_arrow(pa.table({"ts": [1, 2], "type": once})).types == ("A", "B")


@pytest.mark.parametrize("rows", [[("A", 1)], ["A1"], [Event("A", 1), None]])
def test_what_is_no_event_is_named_with_its_row_and_what_to_build(rows: list[Any]) -> None:
    with pytest.raises(EventError, match=r"expected Event objects, got .* at row [01]; build"):
        EventBatch.from_rows(rows)


def test_record_batches_and_tables_and_batches_and_single_events_are_all_taken() -> None:
    event = Event("A", 1, {"v": 2})
    batch = EventBatch.from_rows([event])
    table = batch.to_arrow()
    assert EventBatch.of(batch) is batch
    for source in (table, table.to_batches()[0], [event], iter([event]), event):
        assert list(EventBatch.of(source)) == [event]


def test_an_empty_table_is_an_empty_batch() -> None:
    coded = pa.array(["A"]).dictionary_encode()
    for times, names in ((pa.array([1]), pa.array(["A"])), (pa.array([1.0]), coded)):
        table = pa.table({"ts": times, "type": names})
        for empty in (table.slice(0, 0), table.schema.empty_table()):
            batch = EventBatch.from_arrow(empty)
            assert (len(batch), list(batch), batch.types) == (0, [], ())
    assert list(EventBatch.concat([])) == []


def test_a_payload_column_is_read_from_rows_and_from_arrow() -> None:
    batch = EventBatch.from_rows([Event("A", 1, {"v": 3}), Event("B", 2, {"v": 4})])
    assert batch.column("v") == [3, 4]
    assert EventBatch.from_arrow(batch.to_arrow()).column("v") == [3, 4]


@pytest.mark.parametrize(
    ("batch", "have"),
    [
        (EventBatch.from_rows([Event("A", 1, {"w": 1, "v": 1}), Event("A", 1, {"w": 1})]),
         r"row 1 has \['w'\]"),
        (EventBatch.from_arrow(pa.table({"ts": [1], "type": ["A"], "w": [1]})),
         r"the batch has \['w'\]"),
        (EventBatch.from_rows([Event("A", 1)]), r"the batch has \[\]"),
    ],
)  # fmt: skip
def test_a_missing_payload_column_is_named_with_what_there_is(batch: EventBatch, have: str) -> None:
    with pytest.raises(EventError, match=f"expected a payload column 'v', but {have}"):
        batch.column("v")


@pytest.mark.parametrize("payload", [None, [1], "text", (("x", 1),)])
def test_a_payload_that_is_no_dict_is_named(payload: Any) -> None:
    bad = Event("B", 2, payload)
    for fed in (bad, [Event("A", 1, {"x": 1}), bad]):
        with pytest.raises(EventError, match="the payload is not a dict, got "):
            EventBatch.of(fed)
    batch, rejected = EventBatch.sift_rows([Event("A", 1, {"x": 1}), bad])
    assert (len(batch), [each.row for each in rejected]) == (1, [1])


@pytest.mark.parametrize(
    ("columns", "rows", "reason"),
    [
        (["ts", "type", "x"], [[1, "A", 1], [2, "B", "a"]], "column x with type object"),
        (["ts", "type"], [[1, "A"], [2, 7]], "column type with type object"),
        (["ts", "type", "x", "x"], [[1, "A", 1, 2]], "Duplicate column names"),
        (["ts", "type", "x"], [[1, "A", 1j]], "column x with type complex128"),
    ],
)
def test_a_frame_that_arrow_cannot_read_is_an_event_error(
    columns: list[str], rows: list[list[Any]], reason: str
) -> None:
    frame = pd.DataFrame(rows, columns=columns)
    with pytest.raises(EventError, match=f"{reason}.*; convert that column, or leave it out"):
        EventBatch.of(frame)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:The DataFrame has column names of mixed type")  # Arrow's word
def test_a_frame_may_have_names_that_are_not_text() -> None:
    frame = pd.DataFrame([[1, "A", 5]], columns=["ts", "type", 0])
    assert EventBatch.of(frame).rows() == [Event("A", 1, {"0": 5})]  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=12))
def test_a_batch_grows_in_place_and_nobody_notices(steps: list[tuple[int, int]]) -> None:
    table = pa.table({"ts": range(60), "type": ["A"] * 60, "x": [row / 2 for row in range(60)]})
    stream = in_arrays(EventBatch.from_arrow(table))
    grown, at, rows, seen = stream[:1], 1, [0], []
    for more, dropped in steps:
        seen.append((grown, list(grown)))
        grown = concat([grown, stream[at : at + more], stream[at : at + more]], grows=True)
        rows += [*range(at, at + more)] * 2
        at += more
        low = min(dropped, len(rows) - 1)
        grown, rows = grown.part(low, len(rows)), rows[low:]
        assert isinstance(grown, ArrayBatch)
        assert list(grown) == [stream[row] for row in rows]
    assert all(list(batch) == events for batch, events in seen)
