"""The control loop: Algorithm 3 of paper *speculation* step by step, and on a simulated machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from betimes.engine import Engine, Zone
from betimes.engine.attenuation import Attenuation, AttenuationControl
from betimes.engine.load import Load, Span
from betimes.model import Event, OptionError
from betimes.model.change import Change, fold
from betimes.testing.oracle import oracle
from tests.engine.machine import SECOND, Machine, work

# Algorithm 3


def steps(attenuation: Attenuation, count: int) -> list[float]:
    values = []
    for _ in range(count):
        attenuation.advance()
        values.append(attenuation.value)
    return values


def test_it_starts_safe_and_halves() -> None:
    attenuation = Attenuation(Zone())
    assert attenuation.value == 1.0
    assert steps(attenuation, 4) == [0.5, 0.25, 0.125, 0.0625]


def test_it_ends_at_no_waiting_at_all() -> None:
    attenuation = Attenuation(Zone())
    assert steps(attenuation, 10)[-1] == 0.0
    assert steps(attenuation, 1) == [0.0]


def test_it_backs_off_to_one() -> None:
    attenuation = Attenuation(Zone())
    steps(attenuation, 3)
    attenuation.back_off()
    assert attenuation.value == 1.0


def test_after_backing_off_it_halves_to_the_bisection_line_and_then_takes_small_steps() -> None:
    """The last minimum was 1/8: the line is (1 - 1/8) / 2 = 0.4375, as the paper works out."""
    attenuation = Attenuation(Zone())
    steps(attenuation, 3)
    attenuation.back_off()
    assert steps(attenuation, 4) == pytest.approx([0.5, 0.45, 0.40, 0.35])


def test_small_steps_do_not_stop_before_no_waiting_at_all() -> None:
    attenuation = Attenuation(Zone())
    steps(attenuation, 3)
    attenuation.back_off()
    values = steps(attenuation, 20)
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0.0


def test_backing_off_ends_the_small_steps() -> None:
    attenuation = Attenuation(Zone())
    steps(attenuation, 3)
    attenuation.back_off()
    steps(attenuation, 3)
    attenuation.back_off()
    assert steps(attenuation, 2) == pytest.approx([0.5, 0.45]), "the last minimum is now 0.4"


def test_backing_off_twice_keeps_the_last_minimum() -> None:
    attenuation = Attenuation(Zone())
    steps(attenuation, 3)
    attenuation.back_off()
    attenuation.back_off()
    assert steps(attenuation, 2) == pytest.approx([0.5, 0.45])


def test_halving_does_not_lead_back_to_the_last_minimum() -> None:
    """The line of 1/2 is 1/4: with the paper's rule alone, the next step would be 1/2 again."""
    attenuation = Attenuation(Zone())
    steps(attenuation, 1)
    attenuation.back_off()
    assert steps(attenuation, 3) == pytest.approx([0.95, 0.9, 0.85])


def test_where_the_last_minimum_is_no_longer_too_low_it_halves_again() -> None:
    attenuation = Attenuation(Zone())
    steps(attenuation, 1)
    attenuation.back_off()
    assert steps(attenuation, 10)[-1] == pytest.approx(0.5)
    assert steps(attenuation, 5)[-1] == pytest.approx(0.25)
    assert steps(attenuation, 3) == pytest.approx([0.125, 0.0625, 0.03125])


def test_right_below_the_last_minimum_it_takes_small_steps() -> None:
    attenuation = Attenuation(Zone())
    steps(attenuation, 1)
    attenuation.back_off()
    steps(attenuation, 5)
    attenuation.back_off()
    values = steps(attenuation, 6)
    assert values == pytest.approx([0.95, 0.9, 0.85, 0.8, 0.75, 0.7]), "the last minimum was 0.75"


# Judging the load


def load(busy: float, *, replaying: float = 0.0, released: int = 100, slack: int = 100) -> Load:
    return Load(busy=busy, replaying=replaying, released=released, slack=slack)


def test_below_the_zone_it_steps_inside_it_waits_above_it_backs_off() -> None:
    control = AttenuationControl({"x": "adaptive"}, Zone())
    control.update({"x": load(0.1)}, Span(0.5, 0.2))
    control.update({"x": load(0.1)}, Span(0.5, 0.2))
    assert control.values()["x"] == 0.25
    control.update({"x": load(0.41)}, Span(0.5, 0.82))
    assert control.values()["x"] == 0.25
    control.update({"x": load(0.475)}, Span(0.5, 0.95))
    assert control.values()["x"] == 1.0


def test_the_budget_goes_to_where_a_step_wins_most() -> None:
    control = AttenuationControl(dict.fromkeys(["much", "little"], "adaptive"), Zone())
    loads = {
        "little": load(0.19, replaying=0.08, slack=10),
        "much": load(0.19, replaying=0.06, slack=1000),
    }
    control.update(loads, Span(0.5, 0.76))
    assert control.values()["much"] == 0.5
    assert control.values()["little"] == 1.0


def test_all_stages_share_one_machine() -> None:
    control = AttenuationControl({"x": "adaptive", "y": "adaptive"}, Zone())
    for _ in range(2):
        control.update({"x": load(0.05), "y": load(0.05)}, Span(0.5, 0.2))
    assert (control.values()["x"], control.values()["y"]) == (0.25, 0.25)
    control.update({"x": load(0.23), "y": load(0.23)}, Span(0.5, 0.92))
    assert (control.values()["x"], control.values()["y"]) == (1.0, 1.0)


def test_a_number_stays() -> None:
    control = AttenuationControl({"x": 0.3}, Zone())
    for busy in (0.1, 0.5, 0.1):
        control.update({"x": load(busy)}, Span(0.5, busy / 0.5))
        assert control.values()["x"] == 0.3


@pytest.mark.parametrize("setting", [-0.1, 1.1, "fast", None, float("nan")])
def test_other_settings_are_refused(setting: float | str) -> None:
    with pytest.raises(OptionError, match="'adaptive' or a number from 0 to 1, got attenuation="):
        Engine(work(Machine()), attenuation=setting)


@pytest.mark.parametrize(
    "zone",
    [
        {"low": 0.95}, {"high": 0.7}, {"low": 0}, {"low": -1}, {"high": 1.2}, {"low": True},
        {"high": float("nan")}, {"step": 0}, {"step": 2}, {"span": 0}, {"span": float("inf")},
        {"span": "1s"},
    ],
)  # fmt: skip
def test_a_zone_that_makes_no_sense_is_refused(zone: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"got .*{next(iter(zone))}="):
        Zone(**zone)


# A simulated machine

BURST = range(6 * SECOND, 8 * SECOND)
END = 20 * SECOND
BATCH = SECOND // 20


def arrivals() -> Iterator[tuple[int, list[Event]]]:
    """Batches of 50 ms, with the time they arrive; events are up to 200 ms late.

    400 events a second, in the burst 1,200: every fourth is late, so that what speculation handles
    has to be handled again.
    """
    pending: list[tuple[int, Event]] = []
    ts = 0
    number = 0
    while ts < END:
        number += 1
        late = number % 4 == 0
        delay = 40_000 + number * 7_919 % 160_000 if late else 0
        pending.append((ts + delay, Event("B" if late else "A", ts)))
        ts += SECOND // (1200 if ts in BURST else 400)
    pending.sort(key=lambda pair: pair[0])
    for begin in range(0, END + SECOND, BATCH):
        yield begin + BATCH, [e for at, e in pending if begin <= at < begin + BATCH]


@dataclass
class Course:
    """How a run went, batch by batch: stream time, then what the engine and the machine said."""

    attenuation: list[tuple[int, float]] = field(default_factory=list)
    lag: list[tuple[int, float]] = field(default_factory=list)
    demand: list[tuple[int, float]] = field(default_factory=list)
    """Seconds of work that the batch brought, as a share of its own length."""
    latency: list[tuple[int, float]] = field(default_factory=list)
    """Stream time from an output's ts to its first change."""
    changes: list[Change] = field(default_factory=list)

    def during(self, values: list[tuple[int, float]], begin: int, end: int) -> list[float]:
        return [value for at, value in values if begin <= at < end]


def simulate(attenuation: float | str, *, cost: float) -> Course:
    machine = Machine(cost=cost)
    engine = Engine(
        work(machine), attenuation=attenuation, snapshots=20, min_slack=200_000, time=machine.time
    )
    course = Course()
    for at, batch in arrivals():
        machine.wait_until(at)
        before = machine.now
        changes = list(engine.feed(batch))
        course.demand.append((at, (machine.now - before) * SECOND / BATCH))
        course.lag.append((at, machine.lag(at)))
        course.attenuation.append((at, engine.attenuation["works"]))
        made = [change for change in changes if change.change_type == "insert"]
        course.latency += [(at, change.detected_at - change.ts) for change in made]
        course.changes += changes
    course.changes += engine.finish()
    return course


COST = 0.0004
"""Alone, the burst of 1,200 events/s takes 0.48 of the machine; with replays, much more."""


@pytest.fixture(scope="module")
def adaptive() -> Course:
    return simulate("adaptive", cost=COST)


@pytest.fixture(scope="module")
def fixed() -> Course:
    return simulate(0.0, cost=COST)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_without_the_control_loop_the_burst_overloads_the_machine(fixed: Course) -> None:
    calm = fixed.during(fixed.demand, 3 * SECOND, BURST.start)
    burst = fixed.during(fixed.demand, BURST.start + SECOND // 2, BURST.stop)
    assert mean(calm) < 1
    assert mean(burst) > 1, "more work than time"
    assert max(fixed.during(fixed.lag, BURST.start, END)) > 1, "seconds behind the stream"


def test_an_idle_machine_speculates_as_far_as_it_can(adaptive: Course) -> None:
    assert adaptive.attenuation[0][1] == 1.0, "a safe start"
    assert min(adaptive.during(adaptive.attenuation, 0, BURST.start)) <= 0.125


def test_as_far_as_it_can_is_the_target_zone_or_no_waiting(adaptive: Course) -> None:
    busy = mean(adaptive.during(adaptive.demand, 4 * SECOND, BURST.start))
    assert busy > Zone().low or adaptive.during(adaptive.attenuation, 0, BURST.start)[-1] == 0.0


def test_in_the_burst_it_backs_off_within_two_spans(adaptive: Course) -> None:
    two_spans = int(2 * Zone().span * SECOND)
    begun = adaptive.during(adaptive.attenuation, BURST.start, BURST.start + two_spans + BATCH)
    assert 1.0 in begun


def test_the_machine_keeps_up(adaptive: Course, fixed: Course) -> None:
    worst = max(adaptive.during(adaptive.lag, 0, END))
    assert worst < 0.5 * max(fixed.during(fixed.lag, 0, END))
    assert max(adaptive.during(adaptive.lag, BURST.stop + SECOND, END)) < 0.1


def test_after_the_burst_the_latency_returns_to_its_minimum(adaptive: Course) -> None:
    before = mean(adaptive.during(adaptive.latency, BURST.start - SECOND, BURST.start))
    within = mean(adaptive.during(adaptive.latency, BURST.start + SECOND, BURST.stop))
    after = mean(adaptive.during(adaptive.latency, END - 2 * SECOND, END))
    assert within > 1.5 * before
    assert after < 1.2 * before
    assert max(adaptive.during(adaptive.attenuation, END - SECOND, END)) <= 0.25


@pytest.mark.parametrize("course", ["adaptive", "fixed"])
def test_nothing_is_lost_in_the_burst(course: str, request: pytest.FixtureRequest) -> None:
    stream = [event for _, batch in arrivals() for event in batch]
    assert fold(request.getfixturevalue(course).changes) == oracle(work(Machine()), stream)
    assert len(stream) > 9_000


def test_buffering_is_slower_than_speculation(adaptive: Course) -> None:
    buffering = simulate(1.0, cost=COST)
    speculation = mean([latency for _, latency in adaptive.latency])
    assert speculation < 0.7 * mean([latency for _, latency in buffering.latency])
