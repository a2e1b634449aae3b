"""Some of the runs of `random_moves.py`: all kinds of detectors, moves, deaths, a bad network."""

from __future__ import annotations

import pytest

from tests.engine.cases import small_sizes
from tests.placement.random_moves import check


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_a_placed_hierarchy_says_what_one_engine_says(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_sizes(monkeypatch)
    moves = sum(check(number, 1) for number in range(first, first + 30))
    assert moves, "nothing has moved"
