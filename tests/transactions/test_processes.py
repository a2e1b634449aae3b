"""Transactions on workers: whatever they know, and whether they live, makes no difference.

Workers are processes or threads; here threads take turns, which changes nothing but the time.

The books are those of the protocol, so the serial run is the truth here, too.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from threading import current_thread
from time import perf_counter, sleep
from typing import Any

import pytest

import betimes as bt
from betimes.model import Event
from betimes.model.change import fold
from betimes.parallel import ShippingError, ThreadPool, WorkerError
from betimes.testing.oracle import oracle
from betimes.transactions.book import Book
from betimes.transactions.crew import Crew, Processes, Threads
from betimes.transactions.predictors import Choice, predictor_of
from tests.transactions import operators
from tests.transactions.material import payload_of
from tests.transactions.test_book import entry_of, result_of


def started(run: Any, workers: int = 2, timeout: float | None = None) -> Processes:
    """Processes that are there; otherwise the tests would be over before they are."""
    processes = Processes(
        run, (), workers=workers, timeout=timeout, name="tested", time=perf_counter
    )
    while not all(processes.pool.ready):
        sleep(0.01)
        processes.pool.receive(wait=False)
    return processes


def threads(run: Any, workers: int = 2) -> Threads:
    return Threads(run, (), workers=workers, name="tested", time=perf_counter)


STARTS: dict[str, Callable[[Any], Crew]] = {"processes": started, "threads": threads}


def accounts(count: int, of: int = 3) -> list[Event]:
    return [Event("e", ts, {"account": ts % of}) for ts in range(count)]


def totals(count: int, of: int = 3) -> list[int]:
    return [ts // of + 1 for ts in range(count)]


def ran_in(processes: Crew, events: list[Event], predictor: Choice = "always") -> Book:
    book = Book()
    for event in events:
        book.insert(entry_of(event))
    processes.run(None, book, predictor_of(predictor, operators.count))
    return book


def counted(book: Book) -> list[int]:
    return [result_of(entry)[0]["n"] for entry in book.entries]


def test_work_is_done_elsewhere() -> None:
    processes = started(operators.who)
    book = ran_in(processes, [Event("e", ts) for ts in range(40)])
    pids = {result_of(entry)[0]["pid"] for entry in book.entries}
    processes.pool.close()
    assert pids & set(processes.pool.pids) or pids - {os.getpid()}
    assert counted(book) == list(range(1, 41))


@pytest.mark.parametrize("kind", STARTS)
def test_a_chain_that_is_known_runs_on_one_worker_and_never_loses(kind: str) -> None:
    crew, book = STARTS[kind](operators.chain), Book()
    for ts in range(300):
        book.insert(entry_of(Event("e", ts, {"account": "a"})))
    try:
        schedule, _ = crew.run(None, book, predictor_of("static", operators.chain))
    finally:
        crew.pool.close()
    assert book.versions.state(None, (300, 0, 0)) == {"a": 300}
    assert (schedule.executions, book.aborts) == (300, 0)


def test_what_cannot_travel_stays_here() -> None:
    processes = started(operators.secret)
    book = ran_in(processes, [Event("e", ts) for ts in range(5)])
    assert counted(book) == [1, 2, 3, 4, 5]
    processes.pool.close()
    processes = started(operators.who)
    events = [Event("e", ts, {"f": (lambda: 3) if ts % 2 else None}) for ts in range(9)]
    assert counted(ran_in(processes, events)) == list(range(1, 10))
    processes.pool.close()


@pytest.mark.parametrize("hang", [False, True])
def test_a_worker_that_dies_or_hangs_is_replaced(tmp_path: Path, hang: bool) -> None:
    run = operators.Dies(tmp_path, times=2, hang=hang, home=os.getpid())
    processes = started(run, timeout=1.0 if hang else None)
    assert counted(ran_in(processes, accounts(60))) == totals(60)
    assert processes.pool.replaced == 2
    book = ran_in(processes, accounts(60))
    assert counted(book) == totals(60), "the replacements are as good"
    processes.pool.close()


def test_an_event_that_always_ends_its_process_is_an_error(tmp_path: Path) -> None:
    run = operators.Dies(tmp_path, times=99, home=os.getpid())
    processes = started(run)
    with pytest.raises(WorkerError, match="3 worker processes of tested in a row died"):
        ran_in(processes, accounts(60))
    processes.pool.close()


def test_a_replacement_knows_the_state() -> None:
    """It is told everything, so what it runs counts."""
    processes = started(operators.slow_count, workers=1)
    book = ran_in(processes, accounts(30))
    processes.pool._workers[0].process.kill()
    for event in [Event("e", ts, {"account": ts % 3}) for ts in range(30, 60)]:
        book.insert(entry_of(event))
    processes.run(None, book, predictor_of("always", operators.count))
    assert counted(book) == totals(60)
    assert processes.pool.replaced == 1
    processes.pool.close()


@pytest.mark.parametrize("kind", STARTS)
def test_one_that_fails_on_a_guess_has_not_failed(kind: str) -> None:
    """Its worker does not know yet what an earlier one writes."""
    crew = STARTS[kind](operators.needs_the_first)
    book = ran_in(crew, [Event("e", ts, {}) for ts in range(20)])
    assert [result_of(entry)[0]["found"] for entry in book.entries] == [0] * 20
    crew.pool.close()


def test_threads_take_what_cannot_travel() -> None:
    names: list[str] = []

    def note(event: Event, state: Any) -> Event:
        names.append(current_thread().name)
        return operators.secret(event, state)

    crew = threads(note)
    assert counted(ran_in(crew, [Event("e", ts) for ts in range(40)])) == list(range(1, 41))
    crew.pool.close()
    assert set(names) - {current_thread().name}, "some ran in other threads"


def test_without_the_lock_threads_run_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need not import anything, so a function of this test will do; but they cannot end."""
    monkeypatch.setattr("betimes.transactions.executor.free_threaded", lambda: True)

    def count(event: Event, state: Any) -> Event:
        return operators.count(event, state)

    operator = bt.transactional(count, workers=2, predictor="always")
    assert [event["n"] for event in operator.run(accounts(300))] == totals(300)
    executor = operator.executor("tested", perf_counter)
    book = Book()
    for event in accounts(50):
        book.insert(entry_of(event))
    executor.run(None, book)
    assert executor.explain().startswith("in 2 threads: ")
    executor.close()
    limited = bt.transactional(operators.count, workers=2, predictor="always", timeout="9s")
    executor = limited.executor("tested", perf_counter)
    assert isinstance(executor._started(), Processes)
    executor.close()


def test_what_goes_wrong_in_a_thread_is_raised() -> None:
    pool = ThreadPool([len, len], "tested")
    pool.send([1, 2], to=1)
    assert [(reply.worker, reply.data) for reply in pool.receive()] == [(1, 2)]
    assert pool.receive() == pool.receive(wait=False) == []
    pool.send(3, to=0)
    with pytest.raises(WorkerError, match="tested failed in a thread"):
        pool.receive()
    pool.close()


# In a hierarchy, and alone


@pytest.mark.parametrize("attenuation", [0.0, 0.7])
def test_an_engine_with_workers_finds_what_the_oracle_finds(attenuation: float) -> None:
    """Also after a restart in the middle; the state that workers know is not in the checkpoint."""
    chance = random.Random(5)
    stream = [Event("e", max(0, 2 * n - chance.randint(0, 30)), payload_of(chance))
              for n in range(120)]  # fmt: skip
    hierarchy = bt.Hierarchy(clock="*")
    operator = bt.transactional(operators.careful, workers=2, predictor="always")
    hierarchy.add(operator, on="e", emits="made", name="tested")
    engine = bt.Engine(hierarchy, attenuation=attenuation, retention="1h")
    changes: list[bt.Change] = []
    for first in range(0, 120, 12):
        changes += engine.feed(stream[first : first + 12])
        if first == 60:
            saved = engine.checkpoint()
            engine = bt.Engine(hierarchy, attenuation=attenuation, retention="1h")
            engine.restore(saved)
    changes += engine.finish()
    assert fold(changes) == oracle(hierarchy, stream)


def test_alone_with_workers_it_makes_the_same_in_the_same_order() -> None:
    commits: list[int] = []
    posts: list[int] = []
    operator = bt.transactional(
        operators.slow_count,
        workers=2,
        predictor="always",
        on_commit=lambda event, _: commits.append(event.ts),
        post_commit=lambda event, _: posts.append(event.ts),
    )
    made = list(operator.run(accounts(400)))
    assert [event["n"] for event in made] == totals(400)
    assert commits == sorted(posts) == list(range(400))


def test_a_failure_in_a_worker_is_one_of_the_operator() -> None:
    operator = bt.transactional(operators.fails, workers=2, predictor="always")
    with pytest.raises(bt.DetectorError, match=r"'fails' failed at .*ts=300.*too much.*'n'"):
        list(operator.run([Event("e", ts) for ts in range(400)]))
    results = operator.run([Event("e", ts) for ts in range(400)])
    assert [next(results).ts for _ in range(300)] == list(range(300)), "those before it come first"


@pytest.mark.parametrize("predictor", ["static", "learned"])
def test_keys_that_cannot_be_hashed_fail_where_they_are_used(predictor: Choice) -> None:
    processes = started(operators.count)
    stream = [Event("e", ts, {"account": [1] if ts % 9 == 4 else 0}) for ts in range(300)]
    book = ran_in(processes, stream, predictor)
    results = [result_of(entry) for entry in book.entries]
    failed = [result for result in results if type(result) is str]
    assert (len(failed), len({*failed})) == (33, 1)
    assert "state key that can be hashed, got [1]" in failed[0]
    assert [made[0]["n"] for made in results if type(made) is list] == list(range(1, 268))
    processes.pool.close()


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        (lambda _, ahead: 1 // (ahead - ahead), r"of the operator failed at .*ZeroDivision"),
        (lambda _, __: "soon", r"to return True, False, None or a number of .*, got 'soon' for "),
    ],
)
def test_a_predictor_that_fails_is_named(predictor: Choice, message: str) -> None:
    processes = started(operators.count)
    with pytest.raises(bt.DetectorError, match=message):
        ran_in(processes, accounts(60), predictor)
    processes.pool.close()


def test_what_cannot_be_sent_is_refused_or_stays() -> None:
    def local(event: Event, state: Any) -> None:
        del event, state

    with pytest.raises(ShippingError, match=r"execute cannot be sent to worker processes.*local"):
        bt.transactional(local, workers=2)
    assert list(bt.transactional(local).run([Event("e", 1)])) == []
    assert "cannot be sent" in bt.transactional(local).executor("tested", perf_counter).explain()


@pytest.mark.parametrize(
    ("option", "bad"),
    [("workers", 0), ("workers", "two"), ("timeout", 0), ("timeout", "soon"),
     ("predictor", "alwys"), ("post_commit", 3)],
)  # fmt: skip
def test_bad_options_are_named(option: str, bad: Any) -> None:
    options: dict[str, Any] = {option: bad}
    with pytest.raises(bt.OptionError, match=option):
        bt.transactional(operators.count, **options)
