"""Digests of many outputs: 128-bit arithmetic in pairs of 64-bit words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Words = npt.NDArray[np.uint64]

UPPER, LOWER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""The factor: an odd number without pattern."""
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@compiled
def digest(words: Words, found: Words) -> None:
    """Take the words of each column, from top to bottom; all are upper and lower halves."""
    factor_low, factor_high = LOWER & LOW, LOWER >> HALF
    for n in range(words.shape[1]):
        upper, lower = found[0, n], found[1, n]
        for row in range(0, words.shape[0], 2):
            upper ^= words[row, n]
            lower ^= words[row + 1, n]
            # lower * LOWER has 128 bits: multiply in halves of 32.
            low, high = lower & LOW, lower >> HALF
            least, left, right = low * factor_low, high * factor_low, low * factor_high
            middle = (least >> HALF) + (left & LOW) + (right & LOW)
            carried = high * factor_high + (left >> HALF) + (right >> HALF) + (middle >> HALF)
            upper = carried + lower * UPPER + upper * LOWER
            lower = lower * LOWER
            lower ^= upper
        found[0, n], found[1, n] = upper, lower
