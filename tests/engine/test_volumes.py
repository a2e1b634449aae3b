"""History that no longer changes is written once, and a restart from it does not show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from betimes.engine import CheckpointError, Engine, Hierarchy
from betimes.model import EventBatch
from betimes.model.change import Change
from betimes.model.codec import dumps, loads
from betimes.model.volumes import Item, Ref, VolumeWriter
from tests.engine.cases import every_case, runs, small_sizes
from tests.engine.material import Count, share
from tests.engine.protocol import Case, Run, feed

STORE: dict[bytes, bytes] = {}
"""What is stored, by name."""


SEEN: dict[int, tuple[Item, bytes]] = {}
"""Items that were part of a checkpoint itself, and how they were written."""


class Checking(VolumeWriter):
    """Makes sure that what is not written again has not changed."""

    def put(self, item: Item, state: Callable[[], Any], what: str, *, done: bool) -> Ref:
        written = dumps(state(), what)
        if item.kept is not None and item.kept.volume in STORE:
            volume: list[bytes] = loads(STORE[item.kept.volume], "a volume")
            assert volume[item.kept.place] == written, "it has changed"
        elif item.kept is not None and id(item) in SEEN:
            assert SEEN[id(item)] == (item, written), "it has changed"
        ref = super().put(item, state, what, done=done)
        SEEN[id(item)] = item, written
        return ref


def small(patch: pytest.MonkeyPatch) -> None:
    """Make even short streams have volumes."""
    small_sizes(patch)
    patch.setattr("betimes.model.volumes.LEAST", 200)
    patch.setattr("betimes.engine.snapshots.pages.LENGTH", 3)
    patch.setattr("betimes.engine.stages.columns.store._BLOCK", 3)
    patch.setattr("betimes.engine.stages.columns.runs._BLOCK", 3)
    patch.setattr("betimes.engine.engine.VolumeWriter", Checking)


@pytest.fixture
def _small() -> Iterator[None]:
    """Sizes at which even short streams have volumes."""
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        yield


def feed_apart(run: Run, hierarchy: Hierarchy) -> list[Change]:
    """All changes of a run that is saved in parts before every batch."""
    STORE.clear()
    SEEN.clear()
    options = {"time": lambda: 0.0, **run.options}
    engine, changes = Engine(hierarchy, **options), list[Change]()
    for batch, value, restarts in zip(run.batches, run.attenuations, run.restarts, strict=True):
        data = save(engine)
        if restarts:
            now = next(iter(engine.attenuation.values()))
            engine = Engine(hierarchy, **options)
            engine.restore(data, STORE)
            engine.set_attenuation(now)
        if value is not None:
            engine.set_attenuation(value)
        changes += engine.feed(list(batch))
    return [*changes, *engine.finish()]


def save(engine: Engine) -> bytes:
    """Store a checkpoint and its volumes, and no other volumes."""
    data, written = engine.checkpoint_apart(STORE.keys())
    STORE.update(written.new)
    for name in STORE.keys() - written.names:
        del STORE[name]
    assert STORE.keys() == written.names
    return data


@pytest.mark.usefixtures("_small")
@every_case
@given(runs())
@share(0.12)
def test_restarts_from_volumes_do_not_show(case: Case, run: Run) -> None:
    check_restarts(case, run)


def check_restarts(case: Case, run: Run) -> None:
    """The changes are the same, whether a run is restarted or not."""
    hierarchy = case.hierarchy(by=run.by, above=run.above, clock=run.clock, plain=True)
    unbroken = feed(run, hierarchy, restart=False)
    assert feed_apart(run, hierarchy) == unbroken
    assert feed(run, hierarchy) == unbroken


def stream(count: int, size: int, *, since: int = 0) -> Iterator[EventBatch]:
    """Batches of events in order, with rows as payloads."""
    for low in range(since, since + count, size):
        ts = np.arange(low, low + size)
        rows = [{"k": int(n % 3), "v": int(n % 4)} for n in ts]
        yield EventBatch(ts * 1000, (ts % 3).astype(np.int32), ("A", "B", "C"), rows)


@every_case
def test_what_a_checkpoint_writes_follows_what_is_new(case: Case) -> None:
    check_sizes(case)


def check_sizes(case: Case) -> None:
    """With ten times the history, a checkpoint is hardly larger than after the same batches."""
    STORE.clear()
    engine = Engine(case.hierarchy(by="k", plain=True), retention="1h", snapshots=200, slack=1000)
    sizes = []
    for number, batch in enumerate(stream(20_000, 500)):
        engine.feed(batch)
        if number % 4 == 3:
            known = set(STORE)
            data = save(engine)
            sizes.append(len(data) + sum(len(STORE[name]) for name in STORE.keys() - known))
    early, late, whole = sum(sizes[1:4]), sum(sizes[-3:]), len(engine.checkpoint())
    assert late < 1.5 * early
    assert max(sizes[-3:]) < whole / 2


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> tuple[Hierarchy, bytes]:
    """An engine with some history, stored."""
    STORE.clear()
    monkeypatch.setattr("betimes.model.volumes.LEAST", 20_000)
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on=("A", "B"), emits="x", by="k")
    engine = Engine(hierarchy, retention="1h", slack=1000, snapshots=100)
    for batch in stream(5_000, 1000):
        engine.feed(batch)
    data = save(engine)
    assert len(STORE) > 2
    return hierarchy, data


def test_a_volume_that_is_missing_is_named(kept: tuple[Hierarchy, bytes]) -> None:
    hierarchy, data = kept
    name = next(iter(STORE))
    volumes = {other: volume for other, volume in STORE.items() if other != name}
    with pytest.raises(CheckpointError, match=f"volume {name.hex()} .* is missing"):
        Engine(hierarchy, retention="1h", slack=1000).restore(data, volumes)


def test_a_volume_that_is_damaged_is_named(kept: tuple[Hierarchy, bytes]) -> None:
    hierarchy, data = kept
    name, volume = next(iter(STORE.items()))
    for place in range(0, len(volume), len(volume) // 50):
        damaged = bytearray(volume)
        damaged[place] ^= 1
        with pytest.raises(CheckpointError, match=f"volume {name.hex()} .* is damaged"):
            Engine(hierarchy, retention="1h", slack=1000).restore(
                data, STORE | {name: bytes(damaged)}
            )


def test_a_volume_of_which_little_is_used_is_given_up() -> None:
    STORE.clear()
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("x"), on=("A", "B"), emits="x", by="k")
    engine = Engine(hierarchy, retention="8s", snapshots=100, slack=1000)
    sizes = []
    for number, batch in enumerate(stream(60_000, 1000)):
        engine.feed(batch)
        if number % 3 == 2:
            save(engine)
            sizes.append(sum(map(len, STORE.values())))
    assert max(sizes[5:]) < 3 * min(sizes[5:])
