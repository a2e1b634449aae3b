"""How a stage goes back does not show: rows are the same, and in the same order."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.model.change import fold
from betimes.patterns import pattern
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut
from tests.engine.material import feed_all, flat, hierarchies, streams


def rows(hierarchy: Hierarchy, parts: Any, technique: Any, snapshots: Any) -> list[Any]:
    engine = Engine(
        hierarchy, attenuation=0.3, retraction=technique, snapshots=snapshots, retention="1h"
    )
    return [
        (c.seq, c.change_type, c.status, c.match_id, c.ts, c.payload)
        for c in flat(feed_all(engine, parts))
    ]


@settings(max_examples=60)
@given(st.data(), hierarchies(max_levels=3, per_batch=False), streams())
def test_techniques_and_snapshots_give_the_same_rows_in_the_same_order(
    data: st.DataObject, hierarchy: Hierarchy, stream: list[Event]
) -> None:
    parts = data.draw(cut(stream))
    expected = rows(hierarchy, parts, "on-demand", 1)
    assert rows(hierarchy, parts, "full", 3) == expected
    assert rows(hierarchy, parts, "auto", "adaptive") == expected


def test_snapshots_do_not_show_where_time_makes_results() -> None:
    """An absence that is found again after its key went back is the one that was known."""
    chance, arrivals, ts = random.Random(1), [], 0
    for number in range(1500):
        ts += chance.randint(0, 2000)
        delay = chance.choice([0, 0, chance.randint(0, 40_000)])
        event = Event(chance.choice("AAB"), ts, {"k": chance.choice("xyz")})
        arrivals.append((ts + delay, number, event))
    stream = [event for *_, event in sorted(arrivals, key=lambda each: each[:2])]
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(pattern("A !B", by="k", within="5ms", emits="m", timeouts="out"))
    batches = [stream[low : low + 100] for low in range(0, len(stream), 100)]
    told = []
    for snapshots in (1, 3, 50, 1000):
        options: Any = {"attenuation": 0.2, "retraction": "on-demand", "snapshots": snapshots}
        told.append(feed_all(Engine(hierarchy, **options), batches))
    assert all(rows == told[0] for rows in told[1:])
    assert fold(flat(told[0])) == oracle(hierarchy, stream)
