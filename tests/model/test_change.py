"""Changes as tables: few rows and many are written in different ways, with one result."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from betimes.model.change import Change, ChangeBatch

MANY = 64
"""From this many rows on, a table is written column by column."""

VALUES = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.booleans(),
    st.none(),
    st.lists(st.integers(0, 3), max_size=2),
)
NAMES = st.sampled_from(["a", "b", "A.ts", "ts"])


def changes(payloads: list[dict[Any, Any]]) -> list[Change]:
    return [
        Change("insert", "final", f"{n:024x}", n, "hit", n, n, 0, payload, "Hits", f"C at {n}")
        for n, payload in enumerate(payloads)
    ]


@st.composite
def alike(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Payloads that mostly have the same fields, of the same kinds."""
    fields = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    rows = [dict(fields) for _ in range(draw(st.integers(1, 4)))]
    for name in draw(st.lists(NAMES, max_size=2)):
        rows[-1][name] = draw(VALUES)
    return rows


@given(alike())
def test_few_rows_make_the_table_that_many_make(payloads: list[dict[str, Any]]) -> None:
    few = ChangeBatch(changes(payloads)).to_arrow()
    many = ChangeBatch(changes(payloads * MANY)).to_arrow()
    assert few.schema.equals(many.schema)
    # As text: NaN is not equal to itself.
    assert str(few.to_pylist()) == str(many.slice(0, len(payloads)).to_pylist())


def test_payloads_of_one_shape_become_columns() -> None:
    table = ChangeBatch(changes([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])).to_arrow()
    assert table.schema.field("payload").type == pa.struct([("a", pa.int64()), ("b", pa.string())])
    other = ChangeBatch(changes([{"a": 1}, {"a": "x"}])).to_arrow()
    assert other.schema.field("payload").type == pa.string()
