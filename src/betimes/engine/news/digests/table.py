"""A set of digests as arrays: open addressing, compiled.

A digest is two words, and the first one, which is as good as random, says where to look; if
another digest is there, the next place is tried. A place that is free holds zeros: that a digest is
zero is as unlikely as that two outputs have the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.digests.kernel import Words
from betimes.model.compiling import compiled


@compiled
def _place(table: Words, first: np.uint64, second: np.uint64) -> Any:
    """Where a digest is, or where it belongs."""
    last = table.shape[1] - 1
    at = np.int64(first & np.uint64(last))
    while (table[0, at] != 0 or table[1, at] != 0) and (
        table[0, at] != first or table[1, at] != second
    ):
        at = (at + 1) & last
    return at


@compiled
def add_all(table: Words, words: Words, again: npt.NDArray[np.int64]) -> int:
    """Add digests; return how many were there before: `again` gets their indices."""
    count = 0
    for n in range(words.shape[1]):
        first, second = words[0, n], words[1, n]
        at = _place(table, first, second)
        if table[0, at] == first and table[1, at] == second:
            again[count] = n
            count += 1
        else:
            table[0, at], table[1, at] = first, second
    return count


@compiled
def remove_all(table: Words, words: Words, missing: npt.NDArray[np.int64]) -> int:
    """Remove digests; return how many were not there: `missing` gets their indices."""
    count, last = 0, table.shape[1] - 1
    for n in range(words.shape[1]):
        hole = _place(table, words[0, n], words[1, n])
        if table[0, hole] == 0 and table[1, hole] == 0:
            missing[count] = n
            count += 1
            continue
        # Those after it that would not be found any more move up.
        at = hole
        while True:
            at = (at + 1) & last
            if table[0, at] == 0 and table[1, at] == 0:
                break
            home = np.int64(table[0, at] & np.uint64(last))
            if ((at - home) & last) >= ((at - hole) & last):
                table[0, hole], table[1, hole] = table[0, at], table[1, at]
                hole = at
        table[0, hole], table[1, hole] = 0, 0
    return count
