"""Iterative calibration: a run that starts from it does not stumble."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.calibration import calibrate
from betimes.calibration.iterative import most_runs
from betimes.engine import Calibration, Engine, Hierarchy
from betimes.model import Event, EventBatch, OptionError
from betimes.model.change import LATE, fold
from betimes.testing import sensor_stream
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut
from tests.engine.material import (
    FOREVER,
    Count,
    Watched,
    feed_all,
    flat,
    hierarchies,
    kinds,
    share,
    streams,
)


def watched_engine(hierarchy: Hierarchy, **options: Any) -> tuple[Engine, Watched]:
    watched = Watched()
    return Engine(hierarchy, observers=[watched], **options), watched


def slacks(calibration: Calibration) -> dict[str, int]:
    return {name: setting.slack for name, setting in calibration.detectors.items()}


def letters(text: str) -> list[Event]:
    """Events such as A3, in the order in which they arrive."""
    return [Event(word[0], int(word[1:]), {"k": 0}) for word in text.split()]


# The promise


@given(hierarchies(), streams(), st.sampled_from([None, None, "k"]), st.data())
@share(0.4)
def test_a_calibrated_run_does_not_stumble(
    hierarchy: Hierarchy, stream: list[Event], by: str | None, data: st.DataObject
) -> None:
    """Nothing is late, nothing is repaired, no slack grows, and the result is right."""
    found = calibrate(hierarchy, stream, by=by)
    assert found.settled
    assert len(found.runs) <= most_runs(hierarchy)
    assert found.runs[-1].late == 0
    late = data.draw(st.sampled_from(["repair", "side"]))
    engine, watched = watched_engine(
        hierarchy, by=by, attenuation=1.0, late=late, retention=0, calibration=found
    )
    changes = flat(feed_all(engine, data.draw(cut(stream))))
    assert fold(changes) == oracle(hierarchy, stream, by=by)
    assert not [change for change in changes if change.type == LATE]
    assert kinds(changes)["delete"] == 0
    for stats in engine.stats.values():
        assert (stats.late, stats.replays, stats.retracted) == (0, 0, 0)
        assert stats.slack == found.detectors[stats.detector].slack
    assert watched.late == 0


@given(hierarchies(), streams(), st.data())
@share(0.2)
def test_speculation_from_calibrated_slack_takes_nothing_final_back(
    hierarchy: Hierarchy, stream: list[Event], data: st.DataObject
) -> None:
    found = calibrate(hierarchy, stream)
    attenuation = data.draw(st.sampled_from([0.0, 0.4]))
    engine = Engine(hierarchy, attenuation=attenuation, retention=FOREVER, calibration=found)
    changes = flat(feed_all(engine, data.draw(cut(stream))))
    assert fold(changes) == oracle(hierarchy, stream)
    assert not [c for c in changes if c.change_type == "delete" and c.status == "final"]


@given(hierarchies(max_levels=3), streams(), st.floats(0.1, 2))
@share(0.1)
def test_with_a_margin(hierarchy: Hierarchy, stream: list[Event], margin: float) -> None:
    found, bare = calibrate(hierarchy, stream, margin=margin), calibrate(hierarchy, stream)
    assert found.settled
    assert all(found.detectors[name].slack >= slack for name, slack in slacks(bare).items())
    engine, watched = watched_engine(hierarchy, attenuation=1.0, margin=margin, calibration=found)
    feed_all(engine, [stream])
    assert watched.late == 0


@given(hierarchies(max_levels=3), streams())
@share(0.1)
def test_keys_with_times_of_their_own(hierarchy: Hierarchy, stream: list[Event]) -> None:
    """Every key has its units, and all of them start with what the worst key needs."""
    options: dict[str, Any] = {"by": "k", "order": "key"}
    found = calibrate(hierarchy, stream, **options)
    engine = Engine(hierarchy, attenuation=1.0, calibration=found, **options)
    feed_all(engine, [stream])
    assert {stats.replays for stats in engine.stats.values()} <= {0}
    for key in {event["k"] for event in stream}:
        alone = calibrate(hierarchy, [event for event in stream if event["k"] == key])
        for name, slack in slacks(alone).items():
            if found.detectors[name].level == 1:
                assert found.detectors[name].slack >= slack


@given(hierarchies(per_batch=False), streams(), st.data())
@share(0.1)
def test_the_cut_makes_no_difference(
    hierarchy: Hierarchy, stream: list[Event], data: st.DataObject
) -> None:
    """Except for detectors per batch that do not tell their causes."""
    batches = [list(batch) for batch in data.draw(cut(stream))]
    found, expected = calibrate(hierarchy, lambda: batches), calibrate(hierarchy, stream)
    assert found.detectors == expected.detectors


# The runs


def tower(levels: int, *, back: int = 0) -> Hierarchy:
    """Detectors that stand on each other; each may date back."""
    hierarchy = Hierarchy(clock="A")
    for level in range(1, levels + 1):
        on = "B" if level == 1 else f"L{level - 1}"
        hierarchy.add(Count(f"L{level}", 1, back), on=on, emits=f"L{level}", name=f"{level}")
    return hierarchy


STEADY = letters(
    "A0 A10 A20 A30 B17 A40 A50 A60 A70 A80 B67 A90 A100 A110 A120 A130 A140 A150 A160 A170"
)


def test_waiting_adds_up_along_the_hierarchy() -> None:
    """Each level waits for what is below it and a step of the clock; and for what is dated back."""
    found = calibrate(tower(3), STEADY)
    assert slacks(found) == {"1": 23, "2": 23 + 10, "3": 23 + 10 + 10}
    parts = found.detectors["1"].emits["L1"]
    assert (parts.processing, parts.network, parts.back_setting) == (10, 0, 0)
    dated_back = calibrate(tower(3, back=5), STEADY)
    assert slacks(dated_back) == {"1": 23, "2": 23 + 10 + 5, "3": 23 + 10 + 5 + 10 + 5}
    assert dated_back.detectors["1"].emits["L1"].back_setting == 5


@dataclass
class Spans:
    """From each start to the next end, dated back to the start."""

    since: int | None = None

    def on_event(self, event: Event) -> Iterator[Event]:
        if event.type == "S":
            self.since = event.ts
        elif self.since is not None:
            yield Event("span", self.since, {"k": 0})
            self.since = None


def test_what_a_wrong_order_has_taught_is_forgotten() -> None:
    """In the first run, a start comes after its end: what is found is long and wrong."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Spans, on=("S", "E"), emits="span")
    hierarchy.add(Count("out", 1), on="span", emits="out", name="reader")
    stream = letters(
        "A0 S5 A10 A20 A30 A40 A50 A60 A70 A80 A90 E98 A100 A110 S90 A120 A130 A140 A150 A160"
    )
    heard: list[tuple[int, int]] = []
    found = calibrate(
        hierarchy,
        lambda: [[event] for event in stream],
        on_run=lambda number, run: heard.append((number, run.late)),
    )
    first, *_, last = (run.changed for run in found.runs)
    assert first["reader"] == (0, 115)
    assert slacks(found) == {"Spans": 30, "reader": 50}
    assert last == {}
    assert heard == [(number, run.late) for number, run in enumerate(found.runs, start=1)]
    assert heard[0][1] > 0
    assert heard[-1] == (len(heard), 0)


def test_readers_of_what_never_came_wait_as_long_as_those_below() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(lambda _: None, on="B", emits="low", name="silent")
    hierarchy.add(lambda _: None, on="low", emits="high", name="reader")
    found = calibrate(hierarchy, letters("A0 A1 A2 A3 A9 B4 A10 A11 A12"))
    assert slacks(found)["silent"] == 6
    assert slacks(found)["reader"] >= 6


def test_events_after_the_last_clock_event_count() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(lambda _: None, on="B", emits="low", name="only")
    assert slacks(calibrate(hierarchy, letters("A0 A9 A20 B5"))) == {"only": 16}


@pytest.mark.parametrize("size", [1, 4, 100])
def test_an_absurd_time_teaches_nothing(size: int) -> None:
    """The very first clock event is years ahead; the unit begins again after three others."""
    stream = [Event("A", 10**15, {"k": 0}), *STEADY]
    batches = [stream[low : low + size] for low in range(0, len(stream), size)]
    assert slacks(calibrate(tower(1), lambda: batches)) == {"1": 23}


@pytest.mark.parametrize("end", ["advance", "stay", "open"])
def test_the_end_of_the_stream(end: str) -> None:
    """What is still held comes at the end, or it does not."""
    hierarchy = tower(2, back=50)
    found = calibrate(hierarchy, letters("A100 A110 B105 A120 B121"), end=end)
    assert slacks(found)["2"] >= (50 if end != "open" else 15)
    engine, watched = watched_engine(hierarchy, attenuation=1.0, calibration=found)
    feed_all(engine, [letters("A100 A110 B105 A120 B121")])
    assert end == "open" or watched.late == 0


def test_a_run_less_than_it_takes() -> None:
    found = calibrate(tower(3), STEADY, max_runs=1)
    assert len(found.runs) == 1
    assert not found.settled


# Clocks that are learned


@pytest.mark.parametrize("clock", [None, ("ball", "near")])
def test_a_learned_clock_is_part_of_it(clock: tuple[str, str] | None) -> None:
    hierarchy = Hierarchy(clock=clock)
    hierarchy.add(Count("L1", 2), on=("near", "hit"), emits="L1", name="1")
    hierarchy.add(Count("L2", 2, 700), on="L1", emits="L2", name="2")
    events = [Event(e.type, e.ts, {"k": 0}) for e in sensor_stream(6_000, seed=4)]
    stream = EventBatch.from_rows(events)
    found = calibrate(hierarchy, stream)
    assert found.settled
    if clock is None:
        assert {setting.clock for setting in found.detectors.values()} == {"ball"}
    else:
        assert all(set(setting.offsets) == set(clock) for setting in found.detectors.values())
        assert any(any(setting.offsets.values()) for setting in found.detectors.values())
    engine, watched = watched_engine(hierarchy, attenuation=1.0, calibration=found)
    feed_all(engine, [events[low : low + 500] for low in range(0, len(events), 500)])
    assert watched.late == 0
    bare, watched = watched_engine(hierarchy, attenuation=1.0)
    feed_all(bare, [events])
    assert watched.late > 0


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_runs": 0}, "expected max_runs to be a whole number from 1"),
        ({"end": "never"}, "expected end to be one of advance, stay, open, got end='never'"),
        ({"slack": "150ms"}, "expected a slack that is learned, got slack='150ms'"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        calibrate(tower(1), letters("A0"), **options)
