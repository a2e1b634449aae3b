"""Snapshots of detectors: copies of their state that nothing else can change.

A state whose attributes are immutable values, arrays, or flat containers of such values, is copied
attribute by attribute (an immutable value costs a reference). Anything deeper is copied with
`copy.deepcopy`, which also preserves shared references. A detector can define its own `snapshot()`
and `restore(state)` instead. What equals an earlier snapshot shares its storage (`sharing`).
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from betimes.engine.snapshots.sharing import ATOMS, same_state, shared, size
from betimes.model.detector import DetectorError, Maker
from betimes.patterns.detector import PatternDetector

_FLAT: dict[type, Callable[[Any], Any]] = {
    list: list.copy,
    set: set.copy,
    dict: dict.copy,
    deque: deque.copy,
    np.ndarray: np.ndarray.copy,
}

Snapshot = Any
"""The state of a detector: a dictionary of attributes, or what its `snapshot()` returned."""


class Absent:
    """The snapshot of a detector that does not exist yet."""


ABSENT = Absent()


def _is_flat(value: Any) -> bool:
    kind = type(value)
    if kind in ATOMS:
        return True
    if kind is tuple or kind is frozenset:
        return all(_is_flat(item) and type(item) not in _FLAT for item in value)
    if kind is np.ndarray:
        return not value.dtype.hasobject
    if kind is dict:
        return ATOMS.issuperset(map(type, value)) and ATOMS.issuperset(map(type, value.values()))
    return kind in _FLAT and ATOMS.issuperset(map(type, value))


def copy_state(state: dict[str, Any], like: dict[str, Any] | None = None) -> dict[str, Any]:
    """A copy that shares nothing mutable with the original.

    Values that equal those in `like`, an earlier copy, are shared instead of copied.

    >>> state = {"n": 1, "seen": {1, 2}}
    >>> copied = copy_state(state)
    >>> state["seen"].add(3)
    >>> copied
    {'n': 1, 'seen': {1, 2}}
    >>> copy_state({"n": 1, "seen": {1, 2}}, like=copied) is copied
    True
    """
    if ATOMS.issuperset(map(type, state.values())):
        if like is not None and state == like and same_state(state, like):
            return like
        return state.copy()
    if not (_apart(state.values()) and all(map(_is_flat, state.values()))):
        fresh: dict[str, Any] = shared(copy.deepcopy(state), like)
        return fresh
    known = like if like is not None and _apart(like.values()) else {}
    copied = {
        name: _copy_flat(value, known.get(name)) if type(value) in _FLAT else value
        for name, value in state.items()
    }
    return known if known and same_state(copied, known) else copied


def _apart(values: Iterable[Any]) -> bool:
    """Whether no two of the containers are the same object."""
    containers = [id(value) for value in values if type(value) in _FLAT]
    return len(containers) == len(set(containers))


def _copy_flat(value: Any, known: Any) -> Any:
    return known if known is not None and same_state(value, known) else _FLAT[type(value)](value)


class Snapshotter:
    """Takes and restores snapshots of the detectors that a maker makes."""

    def __init__(self, maker: Maker, name: str) -> None:
        self._maker = maker
        self._name = name
        self.stateless = maker.kind == "function"
        sample = None if self.stateless else self.make()
        self._own = hasattr(sample, "snapshot") and hasattr(sample, "restore")
        self._refers = isinstance(sample, PatternDetector)
        """Whether a snapshot refers to data that is never changed, which all of them share."""
        self._slots = () if self._own or self.stateless else _slots(sample)
        self._has_dict = hasattr(sample, "__dict__")
        self.take(sample)

    def make(self) -> Any:
        """A detector in its initial state."""
        try:
            return self._maker.make()
        except Exception as error:
            raise DetectorError(
                f"detector {self._name!r} cannot be created: {type(error).__name__}: {error}; add "
                "a class that needs no arguments, a factory, or an object that can be copied"
            ) from error

    def take(self, detector: Any, like: Snapshot = None) -> Snapshot:
        """The detector's state, unaffected by what the detector does next.

        Values that equal those in `like`, an earlier snapshot, are shared with it.
        """
        if self.stateless:
            return None
        try:
            if self._own:
                saved = detector.snapshot()
                return saved if self._refers else shared(saved, like)
            return copy_state(self._attributes(detector), like)
        except Exception as error:
            raise DetectorError(
                f"the state of detector {self._name!r} cannot be snapshotted: "
                f"{type(error).__name__}: {error}; keep only data in its attributes, or give it "
                "snapshot() and restore(state)"
            ) from error

    def is_at(self, detector: Any, snapshot: Snapshot) -> bool:
        """Whether the detector's state is that of the snapshot."""
        if self.stateless:
            return True
        state = detector.snapshot() if self._own else self._attributes(detector)
        return same_state(state, snapshot)

    def restore(self, snapshot: Snapshot) -> Any:
        """A detector in the state of the snapshot; the snapshot can be used again."""
        detector = self.make()
        if self.stateless:
            return detector
        if self._own:
            detector.restore(snapshot)
            return detector
        state = copy_state(snapshot)
        for name in self._slots:
            if name in state:
                setattr(detector, name, state.pop(name))
        if self._has_dict:
            detector.__dict__.clear()
            detector.__dict__.update(state)
        return detector

    def restored(self, saved: Snapshot) -> Any:
        """A detector in a saved state, or in its initial state if it did not exist."""
        return self.make() if saved is ABSENT else self.restore(saved)

    def size(self, snapshots: Iterable[Snapshot]) -> int:
        """The size of snapshots in bytes; what they share counts once."""
        return size(snapshots)

    def _attributes(self, detector: Any) -> dict[str, Any]:
        attributes: dict[str, Any] = detector.__dict__ if self._has_dict else {}
        if self._slots:
            held = {n: getattr(detector, n) for n in self._slots if hasattr(detector, n)}
            attributes = {**attributes, **held}
        return attributes


def _slots(detector: Any) -> tuple[str, ...]:
    """The names of all slots, as they are found on the object."""
    names = []
    for kind in type(detector).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{kind.__name__.lstrip('_')}{name}" if private else name)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))
