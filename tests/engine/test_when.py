"""When events and all earlier ones of their keys were known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine.stages.rows.when import When


@given(
    st.permutations(range(12)),
    st.none() | st.lists(st.sampled_from("ab"), min_size=12, max_size=12),
    st.sampled_from([-1, 3, 100]),
)
def test_it_is_the_newest_arrival_of_the_key_up_to_there(
    at: list[int], keys: list[str] | None, looked_at: int
) -> None:
    rows: Any = SimpleNamespace(at=np.array(at), keys=keys)
    when = When(rows)
    when._left = looked_at  # then there is a list
    made = []
    for row in range(len(at)):
        before = [at[n] for n in range(row) if keys is None or keys[n] == keys[row]]
        assert when.known(row) == max(before, default=-1)
        made.append(max([*before, at[row]]))
    assert when.made([*range(len(at))]) == made
    assert [when.made([row]) for row in range(len(at))] == [[each] for each in made]
