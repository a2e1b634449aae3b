"""Sources with their own clocks: the oracle's result, and nothing is late."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.calibration import calibrate, recalibrate
from betimes.engine import Engine, EngineOptions, Hierarchy
from betimes.engine.news.news import News
from betimes.engine.shared import SharedOrder
from betimes.model import Event, EventError, OptionError
from betimes.model.change import Change, fold
from betimes.model.codec import CheckpointError
from betimes.patterns import pattern
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, engine_options
from tests.engine.material import FOREVER, Count, hierarchies, odd, share, streams

NAMES = ("x", "y", "z")
DELAY = 25


@st.composite
def sourced(draw: st.DrawFn) -> list[Event]:
    """Several streams, each in its own disorder and with its own lag, in blocks or mixed."""
    left = [draw(streams(max_events=25, max_delay=DELAY)) for _ in NAMES]
    lags = [draw(st.sampled_from([0, 0, 40, 300])) for _ in NAMES]
    stream = []
    while any(left):
        source = draw(st.sampled_from([n for n, events in enumerate(left) if events]))
        count = draw(st.sampled_from([1, 1, 2, 100]))
        stream += [
            Event(event.type, event.ts + lags[source], event.payload | {"p": NAMES[source]})
            for event in left[source][:count]
        ]
        left[source] = left[source][count:]
    return stream


def restarted(make: Any, engine: Engine) -> Engine:
    other: Engine = make()
    other.restore(engine.checkpoint())
    return other


@given(hierarchies(), sourced(), engine_options(), st.data())
@share(0.4)
def test_folded_changes_are_the_result_of_perfect_order(
    hierarchy: Hierarchy, stream: list[Event], options: dict[str, Any], data: st.DataObject
) -> None:
    """Whatever is late, because a source was taken for quiet or came late, is repaired."""
    options |= {"quiet": data.draw(st.sampled_from([20, "10min"])), "retention": FOREVER}
    options |= {"by": data.draw(st.sampled_from([None, None, "k"]))}

    def make() -> Engine:
        return Engine(hierarchy, source="p", **options)

    engine, changes = make(), list[Change]()
    for part in data.draw(cut(stream)):
        changes += engine.feed(list(part), blocks=data.draw(st.booleans()))
        if data.draw(st.sampled_from([False, False, True])):
            engine = restarted(make, engine)
        if data.draw(st.sampled_from([False, False, True])):
            engine.excuse(["y"])
    changes += engine.finish()
    assert fold(changes) == oracle(hierarchy, stream, by=options["by"])


def three_levels() -> Hierarchy:
    found = Hierarchy(clock=("A", "B"))
    found.add(Count("two"), on=("A", "B"), emits="two", by="k")
    found.add(odd("odd"), on=("two", "C"), emits="odd")
    found.add(pattern("two odd", within=80, by="k", emits="last"))
    return found


@share(0.3)
@given(
    sourced(), engine_options(), st.sampled_from(["key", "shared"]), st.booleans(), st.data(),
)  # fmt: skip
def test_nothing_is_late_however_far_apart_the_sources_are(
    stream: list[Event], options: dict[str, Any], order: str, travels: bool, data: st.DataObject
) -> None:
    """On no level, from the first event on, without any history to repair from."""
    first = [Event("A", 0, {"k": key, "p": name}) for key in (0, 1, 2) for name in NAMES]
    options |= {"by": "k", "order": order}
    hierarchy = three_levels()

    def make() -> Engine:
        return Engine(
            hierarchy, source="p", quiet=None, slack=DELAY + 1, late="side", retention=0,
            carry=(lambda news: News.from_bytes(news.to_bytes())) if travels else None, **options,
        )  # fmt: skip

    engine = make()
    changes = list(engine.feed(first, blocks=True))
    for part in data.draw(cut(stream)):
        changes += engine.feed(list(part))
        if data.draw(st.sampled_from([False, False, True])):
            engine = restarted(make, engine)
    changes += engine.finish()
    assert not any(stats.late for stats in engine.stats.values())
    assert fold(changes) == oracle(hierarchy, [*first, *stream], by="k")


def pairs() -> Hierarchy:
    found = Hierarchy(clock="*")
    found.add(pattern("A B", emits="pair"))
    return found


def test_readings_say_which_source_is_waited_for() -> None:
    engine = Engine(pairs(), source="p", slack=0)
    engine.feed([Event("A", 9, {"p": "fast"}), Event("B", 1, {"p": "slow"})])
    assert engine.stats["pair"].waits_for == "slow"
    engine.excuse(["slow", "unheard of"])
    assert engine.stats["pair"].waits_for == "fast"


def test_while_a_source_is_expected_there_is_no_slack_to_tell() -> None:
    """The first source of a block has to wait for the others, however long ago time began."""
    seen = Hierarchy(clock="*")
    seen.add(lambda event: Event("seen", event.ts), on="A", emits="seen", name="seen")
    engine = Engine(seen, source="p", slack=7, attenuation=0)
    block = [Event("A", 10**15 + ts, {"p": p}) for p in "ab" for ts in range(3)]
    changes = engine.feed(block, blocks=True)
    assert max(change.slack for change in changes) <= 10
    engine.finish()
    assert (engine.stats["seen"].latency_final or 0) <= 10


def test_while_nothing_is_certain_below_there_is_no_slack_to_tell() -> None:
    above = Hierarchy(clock="A")
    above.add(lambda event: Event("seen", event.ts), on="A", emits="seen", name="seen")
    above.add(lambda event: Event("noted", event.ts), on="seen", emits="noted", name="noted")
    engine = Engine(above, source="p", slack=7)
    engine.feed([Event("A", 10**15, {"p": "a"})])
    assert engine.stats["noted"].slack <= 10


def test_a_slow_source_delays_what_is_final_and_not_what_is_early() -> None:
    engine = Engine(pairs(), source="p", slack=0, attenuation=0)
    engine.feed([Event("C", 0, {"p": "slow"}), Event("A", 5, {"p": "fast"})])
    (early,) = engine.feed([Event("B", 9, {"p": "fast"})])
    assert (early.change_type, early.status) == ("insert", "provisional")
    assert not len(engine.feed([Event("C", 900, {"p": "fast"})]))
    (final,) = engine.feed([Event("C", 20, {"p": "slow"})])
    assert (final.change_type, final.status) == ("confirm", "final")


def test_time_passes_for_all_sources_alike() -> None:
    engine = Engine(pairs(), source="p", slack=0, attenuation=1)
    engine.feed([Event("A", 5, {"p": "slow"}), Event("B", 9, {"p": "fast"})])
    assert not len(engine.advance(3))
    assert [change.status for change in engine.advance(2)] == ["final"]


def test_a_calibration_has_the_delays_of_the_sources() -> None:
    """That a source comes as a block is no delay; with what was found, nothing is late."""
    first = [("A", 0), ("A", 40), ("B", 10), ("A", 41), ("A", 95)]
    x = [Event(type, ts, {"p": "x"}) for type, ts in first]
    y = [Event(type, ts, {"p": "y"}) for type, ts in [("A", 0), ("B", 20), ("A", 12), ("B", 15)]]
    stream = [x[0], y[0], *x[1:], *y[1:]]
    found = calibrate(pairs(), stream, source="p")
    assert (found.settled, found.detectors["pair"].slack) == (True, 31)
    assert found.detectors["pair"].jitter == {"A": 8, "B": 31}
    assert calibrate(pairs(), stream).detectors["pair"].slack > 31
    engine = Engine(pairs(), source="p", calibration=found)
    for event in stream:
        engine.feed(event)
    assert engine.stats["pair"].late == 0
    adapted = recalibrate(found, pairs(), events=stream, source="p")
    assert adapted.detectors["pair"].slack == 31


def test_what_is_wrong_with_sources_is_told() -> None:
    with pytest.raises(OptionError, match="source to name a payload column"):
        EngineOptions.of(source=7)
    with pytest.raises(EventError, match=r"the engine has source='p', but .* has no 'p'"):
        Engine(pairs(), source="p").feed([Event("A", 1, {"partition": 0})])
    engine = Engine(pairs(), source="p")
    with pytest.raises(EventError, match="every event must say where it comes from"):
        engine.feed([Event("A", 1, {"p": None})])
    engine.feed([Event("A", 1, {"p": 1})])
    with pytest.raises(CheckpointError, match="source was p, is nothing"):
        Engine(pairs()).restore(engine.checkpoint())


def test_sources_that_were_forgotten_leave_the_result_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbers of sources are used again on all levels, also after a restart."""
    monkeypatch.setattr("betimes.ordering.sources.KEPT", 4)
    hierarchy = three_levels()

    def make() -> Engine:
        return Engine(hierarchy, source="p", quiet=30, retention=FOREVER)

    stream = [
        Event("ABC"[(n + m) % 3], 5 * n + m, {"k": n % 3, "p": source})
        for n in range(300)
        for m, source in enumerate(("stays", n // 2, n % 40))
    ]
    engine, changes = make(), list[Change]()
    for low in range(0, len(stream), 45):
        changes += engine.feed(stream[low : low + 45])
        if low % 4 == 0:
            engine = restarted(make, engine)
    changes += engine.finish()
    assert fold(changes) == oracle(hierarchy, stream)
    order = engine._order
    assert isinstance(order, SharedOrder)
    assert order._sources is not None
    assert order._sources.forgotten > 50
