"""`auto` weighs what comparing costs against what it spares."""

from __future__ import annotations

from betimes.engine.retraction import Retraction


def note(retraction: Retraction, times: int, *, comparing: float, spared: int) -> None:
    for _ in range(times):
        retraction.note(outputs=2, changed=2, spared=spared, comparing=comparing, handling=1e-6)


def test_auto_finds_full_where_comparing_brings_nothing() -> None:
    retraction = Retraction("auto")
    note(retraction, 4, comparing=1e-3, spared=1)
    assert not retraction.on_demand
    assert retraction.reason.startswith("full: in 4 replays 0 of 8 outputs stayed as they were")


def test_auto_stays_on_demand_where_it_pays() -> None:
    retraction = Retraction("auto")
    note(retraction, 1000, comparing=1e-6, spared=10)
    assert retraction.on_demand
    assert retraction.reason.startswith("on demand: in 32 replays")


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
