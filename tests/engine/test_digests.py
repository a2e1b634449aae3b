"""The identity of outputs: one by one or in columns, the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine.news.digests import Digests, digest_all
from betimes.engine.news.digests.columns import halves_of, spelled, text_column, words_of
from betimes.engine.news.digests.pieces import piece_of
from tests.engine.material import share

INTS = st.integers(-(2**63), 2**63 - 1)
COLUMNS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.none() | INTS),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.none() | st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.none() | st.booleans()),
    (pa.string(), st.none() | st.text()),
    (pa.dictionary(pa.int32(), pa.string()), st.none() | st.sampled_from(["a", "b", ""])),
    (pa.list_(pa.int64()), st.none() | st.lists(INTS, max_size=3)),
    (pa.null(), st.none()),
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 12))
    columns = {}
    for name in draw(st.lists(st.sampled_from(["a.ts", "b", "ü", "z"]), max_size=4, unique=True)):
        kind, values = draw(st.sampled_from(COLUMNS))
        cells = draw(st.lists(values, min_size=count, max_size=count))
        columns[name] = pa.array(cells, kind)
    columns["n"] = pa.array(range(count))
    table = pa.table(columns)
    cut = draw(st.integers(0, count))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@given(tables(), st.data())
@share(0.6)
def test_columns_give_what_rows_give(table: pa.Table, data: st.DataObject) -> None:
    count = len(table)
    ts = np.array(data.draw(st.lists(INTS, min_size=count, max_size=count)), np.int64)
    keys: list[Any] = data.draw(
        st.lists(
            st.none() | st.text() | INTS | st.tuples(st.text(), INTS),
            min_size=count, max_size=count,
        )
    )  # fmt: skip
    digests = Digests("detector")
    rows = zip(ts.tolist(), keys, table.to_pylist(), strict=True)
    expected = [Digests("detector").digest("made", time, key, row) for time, key, row in rows]
    words = digest_all(digests, "made", ts, halves_of(keys), table)
    assert spelled(words) == text_column(words).to_pylist() == expected
    assert (words_of(expected) == words).all()


def test_nothing_changes_from_machine_to_machine() -> None:
    """Identities are stored: these values must not change without a note in the changelog."""
    digests = Digests("Hits")
    assert digests.digest("hit", 7, "P1", {"x": 1, "name": "ball"}) == "9ec3ce2d2a8d58a18c185074"
    assert (
        digests.digest("hit", 7, None, {"x": 1.5, "y": None, "z": [True]})
        == "fb7d96865606c0dc3ebb8b7e"
    )


def test_the_order_of_fields_does_not_matter_and_everything_else_does() -> None:
    digests = Digests("Hits")
    first = digests.digest("hit", 7, "P1", {"x": 1, "y": 2})
    assert digests.digest("hit", 7, "P1", {"y": 2, "x": 1}) == first
    others = [
        Digests("Other").digest("hit", 7, "P1", {"x": 1, "y": 2}),
        digests.digest("miss", 7, "P1", {"x": 1, "y": 2}),
        digests.digest("hit", 8, "P1", {"x": 1, "y": 2}),
        digests.digest("hit", 7, "P2", {"x": 1, "y": 2}),
        digests.digest("hit", 7, "P1", {"x": 2, "y": 1}),
        digests.digest("hit", 7, "P1", {"x": 1}),
        digests.digest("hit", 7, "P1", {"x": 1, "z": 2}),
        digests.digest("hit", 7, "P1", {"x": 1, "y": 2}, more=1),
    ]
    assert len({first, *others}) == 1 + len(others)


@pytest.mark.parametrize(
    "values",
    [
        [0, 0.0, False, None, "", "0", [], {}, -0.0],
        [1, 1.0, True, "1", [1], {"1": 1}],
        [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, str(2**63)],
        [math.nan, math.inf, -math.inf, "nan"],
        ["a", "a\0", "\0a", "ä", "a\u0308"],
    ],
)
def test_values_of_different_kinds_have_different_pieces(values: list[Any]) -> None:
    assert len({piece_of(value) for value in values}) == len(values)


def test_numbers_of_numpy_are_numbers() -> None:
    assert piece_of(np.int32(3)) == piece_of(3)
    assert piece_of(np.float32(0.5)) == piece_of(0.5)
    assert piece_of(np.array([1, 2])) == piece_of([1, 2]) == piece_of((1, 2))
    assert piece_of(np.bool_(True)) == piece_of(True)


def test_what_is_not_data_has_no_piece() -> None:
    with pytest.raises(TypeError, match="not data"):
        piece_of(object())


def test_many_outputs_hardly_ever_share_a_digest() -> None:
    table = pa.table(
        {"a": pa.array(np.arange(200_000) % 500), "b": pa.array(np.arange(200_000) // 500)}
    )
    keys = halves_of([None]) * np.ones(len(table), np.uint64)
    ts = np.zeros(len(table), np.int64)
    assert len(set(spelled(digest_all(Digests("d"), "t", ts, keys, table)))) == len(table)
