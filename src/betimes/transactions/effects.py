"""What a transaction does to one key: a short list of operations, as data.

Most operations are commutative updates (`add`, `max`, `min`, `append`): a transaction that only
updates a key has not read it, so two of them do not conflict. They are applied in the order of the
transactions all the same, because sums of floats and lists depend on it.

A value is `(value,)` if the key is there and `()` if it is not; after an update that does not fit,
it is `(None, why)`, and whoever reads it fails. So everything here is plain data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from betimes.model.codec import CheckpointError, dumps
from betimes.model.errors import BetimesError

Found = tuple[Any, ...]
"""A value, or nothing."""
Operation = tuple[Any, ...]
"""Its name, and its operand."""
Effect = Sequence[Operation]
Name = str | None
"""The name of a state; None if there is only one."""
Key = tuple[Name, Any]

NOTHING: Found = ()
SET, DELETE, ADD, MAX, MIN, APPEND = "set", "delete", "add", "max", "min", "append"
_ATOMS = frozenset({int, float, str, bytes, bool, type(None)})


class StateError(BetimesError, TypeError):
    """A state was used in a way that it does not support; the message says where and what to do."""


def is_whole(effect: Effect) -> bool:
    """Whether the value afterwards does not depend on the value before."""
    return effect[0][0] in (SET, DELETE)


def leaves_it(effect: Effect) -> bool:
    """Whether the key is there afterwards."""
    return bool(effect[-1][0] != DELETE)


def apply(effect: Effect, found: Found, key: Any) -> Found:
    """The value after an effect."""
    for name, *operand in effect:
        if name == SET:
            found = (operand[0],)
        elif name == DELETE:
            found = NOTHING
        elif not found:
            found = ([operand[0]],) if name == APPEND else (operand[0],)
        elif len(found) == 1:
            found = _updated(name, found[0], operand[0], key)
    return found


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    ADD: lambda value, operand: value + operand,
    MAX: lambda value, operand: operand if operand > value else value,
    MIN: lambda value, operand: operand if operand < value else value,
    APPEND: lambda value, operand: [*_list(value), operand],
}


def _updated(name: str, value: Any, operand: Any, key: Any) -> Found:
    try:
        return (_UPDATES[name](value, operand),)
    except Exception as error:  # noqa: BLE001 - values of users may raise anything
        return None, f"{name} at state key {key!r} does not fit its value {value!r}: {error}"


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("expected a list")
    return value


def same(one: Found, other: Found) -> bool:
    """Whether two values are equal, also in type, at any depth."""
    if len(one) != 1 or len(other) != 1:
        return one == other
    return _same(one[0], other[0])


def _same(mine: Any, yours: Any) -> bool:
    if mine is yours:
        return True
    kind = type(mine)
    if kind is not type(yours):
        return False
    if kind in (int, str, bool, bytes):
        return bool(mine == yours)
    if kind is float:
        return repr(mine) == repr(yours)  # -0.0 is not 0.0, and NaN is NaN
    if kind in (list, tuple):
        return len(mine) == len(yours) and all(map(_same, mine, yours))
    if kind is dict:
        return len(mine) == len(yours) and all(map(_same, mine.items(), yours.items()))
    return dumps(mine, "a value") == dumps(yours, "a value")


def own(value: Any) -> Any:
    """A value that nobody else can change."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [own(item) for item in value]
    if kind is tuple:
        return value if _ATOMS.issuperset(map(type, value)) else tuple(map(own, value))
    if kind is dict:
        return {own(key): own(item) for key, item in value.items()}
    return copy.deepcopy(value)


def is_mutable(value: Any) -> bool:
    kind = type(value)
    return kind not in _ATOMS and not (kind is tuple and _ATOMS.issuperset(map(type, value)))


def checked_value(value: Any, key: Any) -> Any:
    """A copy of a value for a state; refused if it is not data."""
    if not is_mutable(value):
        return value
    if isinstance(value, np.generic):
        return value.item()
    try:
        dumps(value, "it")
    except CheckpointError:
        raise StateError(
            f"the value at state key {key!r} is not data, but {value!r}; keep numbers, text, "
            "containers and arrays in a state"
        ) from None
    return own(value)


def checked_key(key: Any) -> Any:
    """A key for a state; refused if it cannot be one."""
    kind = type(key)
    if kind in _ATOMS and kind is not float:
        return key
    try:
        hash(key)
    except TypeError:
        raise StateError(
            f"expected a state key that can be hashed, got {key!r} (a {kind.__name__}); use "
            "text, a number or a tuple"
        ) from None
    if not _is_itself(key):
        raise StateError(f"expected a state key that equals itself, got {key!r}")
    return checked_value(key, key)


def _is_itself(key: Any) -> bool:
    """Whether it is not NaN, which nobody would find again, and has none inside."""
    return all(map(_is_itself, key)) if type(key) is tuple else bool(key == key)
