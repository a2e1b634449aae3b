"""Time may pass while nothing happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes.testing import oracle
from betimes.testing.strategies import cut, disordered


@dataclass
class Silence:
    """Tells when nothing came for 100 after an `A`."""

    deadline: int | None = None

    def on_event(self, event: bt.Event) -> None:
        self.deadline = event.ts + 100

    def on_time(self, ts: int) -> bt.Event:
        self.deadline = None
        return bt.Event("silence", ts)


def copied(event: bt.Event) -> bt.Event:
    return bt.Event("seen", event.ts, event.payload)


def hierarchy(clock: str | None = "A") -> bt.Hierarchy:
    found = bt.Hierarchy(clock=clock)
    found.add(copied, on=("A", "B"), emits="seen")
    found.add(bt.pattern("A B", within=50, emits="pair"))
    found.add(bt.pattern("seen silence", emits="quiet"))
    found.add(Silence, on="A", emits="silence")
    return found


STREAM = [bt.Event(*event) for event in (("A", 10), ("B", 7), ("A", 40), ("B", 38), ("B", 45))]


@pytest.mark.parametrize("attenuation", [1.0, 0.3])
@pytest.mark.parametrize("options", [{}, {"by": "key"}, {"by": "key", "order": "key"}])
def test_what_waited_settles_and_deadlines_pass(
    attenuation: float, options: dict[str, Any]
) -> None:
    engine = bt.Engine(hierarchy(), attenuation=attenuation, **options)
    stream = [bt.Event(e.type, e.ts, {"key": 1}) for e in STREAM]
    changes = [*engine.feed(stream), *engine.advance(60)]
    final = {(c.type, c.ts) for c in changes if c.status == "final"}
    assert {("seen", 40), ("seen", 45), ("pair", 45)} <= final
    assert not any(c.type == "silence" for c in changes)
    changes += engine.advance("1s")
    assert ("silence", 140) in {(c.type, c.ts) for c in changes}
    assert bt.fold([*changes, *engine.finish()]) == oracle(hierarchy(), stream)


def test_time_teaches_no_delays_and_is_believed_however_far_it_goes() -> None:
    engine = bt.Engine(hierarchy(), attenuation=1.0, max_skew="1s")
    engine.feed(STREAM)
    slack = engine.stats["copied"].slack
    engine.advance("2h")
    assert engine.stats["copied"].slack == slack
    assert engine.stats["copied"].clock == 40 + 7_200_000_000
    assert engine.stats["copied"].handled == len(STREAM)


def test_nothing_passes_before_the_first_event_nor_without_time() -> None:
    engine = bt.Engine(hierarchy())
    assert len(engine.advance("1s")) == 0
    engine.feed(STREAM)
    assert len(engine.advance(0)) == 0


def test_keys_have_their_own_time_only_with_order_key() -> None:
    stream = [bt.Event(e.type, e.ts, {"key": key}) for e in STREAM for key in (1, 2)]
    engine = bt.Engine(hierarchy(), by="key", order="key", attenuation=1.0)
    engine.feed(stream)
    changes = engine.advance({2: "1s"})
    assert {c.ts for c in changes if c.type == "silence"} == {140}
    assert sum(c.type == "seen" and c.ts == 45 for c in changes) == 1
    with pytest.raises(bt.OptionError, match="a mapping from keys needs order"):
        bt.Engine(hierarchy()).advance({2: "1s"})


@given(
    stream=disordered(types=("A", "B"), max_events=30),
    passing=st.lists(st.integers(0, 400), min_size=1, max_size=4),
    attenuation=st.sampled_from([0.0, 0.4, 1.0]),
    clock=st.sampled_from(["A", "*"]),
    data=st.data(),
)
def test_the_result_is_that_of_order_whenever_time_passes(
    stream: list[bt.Event], passing: list[int], attenuation: float, clock: str, data: st.DataObject
) -> None:
    engine = bt.Engine(hierarchy(clock), attenuation=attenuation, retention="1h")
    changes: list[bt.Change] = []
    for number, part in enumerate(data.draw(cut(stream))):
        changes += engine.feed(part)
        changes += engine.advance(passing[number % len(passing)])
        if number == 1:
            kept = engine.checkpoint()
            engine = bt.Engine(hierarchy(clock), attenuation=attenuation, retention="1h")
            engine.restore(kept)
    assert bt.fold([*changes, *engine.finish()]) == oracle(hierarchy(clock), stream)


def test_nothing_comes_too_late_for_the_levels_above() -> None:
    engine = bt.Engine(hierarchy(), attenuation=1.0, retention=1_000)
    changes = [*engine.feed(STREAM), *engine.advance("1h"), *engine.finish()]
    assert bt.fold(changes) == oracle(hierarchy(), STREAM)
