"""Writes columns of text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

LONGEST = 20
"""A number has at most as many characters as -2**63."""


@compiled
def spell(
    heads: Bytes, head_ends: Ints, codes: Ints, numbers: Ints, tails: Bytes, tail_ends: Ints,
    text: Bytes, ends: npt.NDArray[np.int32],
) -> int:  # fmt: skip
    """Write each row: the head that its code says, then its numbers, with a tail after each.

    Piece i of the heads and of the tails is what lies between two of their ends. Returns how many
    bytes of `text` were written; row n lies between two of `ends`.
    """
    digits = np.empty(LONGEST, np.uint8)
    at = 0
    ends[0] = 0
    for n in range(len(codes)):
        code = codes[n]
        for i in range(head_ends[code], head_ends[code + 1]):
            text[at] = heads[i]
            at += 1
        for k in range(numbers.shape[0]):
            value = numbers[k, n]
            rest = np.uint64(value)
            if value < 0:
                text[at] = 45  # the sign
                at += 1
                rest = ~rest + np.uint64(1)
            count = 0
            while True:
                digits[count] = 48 + rest % np.uint64(10)
                count += 1
                rest //= np.uint64(10)
                if rest == 0:
                    break
            while count:
                count -= 1
                text[at] = digits[count]
                at += 1
            for i in range(tail_ends[k], tail_ends[k + 1]):
                text[at] = tails[i]
                at += 1
        ends[n + 1] = at
    return at
