"""Slots and routes: which number stands for a slot in the shuffle.

A *slot* is a unit of distribution, numbered 0 to n-1. Spark puts a row in the partition
`murmur3(value) mod partitions`, so if rows were shuffled by slot, two slots would often share a
partition while another stays empty. Rows are therefore shuffled by the *route* of their slot: the
smallest number whose hash leads to the slot's own partition. That holds as long as there are as
many partitions as slots; with another number the work is only spread less evenly.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

ROUTE = "route"
"""The column that packed rows are shuffled by, and the key of what is stored for a slot."""

SEED = 42
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=64)
def routes(slots: int) -> tuple[int, ...]:
    """The route of each slot.

    >>> routes(1), [spark_hash(route) % 4 for route in routes(4)]
    ((0,), [0, 1, 2, 3])
    """
    found: dict[int, int] = {}
    for value in count():
        found.setdefault(spark_hash(value) % slots, value)
        if len(found) == slots:
            return tuple(found[slot] for slot in range(slots))
    raise AssertionError("unreachable")


def slot_of(route: int, slots: int) -> int:
    """The slot that a route stands for.

    >>> [slot_of(route, 4) for route in routes(4)]
    [0, 1, 2, 3]
    """
    return routes(slots).index(route)


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
