"""A placed hierarchy says what one engine says, wherever its detectors live and when they move."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event, OptionError
from betimes.model.change import Change, fold
from betimes.placement import PlacementError
from betimes.placement.homes import Homes
from betimes.testing import oracle
from betimes.testing.cluster import VirtualCluster
from tests.engine.material import FOREVER, feed_all, flat, hierarchies, share, streams

Batches = list[list[Event]]


def cut(stream: list[Event], seed: int) -> Batches:
    rng, found = random.Random(seed), []
    while stream:
        count = rng.randint(1, 12)
        found.append(stream[:count])
        stream = stream[count:]
    return found


def options(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    return {
        "attenuation": rng.choice([0.0, 0.3, 1.0]),
        "retraction": rng.choice(["full", "on-demand", "auto"]),
        "snapshots": rng.choice([1, 3]),
        "retention": FOREVER,
        "by": rng.choice([None, None, "k"]),
    }


def cluster(seed: int, **more: Any) -> VirtualCluster:
    rng = random.Random(seed)
    settings: dict[str, Any] = {
        "latency": rng.choice([0, 300]), "jitter": rng.choice([0, 2_000]),
        "repeated": rng.choice([0.0, 0.4]), "work": rng.choice([0, 10]),
        "bandwidth": rng.choice([None, 1e6]),
    }  # fmt: skip
    return VirtualCluster(rng.randint(1, 4), seed=seed, **settings | more)


def rows(changes: list[Change]) -> list[tuple[Any, ...]]:
    return [
        (c.change_type, c.status, c.match_id, c.seq, c.type, c.ts, c.detected_at, c.slack, c.cause)
        for c in changes
    ]


def moving(
    engine: Engine, nodes: VirtualCluster, batches: Batches, seed: int, *, deaths: bool = False
) -> list[Change]:
    """Run an engine while detectors move at random moments, and perhaps nodes die."""
    rng, changes = random.Random(seed), list[Change]()
    for batch in batches:
        changes += engine.feed(batch)
        nodes.run(nodes.now + rng.choice([0, 100, 3_000]))
        if deaths and rng.random() < 0.2:
            nodes.kill(rng.choice(nodes.names), noticed=rng.choice([0, 500, 5_000]))
        for _ in range(rng.choice([0, 0, 1, 3])):
            stage = rng.choice(sorted(nodes.homes.now))
            nodes.homes.move(stage, rng.choice(nodes.names), at_once=rng.random() < 0.5)
    return [*changes, *engine.finish()]


@share(0.4)
@given(hierarchies(), streams(), st.integers(0, 10_000))
def test_the_changes_are_those_of_one_engine(
    hierarchy: Hierarchy, stream: list[Event], seed: int
) -> None:
    batches, given_ = cut(stream, seed), options(seed)
    alone = flat(feed_all(Engine(hierarchy, **given_), batches))
    placed = Engine(hierarchy, workers=cluster(seed), **given_)
    assert rows(flat(feed_all(placed, batches))) == rows(alone)


@share(0.4)
@given(hierarchies(), streams(), st.integers(0, 10_000))
def test_moves_at_random_moments_change_nothing(
    hierarchy: Hierarchy, stream: list[Event], seed: int
) -> None:
    nodes, given_ = cluster(seed), options(seed)
    changes = moving(Engine(hierarchy, workers=nodes, **given_), nodes, cut(stream, seed), seed)
    assert fold(changes) == oracle(hierarchy, stream, by=given_["by"])
    alone = flat(feed_all(Engine(hierarchy, **given_), cut(stream, seed)))
    assert rows(changes) == rows(alone)


@share(0.4)
@given(hierarchies(), streams(), st.integers(0, 10_000))
def test_nodes_may_die_at_random_moments_also_during_moves(
    hierarchy: Hierarchy, stream: list[Event], seed: int
) -> None:
    nodes, given_ = cluster(seed, log_bytes=seed % 3 * 2_000), options(seed)
    engine = Engine(hierarchy, workers=nodes, **given_)
    changes = moving(engine, nodes, cut(stream, seed), seed, deaths=True)
    assert fold(changes) == oracle(hierarchy, stream, by=given_["by"])
    alone = flat(feed_all(Engine(hierarchy, **given_), cut(stream, seed)))
    assert rows(changes) == rows(alone)


@given(hierarchies(max_levels=3), streams(), st.integers(0, 10_000))
def test_a_checkpoint_may_go_on_elsewhere(
    hierarchy: Hierarchy, stream: list[Event], seed: int
) -> None:
    batches, given_ = cut(stream, seed), options(seed)
    alone = flat(feed_all(Engine(hierarchy, **given_), batches))
    half, changes = len(batches) // 2, list[Change]()
    engines = [
        Engine(hierarchy, workers=workers, **given_)
        for workers in random.Random(seed).choice([
            (cluster(seed), None), (None, cluster(seed)), (cluster(seed), cluster(seed + 1))
        ])
    ]  # fmt: skip
    for batch in batches[:half]:
        changes += engines[0].feed(batch)
    kept = engines[0].checkpoint()
    changes += engines[0].feed([])
    engines[1].restore(kept)
    changes += flat(feed_all(engines[1], batches[half:]))
    assert rows(changes) == rows(alone)


@given(hierarchies(max_levels=3), streams(), st.integers(1, 40), st.integers(0, 999))
def test_time_passes_and_readings_are_those_of_one_engine(
    hierarchy: Hierarchy, stream: list[Event], passed: int, seed: int
) -> None:
    runs = []
    for workers in (None, cluster(seed)):
        engine = Engine(hierarchy, workers=workers, time=lambda: 0.0, **options(seed))
        changes = [*engine.feed(stream), *engine.advance(passed)]
        stats = {name: (s.handled, s.slack, s.clock) for name, s in engine.stats.items()}
        runs.append((rows([*changes, *engine.finish()]), stats))
    assert runs[0] == runs[1]


def test_the_attenuation_can_be_set_while_it_runs() -> None:
    speed = Hierarchy(clock="A")
    speed.add(lambda event: Event("L", event.ts), on="A", emits="L", name="low")
    speed.add(lambda event: Event("H", event.ts), on="L", emits="H", name="high")
    runs = []
    for workers in (None, VirtualCluster(2, seed=1, latency=50)):
        engine, changes = Engine(speed, workers=workers, attenuation=1.0), list[Change]()
        for ts in (5, 9, 7, 12, 11, 15):
            engine.set_attenuation(0.0 if ts > 9 else 1.0)
            changes += engine.feed([Event("A", ts)])
        runs.append(rows([*changes, *engine.finish()]))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ({"hig": "node 0"}, "got 'hig'; did you mean 'high'"),
        ({"high": "node 7"}, "got 'node 7'; did you mean"),
    ],
)
def test_an_unknown_detector_or_node_is_refused(placement: dict[str, str], message: str) -> None:
    one = Hierarchy(clock="A")
    one.add(lambda _: None, on="A", emits="H", name="high")
    with pytest.raises(PlacementError, match=message):
        Engine(one, workers=VirtualCluster(2, placement=placement))


def test_what_one_place_has_to_see_is_refused() -> None:
    one = Hierarchy(clock="A")
    one.add(lambda _: None, on="A", emits="H", name="high")
    with pytest.raises(OptionError, match='order="key"'):
        Engine(one, workers=VirtualCluster(2), by="k", order="key")
    with pytest.raises(OptionError, match="source="):
        Engine(one, workers=VirtualCluster(2), source="s")
    with pytest.raises(OptionError, match="no carry= with workers="):
        Engine(one, workers=VirtualCluster(2), carry=lambda news: news)
    with pytest.raises(OptionError, match="workers='two'"):
        Engine(one, workers="two")


def test_detectors_move_to_where_the_load_is_even_once_it_is_known() -> None:
    wide = Hierarchy(clock="A")
    load = {"low0": 100.0, "low1": 90.0, "low2": 1.0, "low3": 1.0}
    for name in load:
        wide.add(lambda event, out=name: Event(out, event.ts), on="A", emits=name, name=name)
    homes = Homes(wide, ["here", "there"], dict.fromkeys(load, "here"))
    homes.settle(wide, load)
    moving = [name for name, at in homes.now.items() if len(at) > 1]
    assert len({"low0", "low1"}.intersection(moving)) == 1
    for name in moving:
        homes.note_reached(name, "there")
    settled = dict(homes.now)
    homes.settle(wide, load)
    assert homes.now == settled
