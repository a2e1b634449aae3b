"""Changes as tables: few rows and many are written in different ways, with one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model.arrays import ArrayBatch, in_arrays
from betimes.model.batch import EventBatch
from betimes.model.change import Change, ChangeBatch, ChangePart
from betimes.model.coded import Coded

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


@pytest.mark.parametrize("count", [3, 100, 1500])
def test_payloads_in_arrays_are_written_as_rows_are(count: int) -> None:
    values: dict[str, Any] = {
        'a "%d"': pa.array(range(-1, count - 1)),
        "b": pa.array([float("nan"), 0.1, 2.0] * (count // 3 + 1)).slice(0, count),
        "c": pa.array([2**63 - 1] * count, pa.uint64()),
    }
    numbers, codes = np.arange(count), np.zeros(count, np.int32)
    events = in_arrays(EventBatch(numbers, codes, ("t",), pa.table(values)))
    assert isinstance(events, ArrayBatch)
    ids = [f"{n:024}" for n in range(count)]
    causes = ["c"] * count
    many = ChangePart("insert", None, ids, range(count), events, numbers, numbers, "d", causes)
    other = Change("insert", "final", "x", count, "u", 1, 1, 1, {"z": 1}, "e", "c")
    for times in range(3):
        others = [[other]] * times
        whole = ChangeBatch.of([many, *others])
        expected = ChangeBatch([*whole]).to_arrow("json")
        assert whole.to_arrow("json").equals(expected)
        columns = whole.to_arrow()
        assert pa.types.is_struct(columns["payload"].type) is not bool(others)
        assert not others or columns.equals(expected)


@pytest.mark.parametrize("counts", [(200,), (100, 3, 70), (1, 2, 64)])
def test_columns_of_changes_say_what_their_rows_say(counts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    extremes = [-(2**63), -1, 0, 9, 10, 2**63 - 1]
    parts: list[Any] = []
    for n, count in enumerate(counts):
        values: dict[str, Any] = {
            f'a "{n % 2}" %é': rng.choice(extremes, count),
            "b": rng.integers(0, 256, count).astype(np.uint8),
        }
        types, codes = ("é", "A")[n % 2 :], rng.integers(0, 2 - n % 2, count).astype(np.int32)
        ts = rng.integers(0, 10**12, count)
        events = in_arrays(EventBatch(ts, codes, types, pa.table(values)))
        causes: Any = Coded(rng.integers(0, 2, count), ["x", "ü"]), ts
        if n == 1:
            causes = ["late x at 7"] * count
        elif count == 1:
            causes = Coded(np.zeros(1, np.int64), ["time"]), np.array([2**63 - 1])
        ids = [f"{n}{row:023}" for row in range(count)]
        final = None if n == 1 else rng.random(count) < 0.5
        parts.append(ChangePart("insert", final, ids, range(count), events, ts, ts, "d", causes))
    whole = ChangeBatch.of(parts)
    rows = ChangeBatch([*whole])
    assert whole.to_arrow("json").equals(rows.to_arrow("json"))
    assert whole.to_arrow().to_pylist() == rows.to_arrow().to_pylist()
