"""`check_detector` lets good detectors pass and catches each kind of bad one."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from betimes.model import BetimesError, Event, EventBatch, EventError, OptionError
from betimes.testing import DetectorCheckError, check_detector
from tests.engine.material import BatchSum, Count, NotBetween, Twins, odd

SAMPLE = [Event("ACABC"[ts % 5], ts // 2, {"k": ts % 4, "v": ts * 7 % 11}) for ts in range(60)]


# Good ones


@dataclass
class Window:
    """Means over the last 10 us."""

    recent: deque[tuple[int, int]] = field(default_factory=deque)

    def on_event(self, event: Event) -> Event:
        self.recent.append((event.ts, event["v"]))
        while self.recent[0][0] <= event.ts - 10:
            self.recent.popleft()
        mean = sum(value for _, value in self.recent) / len(self.recent)
        return Event("mean", event.ts, {"mean": mean})


class OwnSnapshot:
    def __init__(self) -> None:
        self.counts = np.zeros(4, np.int64)

    def on_event(self, event: Event) -> Event:
        self.counts[event["k"]] += 1
        return Event("counts", event.ts, {"counts": self.counts.tolist()})

    def snapshot(self) -> Any:
        return self.counts.copy()

    def restore(self, state: Any) -> None:
        self.counts = state.copy()


@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize(
    "detector",
    [
        Count("x"),
        Count("x", 3, back=5),
        NotBetween("x", "A", "B", "C"),
        Twins("x"),
        BatchSum("x"),
        Window,
        OwnSnapshot,
        lambda: Count("x"),
        odd("x"),
        lambda event: [Event("x", event.ts)] * 2,
    ],
)
def test_a_good_detector_passes(detector: Any, by: str | None) -> None:
    check_detector(detector, SAMPLE, by=by)


def test_the_sample_may_come_in_any_order() -> None:
    check_detector(NotBetween("x", "A", "B", "C"), random.Random(1).sample(SAMPLE, len(SAMPLE)))


def test_the_sample_is_left_as_it_was() -> None:
    events = [Event("A", ts, {"k": 0}) for ts in range(10)]
    check_detector(Count("x"), iter(events))
    assert events == [Event("A", ts, {"k": 0}) for ts in range(10)]


# Bad ones


class Raises:
    def on_event(self, event: Event) -> Event:
        return Event("x", event.ts, {"v": 1 / (event.ts - 3)})


def makes_text(event: Event) -> list[Any]:
    return ["x", event.ts]


def makes_negative_times(event: Event) -> Event:
    return Event("x", event.ts - 10)


def makes_times_of_numpy(event: Event) -> Event:
    return Event("x", np.int64(event.ts))  # type: ignore[arg-type]


def makes_objects(event: Event) -> Event:
    return Event("x", event.ts, {"o": object()})


def changes_the_payload(event: Event) -> Event:
    event.payload["seen"] = True
    return Event("x", event.ts)


@dataclass
class ChangesThePayloadLater:
    last: Event | None = None

    def on_event(self, event: Event) -> Event:
        if self.last is not None:
            self.last.payload["next"] = event.ts
        self.last = event
        return Event("x", event.ts)


class DrawsLots:
    def on_event(self, event: Event) -> Event:
        return Event("x", event.ts, {"v": random.random()})


class CountsInTheClass:
    counts: dict[str, int] = {}  # noqa: RUF012

    def on_event(self, event: Event) -> Event:
        self.counts["n"] = self.counts.get("n", 0) + 1
        return Event("x", event.ts, {"n": self.counts["n"]})


class CountsTheLivingInTheClass:
    """Starts afresh when the stream does, so that two runs are equal; but its keys meet."""

    last: int = 0

    def on_event(self, event: Event) -> Event:
        kind = type(self)
        before = kind.last if event.ts else 0
        kind.last = event["k"]
        return Event("x", event.ts, {"before": before})


def counts_in_a_closure() -> Any:
    numbers = itertools.count()
    return lambda event: Event("x", event.ts, {"n": next(numbers)})


class HidesState:
    """Half of its state is in a place that no snapshot sees."""

    def __init__(self) -> None:
        numbers = itertools.count()
        self.count: Callable[[], int] = lambda: next(numbers)

    def on_event(self, event: Event) -> Event:
        return Event("x", event.ts, {"n": self.count()})


class IsItsState(dict[str, int]):
    def on_event(self, event: Event) -> Event:
        self["n"] = self.get("n", 0) + 1
        return Event("x", event.ts, {"n": self["n"]})


class HoldsGenerator:
    def __init__(self) -> None:
        self.numbers = (n for n in range(1000))

    def on_event(self, event: Event) -> Event:
        return Event("x", event.ts, {"n": next(self.numbers)})


@dataclass
class SnapshotIsNoCopy:
    seen: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Event:
        self.seen.append(event.ts)
        del self.seen[:-3]
        return Event("x", event.ts, {"sum": sum(self.seen)})

    def snapshot(self) -> list[int]:
        return self.seen

    def restore(self, state: list[int]) -> None:
        self.seen = list(state)


class RestoreIsNoCopy(SnapshotIsNoCopy):
    def snapshot(self) -> list[int]:
        return list(self.seen)

    def restore(self, state: list[int]) -> None:
        self.seen = state


class SnapshotForgets(SnapshotIsNoCopy):
    def snapshot(self) -> list[int]:
        return self.seen[-1:]


class Inner:
    def __init__(self) -> None:
        self.n = 0


class WithObject:
    """Its state has an object of a class without `__eq__`."""

    def __init__(self) -> None:
        self.inner = Inner()

    def on_event(self, event: Event) -> Event:
        self.inner.n += 1
        return Event("x", event.ts, {"n": self.inner.n})


class RestoresLess:
    def __init__(self) -> None:
        self.n = self.calls = 0

    def on_event(self, event: Event) -> Event:
        self.n, self.calls = self.n + 1, self.calls + 1
        return Event("x", event.ts, {"n": self.n})

    def snapshot(self) -> tuple[int, int]:
        return self.n, self.calls

    def restore(self, state: tuple[int, int]) -> None:
        self.n = state[0]


@dataclass
class KeepsAll:
    seen: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Event:
        self.seen.append(event.ts)
        return Event("x", event.ts, {"n": len(self.seen)})


@dataclass
class KeepsAllInText:
    seen: str = ""

    def on_event(self, event: Event) -> Event:
        self.seen += event.type
        return Event("x", event.ts)


class CountsBatches:
    def __init__(self) -> None:
        self.n = 0

    def on_batch(self, batch: EventBatch) -> Iterator[Event]:
        self.n += 1
        yield Event("x", int(batch.ts[-1]), {"n": self.n})


class ChangesColumns:
    def on_batch(self, batch: EventBatch) -> list[Event]:
        made = [Event("x", int(ts)) for ts in batch.ts]
        batch.ts[:] = 0
        return made


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (Raises, "Raises failed at .*ts=3.*ZeroDivisionError"),
        (makes_text, "expected makes_text to return Event objects.*returned 'x'; yield or return"),
        (makes_negative_times, "0 or more, but .* the time -10; use int"),
        (makes_times_of_numpy, "whole microseconds.*; use int"),
        (makes_objects, r"expected payloads of.*makes_objects returned.*convert"),
        (changes_the_payload, "changed an event that it was given.*copy the payload"),
        (ChangesThePayloadLater, "changed an event that it was given.*copy the payload"),
        (DrawsLots, "DrawsLots does not repeat itself.*random number"),
        (CountsInTheClass, "CountsInTheClass does not repeat itself.*class variable"),
        (counts_in_a_closure(), "does not repeat itself"),
        (HidesState, "saved after .* restored, it returned.*keep the whole state in attributes"),
        (IsItsState, "saved after .* restored, it returned.*the object's own items"),
        (SnapshotIsNoCopy, r"snapshot\(\) must return a copy"),
        (RestoreIsNoCopy, r"restore\(state\) must copy it again"),
        (SnapshotForgets, r"restored, it returned.*snapshot\(\) must return a copy of the whole"),
        (RestoresLess, r"is not the same, so no replay could end early; let restore\(\)"),
        (KeepsAll, "grows with every event.*drop what is too old.*bounded=False"),
        (KeepsAllInText, "grows with every event"),
        (CountsBatches, "given batches of 2 events.*where a batch ends must not matter"),
        (ChangesColumns, r"changed the columns of a batch|read-only"),
    ],
)
def test_a_bad_detector_is_caught(detector: Any, message: str) -> None:
    with pytest.raises(DetectorCheckError, match=message) as caught:
        check_detector(detector, fresh(SAMPLE))
    assert isinstance(caught.value, BetimesError)
    assert isinstance(caught.value, AssertionError)


def test_an_object_in_the_state_needs_no_eq() -> None:
    check_detector(WithObject, fresh(SAMPLE))


def fresh(events: list[Event]) -> list[Event]:
    return [Event(event.type, event.ts, dict(event.payload)) for event in events]


def test_keys_that_meet_are_caught() -> None:
    with pytest.raises(DetectorCheckError, match=r"together with other keys.*not share anything"):
        check_detector(CountsTheLivingInTheClass, SAMPLE, by="k")


def test_state_that_cannot_be_saved_is_caught() -> None:
    with pytest.raises(BetimesError, match=r"cannot be snapshotted.*or give it snapshot\(\)"):
        check_detector(HoldsGenerator, SAMPLE)


def test_growth_can_be_allowed() -> None:
    check_detector(KeepsAll, SAMPLE, bounded=False)


def test_a_sample_that_shows_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="returned nothing for 0 events"):
        check_detector(Count("x"), [])
    message = "returned nothing for 1 events; pass a sample that it reacts"
    with pytest.raises(OptionError, match=message):
        check_detector(Count("x"), SAMPLE[:1])


def test_a_missing_key_is_named() -> None:
    with pytest.raises(EventError, match="expected every event to have by='team'"):
        check_detector(Count("x"), SAMPLE, by="team")


def test_what_is_no_detector_is_refused() -> None:
    with pytest.raises(OptionError, match="expected a detector"):
        check_detector(5, SAMPLE)
