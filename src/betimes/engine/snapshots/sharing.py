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

import msgspec
import numpy as np

from betimes.model.event import Event

ATOMS = frozenset({int, float, str, bytes, bool, complex, type(None), Event})
"""Kinds of values that cannot change, and hold nothing that could."""

_TEXTS = frozenset({str, bytes})
_EXACT = frozenset({int, bool, type(None)}) | _TEXTS
"""Atoms that are the same if they are equal and of one kind: others have 0.0 and -0.0."""
_NUMBERS = _EXACT | {float}
_LISTS = frozenset({list, tuple, deque})
_SETS = frozenset({set, frozenset})
_FIXED = frozenset({tuple, frozenset})
"""Containers that cannot change: whether one is in two places makes no difference."""
Twins = dict[int, Any]
"""Which objects of two states are in the same places; those of the second state by `~id`."""
_ENCODER = msgspec.msgpack.Encoder()
_DEEP = 50
"""States that are deeper than this are not looked into."""


def shared(fresh: Any, like: Any) -> Any:
    """What is the same as `fresh`, with as much of `like` as is the same.

    >>> like = {"a": [[1], [2]], "b": [3]}
    >>> found = shared({"a": [[1], [9]], "b": [3]}, like)
    >>> found, found["a"][0] is like["a"][0], found["b"] is like["b"]
    ({'a': [[1], [9]], 'b': [3]}, True, True)
    """
    if fresh is like or type(fresh) is not type(like):
        return fresh
    if not (_is_tree(fresh, {}, 0) and _is_tree(like, {}, 0)):
        return fresh
    return _merged(fresh, like)


def same_state(one: Any, other: Any) -> bool:
    """Whether two states are the same: in content, types and order, and in what is in two places.

    Only simple values are asked whether they are equal. Objects may answer by a part of what they
    hold, and 1, 1.0 and True, or 0.0 and -0.0, are equal although a detector can tell them apart.

    >>> same_state({"a": [1.0]}, {"a": [1.0]}), same_state([1], [1.0]), same_state([0.0], [-0.0])
    (True, False, False)
    """
    return _same(one, other, {})


def _same(one: Any, other: Any, twins: Twins) -> bool:
    kind = type(one)
    if one is other or kind is not type(other):
        return one is other
    if kind in _EXACT:
        return bool(one == other)
    if kind is float or kind is complex:
        return repr(one) == repr(other)
    if kind is Event:
        return _same_events(one, other)
    if kind not in _FIXED:
        if id(one) in twins or ~id(other) in twins:
            return twins.get(id(one)) is other and twins.get(~id(other)) is one
        twins[id(one)], twins[~id(other)] = other, one
    if kind in _LISTS:
        return _same_items(one, other, twins) and (kind is not deque or one.maxlen == other.maxlen)
    if kind is dict:
        return _same_pairs(one, other, twins)
    if kind in _SETS:
        return _same_sets(one, other, twins)
    if isinstance(one, np.ndarray):
        return _same_arrays(one, other, twins)
    made = _made_of(one)
    return made is not None and _same(made, _made_of(other), twins)


def _same_pairs(one: Any, other: Any, twins: Twins) -> bool:
    """Including the order of the keys: a detector can see it."""
    return _same_items([*one, *one.values()], [*other, *other.values()], twins)


def _same_items(one: Any, other: Any, twins: Twins) -> bool:
    kinds = list(map(type, one))
    if kinds != list(map(type, other)):
        return False
    if _EXACT.issuperset(kinds):
        return bool(one == other)
    if Event in kinds and ATOMS.issuperset(kinds):
        return _same_events(one, other)
    if float in kinds and _NUMBERS.issuperset(kinds) and one == other:
        return 0.0 not in one or _zeros(one) == _zeros(other)
    return all(_same(a, b, twins) for a, b in zip(one, other, strict=True))


def _same_events(one: Any, other: Any) -> bool:
    """Whether events, alone or with other atoms in a list, are the same.

    Nobody changes an event, so what is in its payload may be in other places, too. Values of
    different kinds that are equal are written differently; to write them is what is fast.
    """
    try:
        return bool(one == other) and _ENCODER.encode(one) == _ENCODER.encode(other)
    except (TypeError, ValueError, OverflowError):  # a payload with something else in it
        if type(one) is Event:
            return bool(one.type == other.type and one.ts == other.ts) and _same_pairs(
                one.payload, other.payload, {}
            )
        return all(_same(a, b, {}) for a, b in zip(one, other, strict=True))


def _zeros(items: Any) -> list[str]:
    """The zeros among them, with their signs."""
    return [repr(item) for item in items if not item]


def _same_sets(one: Any, other: Any, twins: Twins) -> bool:
    if one != other:
        return False
    kinds = {*map(type, one), *map(type, other)}
    if len(kinds) <= 1 and _EXACT.issuperset(kinds):
        return True
    mates = {item: item for item in other}
    return all(_same(item, mates[item], twins) for item in one)


def _same_arrays(one: Any, other: Any, twins: Twins) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.hasobject:
        return _same_items(one.ravel().tolist(), other.ravel().tolist(), twins)
    # NaN equals NaN here: a value that is still unknown has not changed.
    return bool(one.tobytes() == other.tobytes())


def _made_of(value: Any) -> tuple[Any, ...] | None:
    """What an object is copied from: how it is made, and what it holds; None if nobody knows."""
    if isinstance(value, type):
        return None
    try:
        made = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - whatever it is, it cannot be looked into
        return None
    if not isinstance(made, tuple):
        return None
    return tuple(list(part) if hasattr(part, "__next__") else part for part in made)


def _is_tree(value: Any, seen: dict[int, Any], depth: int) -> bool:
    """Whether nothing in a state that could change is in two places."""
    kind = type(value)
    if kind in ATOMS or isinstance(value, type):
        return True
    if id(value) in seen or depth > _DEEP:
        return False
    if kind not in _FIXED:
        seen[id(value)] = value  # which also keeps it: another one would get its id
    if kind is np.ndarray:
        return not value.dtype.hasobject
    parts: Any = value
    if kind is dict:
        parts = [*value, *value.values()]
    elif kind not in _LISTS and kind not in _SETS:
        made = _made_of(value)
        if made is None:
            return False
        parts = made[1:]
    if ATOMS.issuperset(map(type, parts)):
        return True
    return all(_is_tree(part, seen, depth + 1) for part in parts)


def _merged(fresh: Any, like: Any) -> Any:
    """`like` if it is the same, otherwise `fresh` with the parts of it that are the same."""
    kind = type(fresh)
    if fresh is like or kind is not type(like) or (kind in ATOMS and kind not in _TEXTS):
        return fresh
    if same_state(fresh, like):
        return like
    if kind is dict:
        return {key: _merged(part, like.get(key)) for key, part in fresh.items()}
    if kind not in _LISTS:
        return fresh
    kinds = set(map(type, fresh))
    if ATOMS.issuperset(kinds) and kinds.isdisjoint(_TEXTS):
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
