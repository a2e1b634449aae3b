"""BLAKE2b (RFC 7693) of many short messages at once: 64-bit words in, 12 bytes of digest out."""

from __future__ import annotations

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
_MIXED = np.array(
    [
        [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
        [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
    ]
)  # fmt: skip
_BLOCK = 16
"""Words in a block."""
_PARAMETERS = np.uint64(0x01010000 ^ 12)
"""A digest of 12 bytes, without a key."""
_R32, _R24, _R16, _R63, _L32, _L40, _L48, _L1 = (
    np.uint64(bits) for bits in (32, 24, 16, 63, 32, 40, 48, 1)
)


@compiled
def digest(words: Words, found: Words) -> None:
    """The digest of each column of words: its first 8 bytes, and 4 more in the second row."""
    count, length = words.shape[1], words.shape[0]
    v, h = np.empty(16, np.uint64), np.empty(8, np.uint64)
    block = np.empty(_BLOCK, np.uint64)
    for n in range(count):
        for i in range(8):
            h[i] = _IV[i]
        h[0] ^= _PARAMETERS
        low = 0
        while low < length:
            high = min(low + _BLOCK, length)
            for i in range(_BLOCK):
                block[i] = words[low + i, n] if low + i < high else np.uint64(0)
            for i in range(8):
                v[i], v[i + 8] = h[i], _IV[i]
            v[12] ^= np.uint64(8 * high)
            if high == length:
                v[14] = ~v[14]
            for turn in range(12):
                for i in range(8):
                    a, b, c, d = _MIXED[i, 0], _MIXED[i, 1], _MIXED[i, 2], _MIXED[i, 3]
                    v[a] += v[b] + block[_SIGMA[turn, 2 * i]]
                    x = v[d] ^ v[a]
                    v[d] = x >> _R32 | x << _L32
                    v[c] += v[d]
                    x = v[b] ^ v[c]
                    v[b] = x >> _R24 | x << _L40
                    v[a] += v[b] + block[_SIGMA[turn, 2 * i + 1]]
                    x = v[d] ^ v[a]
                    v[d] = x >> _R16 | x << _L48
                    v[c] += v[d]
                    x = v[b] ^ v[c]
                    v[b] = x >> _R63 | x << _L1
            for i in range(8):
                h[i] ^= v[i] ^ v[i + 8]
            low = high
        found[0, n], found[1, n] = h[0], h[1]
