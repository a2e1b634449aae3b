"""Snapshots of detectors: copies of their state that nothing else can change.

A state whose attributes are immutable values, or flat containers of such, is copied attribute by
attribute (immutable values cost a reference). Anything deeper is copied by `copy.deepcopy`, which
also keeps shared references. A detector with its own `snapshot()` and `restore(state)` is asked.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from betimes.model.detector import DetectorError, Maker
from betimes.model.event import Event

_ATOMS = frozenset({int, float, str, bytes, bool, complex, type(None), Event})
_FLAT: dict[type, Callable[[Any], Any]] = {
    list: list.copy,
    set: set.copy,
    dict: dict.copy,
    deque: deque.copy,
}

Snapshot = Any
"""What a detector's state looks like from outside: a dictionary, or its own snapshot."""


def _is_flat(value: Any) -> bool:
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is tuple or kind is frozenset:
        return all(_is_flat(item) and type(item) not in _FLAT for item in value)
    if kind is dict:
        return _ATOMS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values()))
    return kind in _FLAT and _ATOMS.issuperset(map(type, value))


def copy_state(state: dict[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing mutable with the original.

    >>> state = {"n": 1, "seen": {1, 2}}
    >>> copied = copy_state(state)
    >>> state["seen"].add(3)
    >>> copied
    {'n': 1, 'seen': {1, 2}}
    """
    if _ATOMS.issuperset(map(type, state.values())):
        return state.copy()
    if all(map(_is_flat, state.values())):
        return {
            name: value if (copier := _FLAT.get(type(value))) is None else copier(value)
            for name, value in state.items()
        }
    return copy.deepcopy(state)


def same_state(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots are equal; arrays are compared by content."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and bool(np.array_equal(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same_state, one, other))
    return bool(one == other)


class Snapshotter:
    """Takes and restores snapshots of the detectors that a maker makes."""

    def __init__(self, maker: Maker, name: str) -> None:
        self._maker = maker
        self._name = name
        self.stateless = maker.kind == "function"
        sample = None if self.stateless else maker.make()
        self._own = hasattr(sample, "snapshot") and hasattr(sample, "restore")
        self._slots = None if self._own or hasattr(sample, "__dict__") else _slots(sample)

    def make(self) -> Any:
        """A detector in its first state."""
        return self._maker.make()

    def take(self, detector: Any) -> Snapshot:
        """The detector's state, safe from what the detector does next."""
        if self.stateless:
            return None
        try:
            if self._own:
                return detector.snapshot()
            return copy_state(self._attributes(detector))
        except Exception as error:
            raise DetectorError(
                f"the state of detector {self._name!r} cannot be snapshotted: "
                f"{type(error).__name__}: {error}; keep only data in its attributes, or give it "
                "snapshot() and restore(state)"
            ) from error

    def restore(self, snapshot: Snapshot) -> Any:
        """A detector in the state of the snapshot; the snapshot can be used again."""
        detector = self._maker.make()
        if self.stateless:
            return detector
        if self._own:
            detector.restore(snapshot)
        elif self._slots is None:
            detector.__dict__.clear()
            detector.__dict__.update(copy_state(snapshot))
        else:
            for name, value in copy_state(snapshot).items():
                setattr(detector, name, value)
        return detector

    def _attributes(self, detector: Any) -> dict[str, Any]:
        if self._slots is None:
            attributes: dict[str, Any] = detector.__dict__
            return attributes
        return {name: getattr(detector, name) for name in self._slots if hasattr(detector, name)}


def _slots(detector: Any) -> tuple[str, ...]:
    return tuple(name for kind in type(detector).__mro__ for name in getattr(kind, "__slots__", ()))
