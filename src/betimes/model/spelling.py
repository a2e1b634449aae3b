"""Columns of text for tables, without a Python object for any row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.kernel import LONGEST, spell

Ints = npt.NDArray[np.int64]

_MOST = 2**31 - 1
"""A column of text has at most this many bytes."""


def text_of(
    codes: Ints, heads: tuple[str, ...], numbers: Ints | None = None, tails: tuple[str, ...] = ()
) -> pa.Array[Any]:
    """In each row, the head with its code, then its numbers, with a tail after each of them.

    >>> text_of(np.array([1, 0]), ("A at ", "B at "), np.array([[17, -5]]), (".",)).to_pylist()
    ['B at 17.', 'A at -5.']
    """
    count = len(codes)
    if numbers is None:
        numbers = np.empty((0, count), np.int64)
    (starts, start_ends, head), (others, other_ends, _) = _pieces(heads), _pieces(tails)
    longest = head + len(others) + len(tails) * LONGEST
    if count * longest > _MOST:
        half = count // 2
        return pa.concat_arrays([
            text_of(codes[:half], heads, numbers[:, :half], tails),
            text_of(codes[half:], heads, numbers[:, half:], tails),
        ])  # fmt: skip
    text, ends = np.empty(count * longest, np.uint8), np.empty(count + 1, np.int32)
    size = spell(starts, start_ends, codes, numbers, others, other_ends, text, ends)
    return of_bytes(ends, text[:size].tobytes())


def of_bytes(ends: npt.NDArray[np.int32], text: bytes) -> pa.Array[Any]:
    """A column of text in UTF-8, whose rows lie between these ends."""
    where: Any = ends
    column: pa.Array[Any] = pa.StringArray.from_buffers(
        len(ends) - 1, pa.py_buffer(where), pa.py_buffer(text)
    )
    return column


@lru_cache(maxsize=1024)
def _pieces(texts: tuple[str, ...]) -> tuple[npt.NDArray[np.uint8], Ints, int]:
    """Texts one after the other, where each ends, and how long the longest is."""
    encoded = [text.encode() for text in texts]
    lengths = [*map(len, encoded)]
    whole = np.frombuffer(b"".join(encoded), np.uint8).copy()  # the loop takes what can be written
    return whole, np.cumsum([0, *lengths]), max(lengths, default=0)
