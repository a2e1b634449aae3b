"""Puts what arrives from other stages among the input events of a batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@compiled
def merge(
    at: Ints, ts: Ints, codes: Codes, new_at: Ints, new_ts: Ints, new_codes: Codes, order: Ints,
    all_at: Ints, all_ts: Ints, all_codes: Codes, was: Ints, place: Ints,
) -> None:  # fmt: skip
    """What is new comes after the input events that arrived with it or before.

    `at` are the arrivals of the input events, which increase, and `order` sorts those of what is
    new. Fills in the columns of both together, and where each of them is there.
    """
    n = 0
    for k in range(len(order) + 1):
        low = n
        if k == len(order):
            n = len(at)
        else:
            while n < len(at) and at[n] <= new_at[order[k]]:
                n += 1
        # Column by column: the compiler turns each of these loops into one that copies blocks.
        for i in range(low, n):
            was[i] = i + k
        for i in range(low, n):
            all_at[i + k] = at[i]
        for i in range(low, n):
            all_ts[i + k] = ts[i]
        for i in range(low, n):
            all_codes[i + k] = codes[i]
        if k < len(order):
            new = order[k]
            all_at[n + k], all_ts[n + k], all_codes[n + k] = (
                new_at[new],
                new_ts[new],
                new_codes[new],
            )
            place[new] = n + k
