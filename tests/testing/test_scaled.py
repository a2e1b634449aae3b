"""The scaled hierarchy: its size, and that the oracle's result holds whatever happens to a run."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

import betimes as bt
from betimes.testing import oracle, scaled_hierarchy, scaled_stream

SECONDS, SEED = 12.0, 1
BATCH = 400


@cache
def stream() -> list[bt.Event]:
    return scaled_stream(SECONDS, seed=SEED)


@cache
def expected() -> Counter[tuple[str, int, str]]:
    return oracle(scaled_hierarchy(), stream())


def batches() -> list[list[bt.Event]]:
    return [stream()[low : low + BATCH] for low in range(0, len(stream()), BATCH)]


def test_it_is_as_large_as_the_one_in_the_papers() -> None:
    hierarchy = scaled_hierarchy()
    assert len(hierarchy) >= 70
    assert set(hierarchy.levels().values()) == set(range(1, 16))
    assert len({type for node in hierarchy for type in node.emits}) >= 500


def test_most_events_arrive_out_of_order() -> None:
    ts = np.array([event.ts for event in stream()])
    assert (ts < np.maximum.accumulate(ts)).mean() > 0.5


def test_every_level_of_both_teams_has_something_to_say() -> None:
    found = {type for type, _, _ in expected()}
    for node in scaled_hierarchy():
        if len(node.emits) == 1 and not node.name.startswith("Hits"):
            assert set(node.emits) <= found


def test_the_same_seed_gives_the_same_stream() -> None:
    assert scaled_stream(1.0, seed=5) == scaled_stream(1.0, seed=5)
    assert scaled_stream(1.0, seed=5) != scaled_stream(1.0, seed=6)


@pytest.mark.parametrize("retraction", ["full", "on-demand"])
@pytest.mark.parametrize("attenuation", [1, 0.3, 0])
def test_disorder_does_not_show(attenuation: float, retraction: str) -> None:
    engine = bt.Engine(scaled_hierarchy(), attenuation=attenuation, retraction=retraction)
    changes = [change for batch in batches() for change in engine.feed(batch)]
    changes += engine.finish()
    assert bt.fold(changes) == expected()
    assert any(change.status == "provisional" for change in changes) == (attenuation < 1)


def test_restarts_and_changes_of_attenuation_do_not_show() -> None:
    """A new engine after every third batch, and another attenuation for every batch."""
    rng = np.random.default_rng(7)
    engine = bt.Engine(scaled_hierarchy(), attenuation=0.5)
    changes: list[bt.Change] = []
    for number, batch in enumerate(batches()):
        if number % 3 == 2:
            saved = engine.checkpoint()
            engine = bt.Engine(scaled_hierarchy(), attenuation=0.5)
            engine.restore(saved)
        engine.set_attenuation(float(rng.choice([0.0, 0.1, 0.5, 1.0])))
        changes += engine.feed(batch)
    changes += engine.finish()
    assert bt.fold(changes) == expected()
    assert {change.change_type for change in changes} == {"insert", "confirm", "delete"}
