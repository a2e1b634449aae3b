"""Where a stage stood when an event had arrived."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.engine.news.path import Path


@pytest.mark.parametrize(
    ("arrivals", "asked", "expected"),
    [
        ([4, 5, 6], 5, 11),
        ([4, 4, 6], 4, 11),  # as many as from 4 to 6, but 4 is there twice, and 5 is not
        ([4, 6, 6], 5, 10),
        ([4, 5, 6], 9, 12),
        ([4, 5, 6], 3, 7),
    ],
)
def test_the_clock_is_that_of_the_last_arrival_so_far(
    arrivals: list[int], asked: int, expected: int
) -> None:
    path = Path((7, 0), np.array(arrivals), np.array([10, 11, 12]), np.array([1, 2, 3]))
    assert path.at(asked)[0] == expected
    assert path.at_all(np.array([asked]))[0].tolist() == [expected]
