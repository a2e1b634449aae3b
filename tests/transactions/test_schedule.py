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
from betimes.transactions.book import Book, Entry
from betimes.transactions.predictors import (
    Choice,
    Dynamic,
    Hindsight,
    Keyed,
    Learned,
    checked_predictor,
    horizon,
    predictor_of,
    static_keys,
)
from betimes.transactions.schedule import Schedule
from betimes.transactions.tracked import VALUE, Reads, Record, Writes
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


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=2), min_size=1, max_size=30),
    st.integers(0, 2**32),
)
@share(1)
def test_transactions_with_a_common_key_follow_each_other_on_one_worker(
    keys: list[list[int]], seed: int
) -> None:
    chance, book, running = random.Random(seed), Book(), dict[int, int]()
    for ts in range(len(keys)):
        book.insert(Entry((ts, 0, 0), Event("e", ts)))
    schedule = Schedule(book, Keyed(lambda event: keys[event.ts], "given"))
    while book.first_waiting() is not None:
        worker = chance.randint(0, 2)
        for entry in schedule.take(chance.randint(1, 4), worker=worker):
            ts = entry.event.ts
            before = [n for n in range(ts) if book.entries[n].waits and {*keys[n]} & {*keys[ts]}]
            assert {running.get(n) for n in before} <= {worker}
            running[ts] = worker
        mine = [ts for ts in sorted(running) if running[ts] == worker]
        for ts in mine[: chance.randint(0, 3)]:
            del running[ts]
            schedule.done(book.entries[ts], Record({}, {}, []), exact=True)


def test_who_has_the_first_of_a_chain_takes_the_rest_before_anything_else() -> None:
    book = Book()
    for ts in range(8):
        book.insert(Entry((ts, 0, 0), Event("e", ts)))
    accounts = [0, 1, 2, 0, 3, 0, 4, 5]
    schedule = Schedule(book, Keyed(lambda event: [accounts[event.ts]], "given"))

    def taken(worker: int) -> list[int]:
        return [entry.event.ts for entry in schedule.take(2, worker=worker)]

    assert [taken(0), taken(0), taken(1), taken(1)] == [[0, 1], [3, 5], [2, 4], [6, 7]]


def test_what_loses_for_no_known_reason_is_kept_in_order() -> None:
    predictor = Learned()
    for ts in range(40):
        predictor.note(Event("e", ts, {"all": "alike", "id": ts}), lost=ts % 2 == 1)
    assert predictor.attributes == {"all"}


def test_hindsight_sees_what_would_have_conflicted() -> None:
    hindsight = Hindsight()
    reads: list[Reads] = [{}, {(VALUE, None, "a"): (1,)}, {(VALUE, None, "b"): (1,)}]
    writes: list[Writes] = [{(None, "a"): [("set", 1)]}, {}, {(None, "b"): [("set", 1)]}]
    records = [Record(*both, []) for both in zip(reads, writes, strict=True)]
    assert [hindsight.conflicts(record) for record in records] == [False, True, False]
    for _ in range(64):
        assert not hindsight.conflicts(Record({}, {}, []))
    assert not hindsight.conflicts(records[1]), "that was long ago"


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
