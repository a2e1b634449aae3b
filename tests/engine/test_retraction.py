"""`auto` weighs what comparing costs against what it spares."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.engine import Engine, Hierarchy
from betimes.engine.stages.retraction import Retraction
from betimes.model import Event
from betimes.model.change import fold
from betimes.testing.oracle import oracle
from tests.engine.material import feed_all, flat, odd
from tests.engine.slicing import Steps


def note(retraction: Retraction, times: int, *, comparing: float, spared: int) -> None:
    for _ in range(times):
        retraction.note(spared=spared, comparing=comparing, handling=1e-6)


def test_auto_finds_full_where_comparing_brings_nothing() -> None:
    retraction = Retraction("auto")
    note(retraction, 4, comparing=1e-3, spared=1)
    assert not retraction.on_demand
    assert retraction.reason.startswith("full: in 4 replays 4 events were spared, worth 0.004 ms;")


def test_auto_stays_on_demand_where_it_pays() -> None:
    retraction = Retraction("auto")
    note(retraction, 1000, comparing=1e-6, spared=10)
    assert retraction.on_demand
    assert retraction.reason.startswith("on demand: in 32 replays 320 events")


def test_a_case_that_is_not_clear_takes_a_longer_trial() -> None:
    retraction = Retraction("auto")
    note(retraction, 31, comparing=2e-6, spared=1)
    assert retraction.on_demand
    note(retraction, 1, comparing=2e-6, spared=1)
    assert not retraction.on_demand


def test_trials_become_rarer_as_long_as_they_bring_nothing() -> None:
    retraction = Retraction("auto")
    pauses = [pause(retraction) for _ in range(4)]
    assert pauses == sorted(set(pauses))
    note(retraction, 32, comparing=1e-6, spared=1000)
    assert pause(retraction) == pauses[0]


def pause(retraction: Retraction) -> int:
    """How many replays follow a trial that brings nothing until the next trial."""
    note(retraction, 4, comparing=1e-3, spared=0)
    count = 0
    while not retraction.on_demand:
        note(retraction, 1, comparing=0.0, spared=0)
        count += 1
    return count


@pytest.mark.parametrize("detector", [odd("out"), Steps("out")])
def test_a_replay_that_ended_early_is_told_on_demand_whatever_is_decided_after_it(
    detector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what stands behind its end would be void, and nobody would publish it again."""

    def full_from_now_on(retraction: Retraction, **_: Any) -> None:
        retraction.on_demand = False

    monkeypatch.setattr(Retraction, "note", full_from_now_on)
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(detector, on=("A", "B"), emits=("out", "out-"), name="detector")
    engine = Engine(hierarchy, attenuation=0.0, snapshots=2, min_slack=100)
    stream = [Event("A", ts, {"k": 0, "v": ts % 5}) for ts in range(1, 40)]
    stream.append(Event("B", 10, {"k": 0, "v": 3}))
    changes = flat(feed_all(engine, [stream[:-1], stream[-1:]]))
    assert engine.stats["detector"].replayed < 10
    assert fold(changes) == oracle(hierarchy, stream)
