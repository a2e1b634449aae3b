"""Columns that grow at their end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine.stages.rows.growing import Growing


@given(st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 3))))
def test_a_column_grows_whatever_is_dropped_from_its_beginning(
    steps: list[tuple[list[int], int]],
) -> None:
    growing, column, expected = Growing(), np.empty(0, np.int64), list[int]()
    seen = []
    for more, dropped in steps:
        column = growing.join([column, np.array(more, np.int64)])
        expected = expected + more
        assert column.tolist() == expected
        seen.append((column, expected))
        column, expected = column[dropped:], expected[dropped:]
    for before, was in seen:  # what others still hold has not changed
        assert before.tolist() == was
