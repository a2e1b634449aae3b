"""States that somebody has put together: data with a right checksum that no engine wrote."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from betimes.model import Event

ODD: list[Any] = [
    -(2**63), -(10**6), -2, -1, 0, 1, 63, 10**4, 2**31, 2**62, 2**63 - 1, 2**70, None, True, 0.5,
    float("nan"), "", "text", b"", b"bytes", [], [1, "a"], (), {}, {"a": 1}, {1, 2}, Event("A", 5),
]  # fmt: skip
"""What may be in the place of something else."""

Path = tuple[Any, ...]


def places(state: Any, path: Path = ()) -> Iterator[Path]:
    """Where something can be changed: every value in a state, however deep."""
    yield path
    if isinstance(state, dict):
        for key, value in state.items():
            yield from places(value, (*path, key))
    elif isinstance(state, list | tuple | deque):
        for number, value in enumerate(state):
            yield from places(value, (*path, number))


def at(state: Any, path: Path) -> Any:
    """What is at a place."""
    for step in path:
        state = state[step]
    return state


def put(state: Any, path: Path, value: Any) -> Any:
    """The state with another value at a place."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(state, dict):
        state[step]  # there has to be something: a path that is out of date must not go unnoticed
        return {key: put(v, rest, value) if key == step else v for key, v in state.items()}
    items = [put(v, rest, value) if n == step else v for n, v in enumerate(state)]
    return deque(items, state.maxlen) if isinstance(state, deque) else type(state)(items)


def crafted(state: Any, rng: random.Random) -> tuple[Path, Any]:
    """The state with a change at one place, and where that is."""
    path = rng.choice(list(places(state)))
    return path, put(state, path, _other(at(state, path), rng))


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, np.ndarray) and rng.random() < 0.9:
        return other_array(value, rng)
    if isinstance(value, dict) and value and rng.random() < 0.9:
        gone = rng.choice(list(value))
        less = {key: each for key, each in value.items() if key != gone}
        return rng.choice([less, less | {rng.choice(["more", 7]): 1}, value | {"more": []}])
    if isinstance(value, list | tuple) and value and rng.random() < 0.9:
        items = list(value)
        ways = [items[:-1], items[1:], [*items, items[0]], items[::-1], [*items, None]]
        return type(value)(rng.choice(ways))
    if isinstance(value, bool):
        return rng.choice([not value, *ODD])
    if isinstance(value, int):
        return rng.choice([value - 1, value + 1, -value, *ODD])
    if isinstance(value, str | bytes) and value:
        return rng.choice([value[:-1], value * 2, *ODD])
    return rng.choice(ODD)


def other_array(array: Any, rng: random.Random) -> Any:
    """The array with something in it, or about it, that the engine has not written."""
    way = rng.randrange(8)
    if way == 0:
        return array[..., : rng.randrange(array.shape[-1] + 1)].copy()
    if way == 1:
        return np.concatenate((array, array), axis=-1)
    if way == 2:
        return array.astype(rng.choice([np.int8, np.float32, np.bool_, np.uint64]))
    if way == 3:
        return array.ravel() if array.ndim > 1 else array[None]
    if way == 4:
        return array[..., ::-1].copy()
    changed = array.copy()
    if changed.size:
        number = rng.choice([each for each in ODD if type(each) is int])
        if changed.dtype.kind in "iu":
            info = np.iinfo(changed.dtype)
            number = min(max(number, int(info.min)), int(info.max))
        changed.flat[rng.randrange(changed.size)] = number if changed.dtype.kind in "iuf" else 0
    return changed
