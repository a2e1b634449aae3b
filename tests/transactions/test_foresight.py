"""Transactions that were run ahead on copies of the state: they save time and change nothing."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes.host.published import Publisher, Reader
from betimes.model import Event
from betimes.model.change import fold
from betimes.testing.oracle import oracle
from betimes.transactions import foresight as tested
from betimes.transactions.copies import tell
from betimes.transactions.foresight import Foresight, Memos
from betimes.transactions.scouts import has_scouts, run_ahead
from betimes.transactions.versions import Base
from tests.engine.material import share
from tests.transactions import operators
from tests.transactions.material import PAYLOADS


def hierarchy_of(run: Any, **options: Any) -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="*")
    hierarchy.add(bt.transactional(run, **options), on="e", emits="made", name="tested")
    return hierarchy


class Cluster:
    """An engine whose batches are read by several tasks, each of which runs its part ahead."""

    def __init__(self, hierarchy: bt.Hierarchy, tasks: int, **options: Any) -> None:
        self.hierarchy = hierarchy
        self.tasks = tasks
        self.foresight = Foresight()
        self.engine = bt.Engine(hierarchy, foresight=self.foresight, **options)
        self.states: dict[str, Base] = {}

    def feed(self, events: list[Event]) -> list[bt.Change]:
        parts = [events[n :: self.tasks] for n in range(self.tasks)]
        self.foresight.take(
            (number, run_ahead(self.hierarchy, self.states, part))
            for number, part in enumerate(parts)
            if self.states
        )
        changes = list(self.engine.feed(events))
        said = self.foresight.publish(whole=False)
        if said is None or said.whole:
            self.states = {}
        for name, known in () if said is None else said.states.items():
            tell(self.states.setdefault(name, {}), known)
        return changes

    @property
    def work(self) -> dict[str, float]:
        return self.engine.stats["tested"].parts["transactions"]


@pytest.fixture
def worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short transactions are, they are run ahead."""
    monkeypatch.setattr(Memos, "judge", lambda _: True)


@given(
    st.lists(PAYLOADS, min_size=4, max_size=24),
    st.randoms(use_true_random=False),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.4, 1.0]),
)
@share(0.5)
def test_whatever_the_copies_know_the_result_is_the_oracles(
    payloads: list[dict[str, Any]], chance: random.Random, size: int, attenuation: float
) -> None:
    """Some batches nobody runs ahead, some run on a state that is long gone or made up."""
    stream = [
        Event("e", max(0, 2 * n - chance.randint(0, 9)), payload)
        for n, payload in enumerate(payloads)
    ]
    hierarchy = hierarchy_of(operators.careful)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memos, "judge", lambda _: True)
        cluster = Cluster(hierarchy, chance.randint(1, 3), attenuation=attenuation, retention="1h")
        changes: list[bt.Change] = []
        old: dict[str, Base] = {}
        for first in range(0, len(stream), size):
            kept = cluster.states
            if chance.random() < 0.3:
                cluster.states = chance.choice([{}, old, {"tested": {None: {"a": (5,)}}}])
            changes += cluster.feed(stream[first : first + size])
            old = kept
        changes += cluster.engine.finish()
    assert fold(changes) == oracle(hierarchy, stream)


def accounts(first: int, count: int, of: int) -> list[Event]:
    return [Event("e", ts, {"account": ts % of}) for ts in range(first, first + count)]


@pytest.mark.usefixtures("worthwhile")
def test_what_holds_is_not_run_again() -> None:
    """100 accounts: nobody conflicts. One account: only the first task is right, and only it."""
    for of, least, most in ((100, 300, 300), (1, 1, 4)):
        cluster = Cluster(hierarchy_of(operators.count), tasks=2, attenuation=0)
        found = [
            change.payload["n"]
            for first in range(0, 400, 100)
            for change in cluster.feed(accounts(first, 100, of))
            if change.change_type == "insert"
        ]
        assert found == [ts // of + 1 for ts in range(400)]
        assert least <= cluster.work["ahead"] <= most
        assert cluster.work["executions"] == 400 - cluster.work["ahead"]
    assert "that ran ahead on the cluster held" in cluster.engine.stats["tested"].how


@pytest.mark.usefixtures("worthwhile")
def test_a_failure_ahead_is_none() -> None:
    """The second one fails in every task that has not seen the first."""
    cluster = Cluster(hierarchy_of(operators.needs_the_first), tasks=2, attenuation=0)
    cluster.states = {"tested": {}}
    changes = cluster.feed([Event("e", ts, {}) for ts in range(4)])
    assert [change.payload["found"] for change in changes] == [0] * 4


@pytest.mark.usefixtures("worthwhile")
def test_events_that_wait_keep_what_was_run_ahead() -> None:
    cluster = Cluster(hierarchy_of(operators.count), tasks=2, attenuation=1, margin=1.0)
    early = Event("e", 0, {"account": 7})
    cluster.feed([early, Event("e", 50, {"account": 8}), Event("e", 0, {"account": 9})])
    cluster.feed([Event("e", 90, {"account": 1}), Event("e", 91, {"account": 2})])
    cluster.feed([Event("e", 1000, {"account": 3})])
    cluster.engine.finish()
    assert cluster.work["ahead"] >= 2


def test_only_operators_without_keys_run_ahead() -> None:
    plain = bt.Engine(hierarchy_of(operators.count)).options
    for options, wanted in (
        ({}, True), ({"workers": 1}, False), ({"timeout": "1s"}, False),
        ({"predictor": "always"}, False),
    ):  # fmt: skip
        (node,) = hierarchy_of(operators.count, **options)
        assert has_scouts(node, plain) is wanted
        assert not has_scouts(node, plain.with_(by="account"))


def judged(alone: float, ahead: float, here: float, batches: int = 40) -> list[bool]:
    """Whether scouts run, batch by batch, with costs per transaction that are given."""
    memos, runs = Memos(), [False]
    for _ in range(batches):
        if runs[-1]:
            memos.put([], [100 * ahead])
        memos.ran(100, 100 * (here if runs[-1] else alone))
        runs.append(memos.judge())
    return runs[1:]


def test_it_goes_on_only_where_it_pays() -> None:
    assert sum(judged(alone=5e-3, ahead=2.5e-3, here=1e-4)) >= 38
    chain = judged(alone=5e-3, ahead=2.5e-3, here=4.9e-3, batches=200)
    assert 1 <= sum(chain) <= 6, "it is tried now and then"
    assert not any(judged(alone=0.9 * tested.WORTH, ahead=1e-9, here=1e-9))


# Files


def test_readers_follow_what_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memos, "judge", lambda _: True)
    monkeypatch.setattr("betimes.host.published.LEAST", 200)
    cluster, publisher, reader = Cluster(hierarchy_of(operators.count), 1), Publisher(), Reader()
    place, numbers, chance = str(tmp_path / "ahead"), count(), random.Random(1)
    for first in range(0, 600, 20):
        cluster.engine.feed(accounts(first, 20, 50))
        publisher.publish(place, next(numbers), cluster.foresight)
        if chance.random() < 0.5:
            continue  # this one falls behind
        now: dict[int, tuple[int]] = {}
        for ts in range(first + 20):
            now[ts % 50] = (ts // 50 + 1,)
        known = reader.read(place)["tested"][None]
        assert known == {key: now[key] for key in known}
        assert len(known) >= min(len(now) - 20, 30)
        assert Reader().read(place)["tested"][None] == known
    assert len(list(Path(place).iterdir())) < 30, "old ones are removed"
    monkeypatch.setattr(Memos, "judge", lambda _: False)
    publisher.publish(place, next(numbers), cluster.foresight)
    assert reader.read(place) == {}
    assert list(Path(place).iterdir()) == []


def test_what_is_missing_or_damaged_only_means_that_nobody_runs_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Memos, "judge", lambda _: True)
    cluster, place = Cluster(hierarchy_of(operators.count), 1), tmp_path / "ahead"
    assert Reader().read(str(place)) == {}
    assert Reader().read("nowhere://at/all") == {}
    publisher = Publisher()
    for number in range(3):
        cluster.engine.feed(accounts(20 * number, 20, 5))
        publisher.publish(str(place), number, cluster.foresight)
    first, second, _ = sorted(place.iterdir())
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    assert Reader().read(str(place)) == {}
    data[-1] ^= 1
    first.write_bytes(data)
    assert Reader().read(str(place))
    second.unlink()
    assert Reader().read(str(place)) == {}
    (tmp_path / "file").touch()
    publisher.publish(str(tmp_path / "file" / "in"), 3, cluster.foresight)
