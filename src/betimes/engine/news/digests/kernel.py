"""BLAKE2b (RFC 7693) of many short messages at once: 64-bit words in, 12 bytes of digest out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Words = npt.NDArray[np.uint64]

_IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ]
)
_BLOCK = 16
"""Words in a block."""
_PARAMETERS = np.uint64(0x01010000 ^ 12)
"""A digest of 12 bytes, without a key."""
_HALF = np.uint64(0xFFFFFFFF)
_R32, _R24, _R16, _R63, _L32, _L40, _L48, _L1 = (
    np.uint64(bits) for bits in (32, 24, 16, 63, 32, 40, 48, 1)
)


@compiled
def _mix(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
    """The function G: mixes two words of the message into four of the state."""
    a += b + x
    d ^= a
    d = d >> _R32 | d << _L32
    c += d
    b ^= c
    b = b >> _R24 | b << _L40
    a += b + y
    d ^= a
    d = d >> _R16 | d << _L48
    c += d
    b ^= c
    b = b >> _R63 | b << _L1
    return a, b, c, d


@compiled
def digest(words: Words, found: Words) -> None:
    """The digest of each column of words: its first 8 bytes, and 4 more in the second row.

    The state is sixteen variables, not an array, so that it can stay in registers.
    """
    count, length = words.shape[1], words.shape[0]
    h, m = np.empty(8, np.uint64), np.empty(_BLOCK, np.uint64)
    for n in range(count):
        for i in range(8):
            h[i] = _IV[i]
        h[0] ^= _PARAMETERS
        low = 0
        while low < length:
            high = min(low + _BLOCK, length)
            for i in range(_BLOCK):
                m[i] = words[low + i, n] if low + i < high else np.uint64(0)
            a0, a1, a2, a3, b0, b1, b2, b3 = h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
            c0, c1, c2, c3 = _IV[0], _IV[1], _IV[2], _IV[3]
            d0, d1, d2, d3 = _IV[4] ^ np.uint64(8 * high), _IV[5], _IV[6], _IV[7]
            if high == length:
                d2 = ~d2
            for turn in range(12):
                s = _SIGMA[turn]
                a0, b0, c0, d0 = _mix(a0, b0, c0, d0, m[s[0]], m[s[1]])
                a1, b1, c1, d1 = _mix(a1, b1, c1, d1, m[s[2]], m[s[3]])
                a2, b2, c2, d2 = _mix(a2, b2, c2, d2, m[s[4]], m[s[5]])
                a3, b3, c3, d3 = _mix(a3, b3, c3, d3, m[s[6]], m[s[7]])
                a0, b1, c2, d3 = _mix(a0, b1, c2, d3, m[s[8]], m[s[9]])
                a1, b2, c3, d0 = _mix(a1, b2, c3, d0, m[s[10]], m[s[11]])
                a2, b3, c0, d1 = _mix(a2, b3, c0, d1, m[s[12]], m[s[13]])
                a3, b0, c1, d2 = _mix(a3, b0, c1, d2, m[s[14]], m[s[15]])
            h[0] ^= a0 ^ c0
            h[1] ^= a1 ^ c1
            h[2] ^= a2 ^ c2
            h[3] ^= a3 ^ c3
            h[4] ^= b0 ^ d0
            h[5] ^= b1 ^ d1
            h[6] ^= b2 ^ d2
            h[7] ^= b3 ^ d3
            low = high
        found[0, n], found[1, n] = h[0], h[1] & _HALF
