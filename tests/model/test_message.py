"""Tables of few rows: what is written as a message is what Arrow makes of the same values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model.message import MOST, Messages

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=40),
}
KINDS: list[Any] = [pa.string(), pa.int64(), pa.bool_(), pa.float64()]
FIELDS = pa.struct([pa.field(name, kind) for name, kind in zip("tibf", KINDS, strict=True)])
NAMED: dict[str, Any] = {
    "name": pa.string(),
    "n": pa.int64(),
    "fields": FIELDS,
    "last": pa.string(),
}
SCHEMA = pa.schema([pa.field(name, kind) for name, kind in NAMED.items()])
MESSAGES = Messages(SCHEMA)
TYPES = [pa.string(), pa.int64(), *KINDS, pa.string()]
ROWS = st.lists(st.tuples(*(VALUES[kind] for kind in TYPES)), min_size=1, max_size=MOST)


def spelled(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [
        {"name": a, "n": b, "fields": dict(zip("tibf", fields, strict=True)), "last": c}
        for a, b, *fields, c in rows
    ]


@given(ROWS)
def test_a_message_says_what_its_values_say(rows: list[tuple[Any, ...]]) -> None:
    table = MESSAGES.table([*zip(*rows, strict=True)])
    assert table is not None
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert table.to_pylist() == spelled(rows)


ROW = ("a", 1, "b", 2, True, 0.5, "c")


@pytest.mark.parametrize(
    "rows",
    [
        [("a", 2**63, *ROW[2:])],
        [("\ud800", *ROW[1:])],
        [ROW] * (MOST + 1),
        [("long" * 20_000, *ROW[1:])],
    ],
    ids=["a number too large", "half of a surrogate pair", "too many rows", "too much text"],
)
def test_what_a_message_cannot_hold_is_left_to_arrow(rows: list[tuple[Any, ...]]) -> None:
    assert MESSAGES.table([*zip(*rows, strict=True)]) is None


class AnotherArrow(Messages):
    """As if Arrow wrote something else behind the columns."""

    def _sample(self, columns: list[list[Any]]) -> pa.Buffer:
        message = super()._sample(columns).to_pybytes()
        return pa.py_buffer(message[:-8] + b"changed!")


def test_if_arrow_arranges_a_body_in_another_way_it_makes_all_tables() -> None:
    messages = AnotherArrow(SCHEMA)
    for _ in range(2):
        assert messages.table([*zip(ROW, strict=True)]) is None
