"""Slots and partitions: which value stands for a slot, so that each has a partition of its own.

Spark puts a row into the partition `murmur3(value) mod partitions`. With slots numbered 0, 1, 2 two
of them often meet in one partition while another stays empty. So each slot is represented by the
first number whose hash leads to its own partition, if there are as many partitions as slots. With
another number of partitions nothing is wrong, only uneven.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

SEED = 42
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=64)
def routes(slots: int) -> tuple[int, ...]:
    """The value that stands for each slot.

    >>> routes(1), [spark_hash(route) % 4 for route in routes(4)]
    ((0,), [0, 1, 2, 3])
    """
    found: dict[int, int] = {}
    for value in count():
        found.setdefault(spark_hash(value) % slots, value)
        if len(found) == slots:
            return tuple(found[slot] for slot in range(slots))
    raise AssertionError("unreachable")


def spark_hash(value: int) -> int:
    """Spark's `hash` of an integer column: Murmur3, 32 bits, signed.

    >>> spark_hash(1)
    -559580957
    """
    mixed = _rotated(value * 0xCC9E2D51, 15) * 0x1B873593 & _MASK
    hashed = _rotated(SEED ^ mixed, 13) * 5 + 0xE6546B64 & _MASK
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    hashed ^= hashed >> 16
    return hashed - 2**32 if hashed & 0x80000000 else hashed


def _rotated(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> 32 - by) & _MASK
