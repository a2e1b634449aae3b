"""Snapshots: what the detector does later does not show in them, and no state is lost."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.snapshots.sharing import same_state, shared
from betimes.engine.snapshots.states import Snapshotter, copy_state
from betimes.model import Event
from betimes.model.change import fold
from betimes.model.detector import Maker
from betimes.testing.oracle import oracle
from tests.engine.material import one_by_one, other, tick

# Copies

plain = st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.booleans(), st.none())
flat = st.one_of(
    plain,
    st.lists(plain, max_size=3),
    st.sets(st.integers(), max_size=3),
    st.dictionaries(st.text(), plain, max_size=3),
    st.tuples(plain, plain),
    st.lists(plain, max_size=3).map(deque),
)
deep = st.one_of(flat, st.lists(flat, max_size=3), st.dictionaries(st.text(), flat, max_size=3))


@given(st.dictionaries(st.text(), deep, max_size=4))
def test_a_copy_is_equal_and_of_the_same_types(state: dict[str, Any]) -> None:
    assert same_state(copy_state(state), state)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1, 2], lambda v: v.append(3)),
        ({1, 2}, lambda v: v.add(3)),
        ({"a": 1}, lambda v: v.update(b=2)),
        (deque([1], maxlen=3), lambda v: v.append(2)),
        ([[1], [2]], lambda v: v[0].append(3)),
        ({"a": [1]}, lambda v: v["a"].append(2)),
        (([1], 2), lambda v: v[0].append(2)),
        (({"x": 1},), lambda v: v[0].update(y=2)),
        (defaultdict(list, a=[1]), lambda v: v["b"].append(2)),
        (Counter("ab"), lambda v: v.update("c")),
        (np.zeros(3), lambda v: v.__setitem__(0, 1.0)),
        ([np.zeros(3)], lambda v: v[0].__setitem__(0, 1.0)),
        (bytearray(b"ab"), lambda v: v.append(3)),
    ],
)
def test_a_copy_does_not_follow_the_original(value: Any, change: Any) -> None:
    before = repr(value)
    copied = copy_state({"value": value, "n": 1})
    change(value)
    assert repr(copied["value"]) == before
    assert type(copied["value"]) is type(value)


def test_immutable_values_cost_a_reference() -> None:
    value = ("a" * 1000, 2**200, (1, 2, frozenset({3})), Event("A", 1, {"x": 1}))
    assert copy_state({"value": value})["value"] is value


def test_what_is_equal_in_the_last_snapshot_shares_its_storage() -> None:
    first = copy_state({"n": 1, "seen": [1, 2], "names": {"a"}})
    second = copy_state({"n": 2, "seen": [1, 2], "names": {"a", "b"}}, first)
    assert second == {"n": 2, "seen": [1, 2], "names": {"a", "b"}}
    assert second["seen"] is first["seen"]
    assert second["names"] is not first["names"]
    assert copy_state({"n": 2, "seen": [1, 2], "names": {"a", "b"}}, second) is second


@pytest.mark.parametrize(
    ("state", "like"),
    [
        ({"n": 1}, {"n": True}),
        ({"n": [1, 2]}, {"n": [1.0, 2]}),
        ({"n": 1, "seen": [1]}, {"n": 1.0, "seen": [1]}),
        ({"n": {"a": 1, "b": 2}}, {"n": {"b": 2, "a": 1}}),
    ],
)
def test_what_only_looks_equal_is_not_shared(state: dict[str, Any], like: dict[str, Any]) -> None:
    copied = copy_state(state, like)
    assert copied is not like
    assert repr(copied) == repr(state)


def test_lists_that_are_apart_are_not_shared_with_one_that_is_not() -> None:
    one = [1]
    like = copy_state({"a": one, "b": one})
    assert like["a"] is like["b"]
    copied = copy_state({"a": [1], "b": [1]}, like)
    assert copied["a"] is not copied["b"]


@given(st.dictionaries(st.text(max_size=2), deep), st.dictionaries(st.text(max_size=2), deep))
def test_sharing_changes_nothing(state: dict[str, Any], like: dict[str, Any]) -> None:
    found = shared(copy_state(state), copy_state(like))
    assert same_state(found, state)
    assert repr(found) == repr(copy_state(state))


def test_what_is_in_two_places_is_not_shared() -> None:
    inner = [1]
    like = [[1], [1]]
    found = shared([inner, inner], like)
    assert found[0] is found[1]
    assert shared([[1], [1]], [inner, inner])[0] is not inner


def test_a_deque_stays_bounded() -> None:
    assert copy_state({"last": deque([1], maxlen=2)})["last"].maxlen == 2


def test_what_is_shared_deep_down_stays_shared() -> None:
    inner = [[1]]
    copied = copy_state({"one": inner, "another": inner})
    assert copied["one"] is copied["another"]


def test_what_is_shared_stays_shared() -> None:
    inner = [1]
    copied = copy_state({"one": inner, "another": inner})
    assert copied["one"] is copied["another"]


# Detectors


class WithDict:
    def __init__(self) -> None:
        self.n = 0

    def on_event(self, event: Event) -> Event:
        self.n += 1
        return Event("made", event.ts, {"n": self.n})


class WithSlots:
    __slots__ = ("n", "unused")

    def __init__(self) -> None:
        self.n = 0

    def on_event(self, event: Event) -> Event:
        self.n += 1
        return Event("made", event.ts, {"n": self.n})


class WithMoreSlots(WithSlots):
    __slots__ = ("last",)

    def on_event(self, event: Event) -> Event:
        before = getattr(self, "last", None)
        self.last = event.ts
        made = super().on_event(event)
        return Event("made", made.ts, {**made.payload, "before": before})


class WithOneSlot:
    __slots__ = "count"

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Event) -> Event:
        self.count += 1
        return Event("made", event.ts, {"n": self.count})


class WithPrivateSlot:
    __slots__ = ("__n",)

    def __init__(self) -> None:
        self.__n = 0

    def on_event(self, event: Event) -> Event:
        self.__n += 1
        return Event("made", event.ts, {"n": self.__n})


class WithSlotsAndDict(WithSlots):
    def __init__(self) -> None:
        super().__init__()
        self.more = 0


@dataclass
class WithOwn:
    """Its own snapshot leaves out what is no state."""

    n: int = 0
    calls: int = field(default=0, compare=False)

    def on_event(self, event: Event) -> Event:
        self.calls += 1
        self.n += 1
        return Event("made", event.ts, {"n": self.n})

    def snapshot(self) -> int:
        return self.n

    def restore(self, state: int) -> None:
        self.n = state


@dataclass
class WithArray:
    sums: Any = field(default_factory=lambda: np.zeros(4))

    def on_event(self, event: Event) -> Event:
        self.sums[event.ts % 4] += event.ts
        return Event("made", event.ts, {"sums": self.sums.tolist()})


class WithShared:
    def __init__(self) -> None:
        self.one = self.another = [0]

    def on_event(self, event: Event) -> Event:
        self.one.append(event.ts)
        del self.one[:-3]
        return Event("made", event.ts, {"last": list(self.another)})


@dataclass
class FirstSeen:
    """Tells what it has seen first, by the order of a dictionary."""

    seen: dict[int, None] = field(default_factory=dict)

    def on_event(self, event: Event) -> Iterator[Event]:
        if event.type == "B":
            self.seen[event["v"]] = None
        elif self.seen:
            yield Event("made", event.ts, {"first": next(iter(self.seen))})


@dataclass
class Track:
    """Two tracks are equal if they have the same name."""

    name: str
    length: int = field(default=0, compare=False)


@dataclass
class WithTrack:
    """Holds an object that is equal to itself however it changes."""

    track: Track = field(default_factory=lambda: Track("t"))

    def on_event(self, event: Event) -> Event:
        self.track.length += event.ts
        return Event("made", event.ts, {"length": self.track.length})


@dataclass
class WithTracks:
    tracks: list[Track] = field(default_factory=lambda: [Track("t")])

    def on_event(self, event: Event) -> Event:
        self.tracks[0].length += event.ts
        return Event("made", event.ts, {"length": self.tracks[0].length})


@dataclass
class WithSign:
    """0.0 and -0.0 are equal."""

    zero: float = 0.0

    def on_event(self, event: Event) -> Event:
        self.zero = 0.0 if event.ts % 3 == 0 else -self.zero
        return Event("made", event.ts, {"zero": repr(self.zero)})


@dataclass
class WithKinds:
    """1, 1.0 and True are equal."""

    kinds: set[Any] = field(default_factory=set)

    def on_event(self, event: Event) -> Event:
        kind = [1, 1.0, True][event.ts % 3]
        self.kinds.discard(kind)
        self.kinds.add(kind)
        return Event("made", event.ts, {"kinds": repr(self.kinds)})


DISORDERED = [tick(ts) for ts in (1, 2, 5, 7, 3, 9, 8, 12, 11, 20)]
B_LATE = [other(3, v=1), other(5, v=2), *(tick(ts) for ts in (6, 7, 8)), other(2, v=2), tick(30)]


@pytest.mark.parametrize("snapshots", [1, 2, 1000])
@pytest.mark.parametrize("retraction", ["full", "on-demand"])
@pytest.mark.parametrize(
    "detector",
    [
        WithDict,
        WithSlots,
        WithMoreSlots,
        WithOwn,
        WithArray,
        WithTrack,
        WithTracks,
        WithSign,
        WithKinds,
    ],
)
def test_every_way_to_hold_state_survives_replays(
    detector: Any, snapshots: int, retraction: Any
) -> None:
    assert_like_the_oracle(detector, DISORDERED, snapshots=snapshots, retraction=retraction)


@pytest.mark.parametrize(
    ("detector", "stream"),
    [
        (WithOneSlot, DISORDERED),
        (WithPrivateSlot, DISORDERED),
        (WithSlotsAndDict, DISORDERED),
        (WithShared, DISORDERED),
        (FirstSeen, B_LATE),
    ],
)
def test_state_that_is_easily_lost_survives_replays(detector: Any, stream: list[Event]) -> None:
    assert_like_the_oracle(detector, stream, snapshots=1, retraction="on-demand")


def assert_like_the_oracle(detector: Any, stream: list[Event], **options: Any) -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(detector, on=("A", "B"), emits="made")
    engine = Engine(hierarchy, attenuation=0.0, **options)
    assert fold(one_by_one(engine, stream)) == oracle(hierarchy, stream)
    assert engine.stats[detector.__name__].replays > 0


@pytest.mark.parametrize("detector", [WithDict, WithSlots, WithMoreSlots, WithOwn, WithArray])
def test_a_snapshot_can_be_restored_more_than_once(detector: Any) -> None:
    snapshots = Snapshotter(Maker(detector), "name")
    first = snapshots.make()
    first.on_event(tick(1))
    saved = snapshots.take(first)
    continued = []
    for _ in range(3):
        again = snapshots.restore(saved)
        continued.append([again.on_event(tick(ts)) for ts in (2, 3)])
    assert continued == [[first.on_event(tick(ts)) for ts in (2, 3)]] * 3


def test_the_own_snapshot_is_asked() -> None:
    snapshots = Snapshotter(Maker(WithOwn(n=5)), "name")
    assert snapshots.take(WithOwn(n=7, calls=3)) == 7
    assert snapshots.restore(7) == WithOwn(n=7)
    assert snapshots.restore(7).calls == 0


def test_a_function_has_no_state() -> None:
    snapshots = Snapshotter(Maker(tick), "name")
    assert snapshots.stateless
    assert snapshots.take(tick) is None
