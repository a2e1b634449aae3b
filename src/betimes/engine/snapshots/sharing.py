"""Snapshots that do not differ share their storage, down to the parts that have not changed.

A snapshot is never changed, so two of them may hold the same objects. What must not happen is that
a state looks different when it is restored: an object that was in two places must be in two places
again, and two equal objects must not become one. So parts are shared only between states in which
nothing is in two places, and only if they are the same in content, types and order.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from betimes.model.event import Event

ATOMS = frozenset({int, float, str, bytes, bool, complex, type(None), Event})
"""Kinds of values that cannot change, and hold nothing that could."""

_WHOLE = frozenset({set, frozenset, np.ndarray})
_DEEP = 50
"""States that are deeper than this are not looked into."""


def shared(fresh: Any, like: Any) -> Any:
    """What equals `fresh`, with as much of `like` as is the same.

    >>> like = {"a": [[1], [2]], "b": [3]}
    >>> found = shared({"a": [[1], [9]], "b": [3]}, like)
    >>> found, found["a"][0] is like["a"][0], found["b"] is like["b"]
    ({'a': [[1], [9]], 'b': [3]}, True, True)
    """
    if fresh is like or type(fresh) is not type(like) or type(fresh) in ATOMS:
        return fresh
    if not (_is_tree(fresh, set(), 0) and _is_tree(like, set(), 0)):
        return fresh
    return _merged(fresh, like)


def same_state(one: Any, other: Any) -> bool:
    """Whether two snapshots are equal; arrays are compared by content."""
    kind = type(one)
    if one is other or kind is not type(other):
        return one is other
    if kind in ATOMS:
        return bool(one == other)
    if isinstance(one, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        # NaN equals NaN here: a value that is still unknown has not changed.
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    if isinstance(one, dict):
        # Including the order of the keys: a detector can see it.
        return list(one) == list(other) and same_state([*one.values()], [*other.values()])
    if isinstance(one, list | tuple | deque):
        kinds = list(map(type, one))
        if kinds != list(map(type, other)):
            return False
        if ATOMS.issuperset(kinds):
            return bool(one == other)
        return all(map(same_state, one, other))
    return bool(one == other)


def _is_tree(value: Any, seen: set[int], depth: int) -> bool:
    """Whether a state is made of plain containers, and none of them is in two places."""
    kind = type(value)
    if kind in ATOMS:
        return True
    if kind is np.ndarray and value.dtype.hasobject:
        return False
    if kind not in _WHOLE and kind not in (list, tuple, dict, deque):
        return False
    if id(value) in seen or depth > _DEEP:
        return False
    seen.add(id(value))
    if kind is np.ndarray:
        return True
    parts = [*value, *value.values()] if kind is dict else value
    if ATOMS.issuperset(map(type, parts)):
        return True
    return all(_is_tree(part, seen, depth + 1) for part in parts)


def _merged(fresh: Any, like: Any) -> Any:
    """`like` if it is the same, otherwise `fresh` with the parts of it that are the same."""
    kind = type(fresh)
    if fresh is like or kind is not type(like) or kind in ATOMS:
        return fresh
    if same_state(fresh, like) and not (kind is deque and fresh.maxlen != like.maxlen):
        return like
    if kind is dict:
        return {key: _merged(part, like.get(key)) for key, part in fresh.items()}
    if kind in _WHOLE or ATOMS.issuperset(map(type, fresh)):
        return fresh
    parts = [_merged(part, known) for part, known in zip(fresh, like, strict=False)]
    parts += list(fresh)[len(parts) :]
    return deque(parts, fresh.maxlen) if kind is deque else kind(parts)


def size(states: Iterable[Any]) -> int:
    """The size of states in bytes, with all that they hold; what they share counts once."""
    sizes: dict[int, int] = {}
    left = list(states)
    while left:
        value = left.pop()
        if id(value) in sizes:
            continue
        sizes[id(value)] = sys.getsizeof(value)
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset | deque):
            left += value
        elif type(value) not in ATOMS and hasattr(value, "__dict__"):
            left.append(vars(value))
    return sum(sizes.values())
