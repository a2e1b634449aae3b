"""How a stage goes back does not show: rows are the same, and in the same order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
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
