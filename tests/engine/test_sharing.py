"""Which states are the same, and what snapshots that are the same share."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from betimes.engine import Engine, Hierarchy
from betimes.engine.snapshots.sharing import same_state
from betimes.engine.snapshots.states import Snapshotter, copy_state
from betimes.model import Event
from betimes.model.detector import Maker

# Equality


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ({"a": np.arange(3)}, {"a": np.arange(3)}),
        ([np.zeros((2, 2))], [np.zeros((2, 2))]),
        ({"a": {"b": deque([1])}}, {"a": {"b": deque([1])}}),
        ((1, {2}), (1, {2})),
        (None, None),
        ([], []),
        ({"a": [0.0, None]}, {"a": [0.0, None]}),
        ({(1, "a"): {1.5}}, {(1, "a"): {1.5}}),
        ([Event("A", 1, {"v": np.arange(3)})], [Event("A", 1, {"v": np.arange(3)})]),
        ([Event("A", 1, {"v": {1}}), "x"], [Event("A", 1, {"v": {1}}), "x"]),
        (Counter("a"), Counter("a")),
        (datetime(2020, 1, 1), datetime(2020, 1, 1)),
        (np.array([None, "a"]), np.array([None, "a"])),
    ],
)
def test_equal_states(one: Any, another: Any) -> None:
    assert same_state(one, another)


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ({"a": np.arange(3)}, {"a": np.arange(4)}),
        ({"a": np.arange(3)}, {"a": np.array([0, 1, 3])}),
        ({"a": np.zeros(1)}, {"a": np.zeros((1, 1))}),
        ({"a": [0]}, {"a": np.zeros(1)}),
        ({"a": 1}, {"a": True}),
        ({"a": [1]}, {"a": [1.0]}),
        ({"a": [1]}, {"a": (1,)}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1, 2], [1]),
        (None, 0),
        ({"a": 0.0}, {"a": -0.0}),
        ([0.0, 1], [-0.0, 1]),
        (np.zeros(1), -np.zeros(1)),
        ({1}, {1.0}),
        ({(1, "a")}, {(True, "a")}),
        ({1: "a"}, {1.0: "a"}),
        (deque([1], 2), deque([1], 3)),
        (Event("A", 1, {"v": 1}), Event("A", 1, {"v": 1.0})),
        ([Event("A", 1, {"v": 0.0})], [Event("A", 1, {"v": -0.0})]),
        (Counter("a"), Counter("b")),
        (Decimal("1.0"), Decimal("1.00")),
        ([twice := [1], twice], [[1], [1]]),
        ([lambda: 1], [lambda: 1]),
    ],
)
def test_different_states(one: Any, another: Any) -> None:
    assert not same_state(one, another)


@pytest.mark.parametrize("kind", [dict, OrderedDict, Counter])
def test_states_that_differ_in_the_order_of_a_dictionary_are_different(kind: Any) -> None:
    assert not same_state({"d": kind({"a": 1, "b": 2})}, {"d": kind({"b": 2, "a": 1})})


def test_what_is_not_known_in_an_array_is_the_same_as_it_was() -> None:
    assert same_state({"a": np.array([1.0, np.nan])}, {"a": np.array([1.0, np.nan])})
    assert not same_state({"a": np.array([1.0, np.nan])}, {"a": np.array([np.nan, 1.0])})
    assert same_state(np.array(["x", "y"]), np.array(["x", "y"]))


def test_an_array_that_did_not_change_shares_its_storage() -> None:
    state = {"place": np.zeros((2, 3), order="F"), "n": np.arange(3)}
    first = copy_state(state)
    state["n"][1] = 9
    second = copy_state(state, first)
    assert second["place"] is first["place"]
    assert (first["n"].tolist(), second["n"].tolist()) == ([0, 1, 2], [0, 9, 2])


def test_a_state_may_contain_itself() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert same_state(ring, deepcopy(ring))
    assert not same_state(ring, [1, [1, ring]])


def test_arrays_of_other_types_are_different() -> None:
    assert not same_state(np.zeros(1, np.int64), np.zeros(1, np.float64))


# Storage


@dataclass
class Idle:
    """Has a state that never changes."""

    seen: list[int] = field(default_factory=lambda: list(range(1000)))

    def on_event(self, event: Event) -> None: ...


def test_keys_that_rest_share_their_snapshots() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Idle, on="A", emits="B", by="k")
    engine = Engine(hierarchy, attenuation=0.0, snapshots=1, slack="1s")
    engine.feed([Event("A", ts, {"k": 1}) for ts in range(1, 101)])
    stats = engine.stats["Idle"]
    assert stats.snapshots == 100
    assert stats.snapshot_bytes < 50_000  # a hundred lists of their own would take 800,000


@dataclass
class OwnIdle(Idle):
    """The same, with a snapshot of its own."""

    def snapshot(self) -> list[int]:
        return list(self.seen)

    def restore(self, state: list[int]) -> None:
        self.seen = list(state)


@dataclass
class DeepIdle:
    """Has a nested state, of which little changes."""

    last: list[int] = field(default_factory=lambda: [0])
    table: dict[str, list[int]] = field(
        default_factory=lambda: {str(n): list(range(100 * n, 100 * n + 100)) for n in range(10)}
    )

    def on_event(self, event: Event) -> None:
        self.last[0] = event.ts


@dataclass
class BytesIdle(Idle):
    """The same, with its own snapshot of bytes that are new each time."""

    n: int = 0

    def on_event(self, event: Event) -> None:
        self.n = event.ts

    def snapshot(self) -> tuple[bytes, int]:
        return bytes(bytearray(8000)), self.n

    def restore(self, state: tuple[bytes, int]) -> None:
        self.n = state[1]


@dataclass
class ObjectIdle:
    """Has an object in its state that does not change."""

    inner: Idle = field(default_factory=Idle)
    n: int = 0

    def on_event(self, event: Event) -> None:
        self.n = event.ts


@pytest.mark.parametrize("detector", [Idle, OwnIdle, DeepIdle, BytesIdle, ObjectIdle])
@pytest.mark.parametrize("late", [False, True])
def test_snapshots_that_do_not_differ_share_their_storage(detector: Any, late: bool) -> None:
    """Of every kind of state, and also those that a replay has renewed."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(detector, on="A", emits="B", name="idle")
    engine = Engine(hierarchy, attenuation=0.0, snapshots=1, slack="1s", retraction="full")
    engine.feed([Event("A", ts) for ts in range(2, 202)])
    if late:
        engine.feed([Event("A", 1)])
        assert engine.stats["idle"].replayed >= 200
    stats = engine.stats["idle"]
    assert stats.snapshots >= 200
    assert stats.snapshot_bytes < 300_000  # two hundred lists of their own would take 1,600,000


def test_the_size_of_a_snapshot_counts_what_is_deep_down() -> None:
    states = Snapshotter(Maker(DeepIdle), "deep")
    apart = [states.take(DeepIdle()) for _ in range(200)]
    assert states.size(apart) > 200 * 8 * 1000
    assert states.size([apart[0]] * 200) < 50_000
