"""Transactional operators as detectors, and alone: options, errors, the state that users see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes.model import Event
from betimes.model.change import fold
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import share
from tests.transactions.material import PAYLOADS, execute


def ledger_of(run: Any, **options: Any) -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="*")
    hierarchy.add(bt.transactional(run, **options), on="e", emits="made", name="tested")
    return hierarchy


def feed_one(run: Any, events: list[Event], **options: Any) -> list[bt.Change]:
    engine = bt.Engine(ledger_of(run), attenuation=0, **options)
    changes = [change for event in events for change in engine.feed(event)]
    return changes + list(engine.finish())


@given(
    disordered(types=("e",), min_events=3, max_events=20, max_delay=15, payloads=PAYLOADS).flatmap(
        cut
    ),
    engine_options(),
)
@share(0.3)
def test_random_operators_find_what_the_oracle_finds(
    batches: list[list[Event]], options: dict[str, Any]
) -> None:
    def careful(event: Event, state: Any) -> Iterator[Event]:
        steps = [step for step in event["program"] if step[0] != "fail"]
        return execute(Event("e", event.ts, event.payload | {"program": steps}), state)

    hierarchy = ledger_of(careful)
    engine = bt.Engine(hierarchy, retention="1h", **options)
    changes = [change for batch in batches for change in engine.feed(list(batch))]
    changes += engine.finish()
    stream = [event for batch in batches for event in batch]
    assert fold(changes) == oracle(hierarchy, stream)


# Money


def transfer(event: Event, balance: Any) -> Iterator[Event]:
    """Every transfer tells two balances: half of one must never be seen."""
    payer, payee, amount = event["from"], event["to"], event["amount"]
    balance[payer] = balance.get(payer, 0) - amount
    balance[payee] = balance.get(payee, 0) + amount
    for account in (payer, payee):
        yield Event("made", event.ts, {"n": event["n"], "of": account, "is": balance[account]})


ACCOUNTS = st.integers(0, 4)
TRANSFERS = st.tuples(ACCOUNTS, ACCOUNTS, st.integers(1, 9), st.integers(0, 30))


@given(
    st.lists(TRANSFERS, min_size=5, max_size=40),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(1, 7),
)
@share(0.3)
def test_balances_sum_to_zero_after_every_batch_of_changes(
    transfers: list[tuple[int, ...]], attenuation: float, size: int
) -> None:
    events = [
        Event("e", max(0, 2 * n - late), {"n": n, "from": a, "to": b, "amount": amount})
        for n, (a, b, amount, late) in enumerate(transfers)
    ]
    batches = [events[n : n + size] for n in range(0, len(events), size)]
    engine = bt.Engine(ledger_of(transfer), attenuation=attenuation, retention="1h")
    told: dict[str, bt.Change] = {}
    for batch in [*batches, None]:
        for change in engine.finish() if batch is None else engine.feed(batch):
            if change.change_type == "delete":
                del told[change.match_id]
            elif change.change_type == "insert":
                told[change.match_id] = change
        newest: dict[int, tuple[int, int, int]] = {}
        for change in told.values():
            n, account, balance = change.payload["n"], change.payload["of"], change.payload["is"]
            newest[account] = max(newest.get(account, (-1, 0, 0)), (change.ts, n, balance))
        assert sum(balance for *_, balance in newest.values()) == 0


# Errors


def test_a_failure_is_named_with_what_was_read_and_does_not_count_while_it_may_vanish() -> None:
    def spend(event: Event, state: Any) -> None:
        state["n"] = state.get("n", 0) + event["v"]
        if state["n"] < 0:
            raise ValueError("overdrawn")

    events = [Event("e", 2, {"v": -3}), Event("e", 1, {"v": 5})]
    assert feed_one(spend, events) == []
    with pytest.raises(bt.DetectorError, match=r"'tested' failed at .*overdrawn.*'n'.*: 2"):
        feed_one(spend, [Event("e", 1, {"v": 2}), Event("e", 2, {"v": -3})])
    engine = bt.Engine(ledger_of(spend), attenuation=0, errors="skip")
    engine.feed([Event("e", 1, {"v": 2}), Event("e", 2, {"v": -3})])
    engine.finish()
    assert engine.stats["tested"].errors == 1


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda _, state: state[[1]], r"state key that can be hashed, got \[1\]"),
        (lambda _, state: state.add(math.nan), "state key that equals itself, got nan"),
        (lambda _, state: (1, (math.nan,)) in state, r"equals itself, got \(1, \(nan,\)\)"),
        (lambda _, state: state.update(a=object()), "'a' is not data"),
        (lambda _, state: state["missing"], "KeyError: 'missing'"),
        (lambda _, state: [state.update(a="x"), state.add("a"), state["a"]], "add at state key"),
        (lambda _, state: [state.update(a=[1]), state["a"].append(2)], "changed in place"),
        (lambda _, state: state.setdefault("a", []).append(2), "changed in place"),
        (lambda _, state: assigned_too_early(state), r"changed in place, from \[1\] to \[1, 2\]"),
        (lambda _, state: [state.update(a=10**400), state.add("a", 0.5), state["a"]], "add at"),
        (
            lambda _, state: [state.max("a", np.ones(2)), state.max("a", np.ones(3)), state["a"]],
            "max at state key 'a' does not fit",
        ),
        (lambda _, __: [Event("other", 1)], "declares emits"),
        (lambda _, __: [3], "to make Event objects"),
    ],
)
def test_bad_operators_are_named(run: Any, message: str) -> None:
    with pytest.raises(bt.DetectorError, match=message):
        feed_one(run, [Event("e", 1)])


@pytest.mark.parametrize(
    ("made", "message"),
    [(5, "to return or yield events, got 5"), ({"a": 1}, "'run' to make Event objects, got 'a'")],
)
def test_what_is_no_event_is_named_alone_too(made: Any, message: str) -> None:
    def run(_: Event, __: Any) -> Any:
        return made

    with pytest.raises(bt.DetectorError, match=message):
        list(bt.transactional(run).run([Event("e", 1)]))
    with pytest.raises(bt.EventError, match="expected Event objects, got 3"):
        list(bt.transactional(run).run([3]))  # type: ignore[list-item]


def test_a_value_that_is_changed_in_place_and_assigned_is_fine() -> None:
    def note(event: Event, state: Any) -> Event:
        seen = state.get("seen", [])
        seen.append(event.ts)
        state["seen"] = seen
        return Event("made", event.ts, {"seen": list(seen)})

    made = list(bt.transactional(note).run([Event("e", ts) for ts in range(3)]))
    assert made[-1]["seen"] == [0, 1, 2]


def assigned_too_early(state: Any) -> None:
    state["a"] = seen = [1]
    seen.append(2)


def twice(state: Any) -> None:
    for item in (1, 2):
        seen = state.get("a", [])
        seen.append(item)
        state["a"] = seen


def and_append(state: Any) -> None:
    state["a"] = [*state.get("a", []), 1]
    state.append("a", 2)


def and_away(state: Any) -> None:
    seen = state.pop("b", [0])
    state["a"] = seen[1:]
    state["b"] = seen
    state["b"].sort()
    del state["b"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [(twice, [1, 2, 1, 2]), (and_append, [1, 2, 1, 2]), (and_away, [])],
)
def test_what_is_assigned_later_settles_what_was_changed_before(
    change: Any, expected: list[int]
) -> None:
    def execute(event: Event, state: Any) -> Event:
        change(state)
        return Event("made", event.ts, {"a": state["a"], "b": "b" in state})

    made = list(bt.transactional(execute).run([Event("e", ts) for ts in range(2)]))
    assert made[-1].payload == {"a": expected, "b": False}


@pytest.mark.parametrize("retention", ["0s", "1h"])
def test_an_update_that_does_not_fit_can_be_skipped(retention: str) -> None:
    """It is the one that reads the key who fails, also if nothing can go back to the update."""

    def total(event: Event, state: Any) -> None:
        state.add("sum", np.zeros(event["n"]))
        if event.ts == 9:
            state["seen"] = state["sum"]

    engine = bt.Engine(ledger_of(total), attenuation=0, retention=retention, errors="skip")
    for ts in range(10):
        engine.feed(Event("e", ts, {"n": ts + 2}))
    engine.finish()
    assert engine.stats["tested"].errors == 1


def test_equal_keys_are_listed_as_the_first_one_in_time_spells_them() -> None:
    def keys(event: Event, state: Any) -> Event:
        state[event["k"]] = event.ts
        return Event("made", event.ts, {"keys": [repr(key) for key in state]})

    stream = [Event("e", 3, {"k": 1.0}), Event("e", 2, {"k": 2}), Event("e", 0, {"k": 1})]
    hierarchy = ledger_of(keys)
    assert fold(feed_one(keys, stream)) == oracle(hierarchy, stream)


def test_popitem_takes_the_newest_key() -> None:
    def swap(event: Event, state: Any) -> Event:
        state[event["k"]] = event.ts
        key, value = state.popitem()
        state["kept"] = key
        return Event("made", event.ts, {"took": (key, value), "keys": list(state)})

    made = list(bt.transactional(swap).run([Event("e", ts, {"k": ts}) for ts in (5, 6)]))
    assert [event.payload for event in made] == [
        {"took": (5, 5), "keys": ["kept"]}, {"took": (6, 6), "keys": ["kept"]},
    ]  # fmt: skip
    with pytest.raises(bt.DetectorError, match="the state is empty"):
        list(bt.transactional(lambda _, state: state.popitem()).run([Event("e", 1)]))


def test_several_states_have_names() -> None:
    def limit(event: Event, state: Any) -> Event | None:
        state["limits"].setdefault("a", 5)
        state["accounts"].add("a", event["v"])
        if state["accounts"]["a"] > state["limits"]["a"]:
            return Event("made", event.ts, {"of": sorted(state)})
        return None

    operator = bt.transactional(limit, state=("accounts", "limits"))
    made = list(operator.run([Event("e", ts, {"v": 3}) for ts in range(2)]))
    assert [(event.ts, event["of"]) for event in made] == [(1, ["accounts", "limits"])]
    with pytest.raises(bt.DetectorError, match=r"one of .*'accounts', 'limits'.*, got 'others'"):
        list(
            bt.transactional(lambda _, s: s["others"], state=("accounts", "limits")).run(
                [Event("e", 0)]
            )
        )


def test_on_commit_is_called_in_order_and_refused_in_a_hierarchy() -> None:
    seen: list[tuple[int, int]] = []

    def count(event: Event, state: Any) -> Event:
        state.add("n")
        return Event("made", event.ts, {"n": state["n"]})

    def note(event: Event, made: list[Event]) -> None:
        seen.append((event.ts, made[0]["n"]))

    list(bt.transactional(count, on_commit=note).run([Event("e", ts) for ts in (3, 5)]))
    assert seen == [(3, 1), (5, 2)]
    with pytest.raises(bt.OptionError, match=r"on_commit.*final"):
        ledger_of(count, on_commit=note)


async def waits(_: Event, __: Any) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"execute": 3}, {"execute": lambda _: None}, {"execute": waits}, {"state": ("a", "a")},
        {"state": (1,)}, {"on_commit": 3},
    ],
)  # fmt: skip
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    arguments = {"execute": execute, **options}
    with pytest.raises(bt.OptionError, match=next(iter(options))):
        bt.transactional(**arguments)


# What it reports, and whether an operator keeps the contract


def test_statistics_tell_what_ran_again_and_which_key_was_the_reason() -> None:
    def total(event: Event, state: Any) -> Event:
        state["total"] = state.get("total", 0) + event["v"]
        return Event("made", event.ts, {"is": state["total"]})

    engine = bt.Engine(ledger_of(total), attenuation=0)
    engine.feed([Event("e", ts, {"v": 1}) for ts in (1, 3, 4, 5)])
    engine.feed(Event("e", 2, {"v": 1}))
    stats = engine.stats["tested"]
    work = stats.parts["transactions"]
    assert (work["executions"], work["again"], work["aborts"]) == (8, 3, 3)
    assert stats.how.startswith("one after the other: ")
    assert stats.how.endswith("; conflicts: 'total'")
    assert "conflicts: 'total'" in repr(stats)
    restored = bt.Engine(ledger_of(total), attenuation=0)
    restored.restore(engine.checkpoint())
    restored.feed(Event("e", 6, {"v": 1}))
    assert restored.stats["tested"].parts["transactions"]["executions"] == 9


def test_history_weighs_what_transactions_write() -> None:
    def note(event: Event, state: Any) -> None:
        state["seen"] = [*state.get("seen", []), *range(event["n"])]

    weights = {}
    for size in (1, 100):
        engine = bt.Engine(ledger_of(note), attenuation=0, retention="1h")
        engine.feed([Event("e", ts, {"n": size}) for ts in range(20)])
        weights[size] = engine.stats["tested"].history_bytes
    assert weights[100] - weights[1] > 20 * 50 * 8


def test_check_detector_finds_operators_that_depend_on_something_else() -> None:
    sample = [Event("e", ts, {"n": ts, "from": ts % 3, "to": ts % 5, "amount": 1})
              for ts in range(30)]  # fmt: skip
    bt.testing.check_detector(bt.transactional(transfer), sample)
    seen: list[int] = []

    def forgetful(event: Event, state: Any) -> Event:
        seen.append(event.ts)
        state.add("n")
        return Event("made", event.ts, {"n": state["n"], "seen": len(seen)})

    with pytest.raises(bt.testing.DetectorCheckError, match="forgetful does not repeat itself"):
        bt.testing.check_detector(bt.transactional(forgetful), sample)
