"""Workers in virtual time, and what predictors change: when, never what."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.model.errors import OptionError
from betimes.testing.transacting import Worked, transact
from betimes.transactions.predictors import (
    Choice,
    Dynamic,
    Learned,
    checked_predictor,
    horizon,
    predictor_of,
    static_keys,
)
from tests.engine.material import share
from tests.transactions import interleavings
from tests.transactions.material import PAYLOADS, execute
from tests.transactions.test_book import check, events_of


def every_third(_event: Event, ahead: int) -> int:
    return 3 if ahead % 2 else 1


PREDICTORS: list[Choice] = [
    "always", "never", "dynamic", "learned", "adaptive", horizon(1), horizon(5), every_third,
]  # fmt: skip


@given(
    st.lists(PAYLOADS, min_size=1, max_size=14).map(events_of),
    st.integers(1, 6),
    st.sampled_from(PREDICTORS),
    st.randoms(use_true_random=False),
)
@share(2)
def test_every_interleaving_gives_the_serial_result(
    events: list[Event], workers: int, predictor: Choice, chance: random.Random
) -> None:
    costs = {event.ts: chance.randint(0, 50) for event in events}
    arrivals = [(chance.randint(0, 200), event) for event in events]
    worked = transact(
        execute,
        arrivals,
        workers=workers,
        predictor=predictor,
        cost=lambda event: costs[event.ts],
        transit=(0, 20),
        seed=chance.randint(0, 10**6),
    )
    check(worked.book, events)
    assert len(worked.committed) == len(events), "everything is committed"


def histogram(event: Event, state: Any) -> None:
    """The paper's task: events that are 20 apart use the same bucket."""
    bucket = event.ts % 20
    state[bucket] = state.get(bucket, 0) + 1


def apart(event: Event, state: Any) -> None:
    """Events with the same account conflict."""
    account = event["account"]
    state[account] = state.get(account, 0) * 2 + 1


def chain(event: Event, state: Any) -> None:
    state["n"] = state.get("n", 0) + event.ts


def run(task: Any, count: int = 200, workers: int = 4, **options: Any) -> Worked:
    """Events that arrive in order, much faster than they can be handled."""
    events = [(ts, Event("e", ts, {"account": ts // 4 % 25, "other": ts})) for ts in range(count)]
    return transact(task, events, workers=workers, cost=lambda _: 10_000, **options)


def test_without_conflicts_work_is_divided_by_the_workers() -> None:
    for workers in (1, 4, 32):
        worked = run(histogram, count=320, workers=workers, predictor=horizon(20))
        assert worked.executions == 320
        assert worked.time == pytest.approx(320 * 10_000 / min(workers, 20), rel=0.1)


def test_never_is_serial_and_always_loses_on_a_chain() -> None:
    serial = run(chain, predictor="never")
    assert (serial.time, serial.executions) == (200 * 10_000, 200)
    always = run(chain, predictor="always")
    assert always.executions > 250
    assert always.time == pytest.approx(serial.time, rel=0.01), "the first one always wins"


def test_a_predicate_waits_for_the_one_it_depends_on() -> None:
    eager = run(histogram, workers=32, predictor="always")
    told = run(histogram, workers=32, predictor=lambda _, __: 20)
    assert eager.executions > told.executions == 200


def test_dynamic_finds_the_horizon_of_the_conflicts() -> None:
    worked = run(histogram, count=400, workers=64, predictor="dynamic")
    eager = run(histogram, count=400, workers=64, predictor="always")
    assert worked.executions < eager.executions


def test_static_reads_the_keys_off_the_code() -> None:
    assert static_keys(apart) == ("account",)
    assert static_keys(histogram) is None
    worked = run(apart, predictor="static")
    assert worked.executions == 200
    assert worked.time < run(apart, predictor="never").time / 2
    with pytest.raises(OptionError, match="static"):
        predictor_of("static", histogram)


def test_learned_finds_the_attribute_that_conflicts() -> None:
    predictor = Learned()
    worked = run(apart, count=400, predictor=predictor)
    assert predictor.attributes == {"account"}
    assert worked.executions < run(apart, count=400, predictor="always").executions


def test_dynamic_halves_and_grows() -> None:
    predictor, event = Dynamic(), Event("e", 0)
    for _ in range(200):
        predictor.note(event, lost=False)
    far = predictor.verdict(event, 1)
    predictor.note(event, lost=True)
    near = predictor.verdict(event, 1)
    assert isinstance(far, int)
    assert isinstance(near, int)
    assert near == far // 2 > 4


@pytest.mark.parametrize("bad", ["alwys", 3, None])
def test_bad_predictors_are_named(bad: Any) -> None:
    with pytest.raises(OptionError, match="predictor"):
        checked_predictor(bad)
    with pytest.raises(OptionError, match="horizon"):
        horizon(0)


def test_interleavings_from_numbers_run(capsys: pytest.CaptureFixture[str]) -> None:
    interleavings.main(["--runs", "500"])
    assert "500 interleavings" in capsys.readouterr().out
