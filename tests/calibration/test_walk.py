"""Semi-configured calibration: what changed is given, the slacks follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given

from betimes.calibration import calibrate, recalibrate
from betimes.calibration.walk import measure_jitter
from betimes.configuration.value import Setting, SubDelays
from betimes.engine import (
    Calibration,
    CalibrationError,
    Engine,
    Hierarchy,
)
from betimes.model import Event, EventBatch
from betimes.testing import delayed
from tests.engine.material import Watched, hierarchies, share, streams

MS = 1_000


@dataclass
class Touch:
    """Every third position of a player is a touch."""

    seen: int = 0

    def on_event(self, event: Event) -> Iterator[Event]:
        self.seen += 1
        if self.seen % 3 == 0:
            yield Event("touch", event.ts)


@dataclass
class Shot:
    """Known only after the third touch, and dated back to the first."""

    touches: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Iterator[Event]:
        self.touches.append(event.ts)
        if len(self.touches) == 3:
            yield Event("shot", self.touches[0])
            self.touches.clear()


def goal(event: Event) -> Event | None:
    return Event("goal", event.ts) if event.type == "shot" else None


def upper(hierarchy: Hierarchy) -> Hierarchy:
    hierarchy.add(Shot, on="touch", emits="shot")
    hierarchy.add(goal, on=("shot", "player"), emits="goal")
    return hierarchy


def match() -> Hierarchy:
    """Three levels; the middle one dates back, the top one also reads positions."""
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(Touch, on="player", emits="touch")
    return upper(hierarchy)


def positions(jitter: int, *, seed: int, count: int = 6_000) -> EventBatch:
    """Positions of the ball, which arrive soon, and of players, up to `jitter` later."""
    rng = np.random.default_rng(seed)
    ts = np.cumsum(rng.integers(50, 450, count))
    codes = (rng.random(count) < 0.4).astype(np.int32)
    late = np.where(codes == 0, rng.integers(0, 400, count), rng.integers(0, jitter, count))
    return delayed(EventBatch(ts, codes, ("ball", "player")), late)


def late_events(
    hierarchy: Hierarchy, stream: EventBatch | list[Event], start: Calibration | None
) -> int:
    watched = Watched()
    engine = Engine(hierarchy, attenuation=1.0, calibration=start, observers=[watched])
    engine.feed(stream)
    engine.finish()
    return watched.late


def slacks(calibration: Calibration) -> dict[str, int]:
    return {name: setting.slack for name, setting in calibration.detectors.items()}


# The sum


def by_hand() -> Calibration:
    """Numbers that are easy to add."""
    return Calibration(
        match().identity(),
        {
            "Touch": Setting(1, 10, jitter={"player": 10}, emits={"touch": SubDelays(1, 0, 0)}),
            "Shot": Setting(2, 11, emits={"shot": SubDelays(2, 0, 50)}),
            "goal": Setting(3, 63, jitter={"player": 10}, emits={"goal": SubDelays(0, 0, 0)}),
        },
        "paper and pencil",
    )


def test_slack_is_the_largest_sum_of_sub_delays_below() -> None:
    old = by_hand()
    assert slacks(recalibrate(old, match())) == slacks(old)
    assert slacks(recalibrate(old, match(), network=100)) == {
        "Touch": 10, "Shot": 10 + 1 + 100, "goal": 10 + 1 + 100 + 2 + 50 + 100,
    }  # fmt: skip
    assert slacks(recalibrate(old, match(), network={"touch": 7})) == {
        "Touch": 10, "Shot": 10 + 1 + 7, "goal": 10 + 1 + 7 + 2 + 50,
    }  # fmt: skip
    # Another slack meets other steps of the clock: the longest processing of all counts.
    assert slacks(recalibrate(old, match(), jitter={"player": 500})) == {
        "Touch": 500, "Shot": 500 + 2, "goal": 500 + 2 + 2 + 50,
    }  # fmt: skip
    quick = recalibrate(old, match(), back_setting={"shot": 0}, processing={"touch": 0, "shot": 0})
    # The top one also takes positions, which are as late as all that is made of them.
    assert slacks(quick) == {"Touch": 10, "Shot": 10, "goal": 10}


def test_what_was_given_is_written_down() -> None:
    new = recalibrate(by_hand(), match(), network="40ms", jitter={"player": "5ms"})
    assert new.detectors["Shot"].emits["shot"] == SubDelays(2, 40 * MS, 50)
    assert new.detectors["Touch"].jitter == {"player": 5 * MS}
    assert new.measured_on == "adapted from: paper and pencil"
    assert not new.settled
    assert not new.notes


@given(hierarchies(), streams())
@share(0.1)
def test_without_changes_nothing_becomes_shorter(hierarchy: Hierarchy, stream: list[Event]) -> None:
    old = calibrate(hierarchy, stream)
    new = slacks(recalibrate(old, hierarchy))
    assert all(new[name] >= slack for name, slack in slacks(old).items())


# Against iterative calibration of a stream that has changed as described


@pytest.mark.parametrize(("before", "after"), [(45 * MS, 120 * MS), (120 * MS, 45 * MS)])
def test_another_sensor(before: int, after: int) -> None:
    """Its jitter is measured; everything else follows, without any detector being run."""
    old, stream = calibrate(match(), positions(before, seed=1)), positions(after, seed=2)
    new, truth = recalibrate(old, match(), events=stream), calibrate(match(), stream)
    assert late_events(match(), stream, None) > 20
    assert late_events(match(), stream, new) == 0
    for name, slack in slacks(truth).items():
        assert 0.97 < slacks(new)[name] / slack < 1.1


def test_jitter_that_is_given_and_jitter_that_is_measured() -> None:
    old, stream = calibrate(match(), positions(45 * MS, seed=1)), positions(90 * MS, seed=2)
    measured = measure_jitter(match(), stream)
    assert measured["Touch"] == calibrate(match(), stream).detectors["Touch"].jitter
    given = recalibrate(old, match(), jitter={"player": measured["Touch"]["player"]})
    assert slacks(given) == slacks(recalibrate(old, match(), events=stream))


def test_a_detector_that_moves_behind_a_network() -> None:
    """Touches are found elsewhere, and come to the upper levels 40 ms later than they did."""
    stream, network = positions(45 * MS, seed=1, count=3_000), 40 * MS
    old = calibrate(match(), stream)
    new = recalibrate(old, match(), network={"touch": network})
    here = Hierarchy(clock="ball")
    received = over_network(stream, old, network)
    truth = calibrate(upper(here), received)
    for name, slack in slacks(truth).items():
        assert 0.97 < slacks(new)[name] / slack < 1.1
    start = Calibration(here.identity(), {name: new.detectors[name] for name in ("Shot", "goal")})
    assert late_events(here, received, start) == 0


def over_network(stream: EventBatch, start: Calibration, network: int) -> list[Event]:
    """The stream with touches in it, each as late as if it were made elsewhere and sent here."""
    engine = Engine(match(), attenuation=1.0, calibration=start)
    arrived: list[tuple[int, int, Event]] = []
    clock = 0
    for number, event in enumerate(stream):
        clock = max(clock, event.ts) if event.type == "ball" else clock
        arrived.append((clock, number, event))
        arrived += [
            (clock + network, number, Event("touch", change.ts))
            for change in engine.feed([event])
            if change.type == "touch"
        ]
    return [event for _, _, event in sorted(arrived, key=lambda row: row[:2])]


# Another hierarchy


def test_a_detector_that_is_new() -> None:
    stream = positions(45 * MS, seed=1)
    old = calibrate(match(), stream)
    larger = match()
    larger.add(lambda event: Event("cheer", event.ts), on="goal", emits="cheer", name="Crowd")
    larger.add(lambda event: Event("near", event.ts), on="player", emits="near", name="Near")
    new = recalibrate(old, larger)
    assert [note.partition(":")[0] for note in new.notes] == ["Near is new", "Crowd is new"]
    assert new.detectors["Near"].slack == old.detectors["Touch"].slack
    truth = slacks(calibrate(larger, stream))
    assert late_events(larger, stream, new) == 0
    assert 0.97 < new.detectors["Crowd"].slack / truth["Crowd"] < 1.1
    assert not recalibrate(old, larger, back_setting={"near": 0, "cheer": 0}).notes


def test_a_detector_that_is_gone() -> None:
    smaller = Hierarchy(clock="ball")
    smaller.add(Touch, on="player", emits="touch")
    new = recalibrate(by_hand(), smaller)
    assert slacks(new) == {"Touch": 10}
    Engine(smaller, calibration=new)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jitter": {"plyer": 5}}, "got 'plyer'; did you mean 'player'"),
        ({"jitter": {"ball": 5}}, "of a type that a detector takes, got 'ball'; known are player"),
        ({"network": {"player": 5}}, "that a detector publishes, got 'player'"),
        ({"network": "fast"}, "expected network to be a duration"),
        ({"back_setting": {"shot": -1}}, "expected back_setting of shot to be 0 or longer"),
    ],
)
def test_bad_changes_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recalibrate(by_hand(), match(), **changes)  # type: ignore[arg-type]


def test_jitter_that_nobody_knows() -> None:
    hierarchy = match()
    hierarchy.add(lambda _: None, on="referee", emits="whistle", name="Whistle")
    with pytest.raises(CalibrationError, match=r"jitter of 'referee'.*--jitter referee=50ms"):
        recalibrate(by_hand(), hierarchy)
    new = recalibrate(by_hand(), hierarchy, jitter={"referee": "1ms"})
    assert new.detectors["Whistle"].slack == MS
