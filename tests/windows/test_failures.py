"""An operator or a condition that fails: the event is left out, whatever runs the windows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes as bt
from betimes import DetectorError, Engine, Event, Hierarchy, fold
from betimes.engine.stages.rows import RowTactic
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut, disordered
from tests.engine.material import FOREVER, share
from tests.windows.material import PAYLOADS

STREAMS = disordered(types=["A"], max_events=25, max_delay=20, payloads=PAYLOADS)


class Picky:
    """Fails at a value that depends on what its window has seen."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_event(self, event: Event) -> Event | None:
        if event["v"] == 2 and sum(self.seen) % 3 == 1:
            raise ValueError("two")
        self.seen.append(event["v"])
        return Event("made", event.ts, {"n": sum(self.seen)})


def picky(event: Event) -> bool:
    if event["v"] == 1:
        raise ValueError("one")
    return bool(event["v"] == 0)


def third(_event: Event, window: Any) -> bool:
    return bool(window.count == 3)


SHAPES = {
    "count": bt.window(count=4, slide=2),
    "gap": bt.window(gap=3, limit=4),
    "free": bt.window(open=picky, close=third),
}


def hierarchy(shape: str, tactic: Any = None, instances: int = 3) -> Hierarchy:
    made = Hierarchy(clock="A")
    detector = bt.windowed(Picky, SHAPES[shape], instances=instances, workers="inline")
    made.add(detector, on="A", emits="made", name="tested")
    if tactic is not None:
        made._nodes["tested"] = replace(made._nodes["tested"], tactic=tactic)
    return made


def run(made: Hierarchy, batches: list[Any], **options: Any) -> tuple[Counter[Any], int]:
    engine = Engine(made, retention=FOREVER, errors="skip", **options)
    changes = [change for batch in batches for change in engine.feed(list(batch))]
    changes += engine.finish()
    return fold(changes), engine.stats["tested"].errors


@pytest.mark.parametrize("shape", SHAPES)
@given(st.data(), STREAMS, st.sampled_from([0.0, 0.5, 1.0]))
@share(0.15)
def test_what_fails_is_left_out(
    shape: str, data: st.DataObject, stream: list[Event], attenuation: float
) -> None:
    batches = data.draw(cut(stream))
    found = run(hierarchy(shape), batches, attenuation=attenuation)
    in_order = run(hierarchy(shape, RowTactic), [sorted(stream, key=lambda e: e.ts)])
    assert found == in_order


@pytest.mark.parametrize("shape", SHAPES)
def test_an_error_stops_the_engine_unless_it_is_skipped(shape: str) -> None:
    engine = Engine(hierarchy(shape))
    values = [0, 1, 2, 2, 0, 1, 2, 3, 1, 1]
    engine.feed([Event("A", ts, {"k": 0, "v": v}) for ts, v in enumerate(values)])
    with pytest.raises(DetectorError, match="detector 'tested' failed at Event"):
        engine.finish()


def test_events_at_the_end_that_fail_come_back_when_an_earlier_one_comes_late() -> None:
    """None of them was cut, so the late event is not behind anything that was."""
    late = [Event("A", ts, {"v": v}) for ts, v in ((1, 1), (3, 2), (2, 1))]
    found = run(hierarchy("count"), [[event] for event in late], attenuation=0.0)
    assert found == run(hierarchy("count", RowTactic), [sorted(late, key=lambda e: e.ts)])
    assert found[1] == 0


def two(table: Any) -> dict[str, int]:
    """Fails unless there are two events."""
    if table.num_rows < 2:
        raise ValueError("expected two events")
    return {"n": table.num_rows}


class Two:
    """The same, as an object per window that has already made something."""

    def __init__(self) -> None:
        self.n = 0

    def on_event(self, event: Event) -> Event:
        self.n += 1
        return Event("made", event.ts, {"at": event.ts})

    def on_close(self, window: Any) -> Event:
        if self.n < 2:
            raise ValueError("expected two events")
        return Event("made", window.start, {"n": self.n})


def ending(operator: Any, shape: Any) -> Hierarchy:
    made = Hierarchy(clock="A")
    detector = bt.windowed(operator, shape, instances=2, workers="inline")
    made.add(detector, on="A", emits="made", name="tested")
    return made


ENDS = {"time": bt.window(time=10), "gap": bt.window(gap=5), "count": bt.window(count=2)}
ends = pytest.mark.parametrize("shape", ENDS)
operators = pytest.mark.parametrize("operator", [two, Two])


def ticks(*times: int) -> list[list[Event]]:
    return [[Event("A", ts)] for ts in times]


@ends
@operators
def test_a_late_event_repairs_what_fails_when_a_window_ends(operator: Any, shape: str) -> None:
    made, stream = ending(operator, ENDS[shape]), ticks(1, 11, 12, 2, 30, 31)
    found, errors = run(made, stream, attenuation=0.0)
    assert (found, errors) == (oracle(made, [event for batch in stream for event in batch]), 0)


@ends
@operators
def test_a_window_that_fails_when_it_ends_is_counted(operator: Any, shape: str) -> None:
    made, stream = ending(operator, ENDS[shape]), ticks(1, 30, 11, 12, 31, 50, 70)
    engine = Engine(made, errors="skip", attenuation=0, retention=FOREVER)
    changes = [change for batch in stream for change in engine.feed(batch)]
    if shape != "count":
        restarted = Engine(made, errors="skip", attenuation=0, retention=FOREVER)
        restarted.restore(engine.checkpoint())
        engine = restarted
    counts = [c[2] for c in fold([*changes, *engine.finish()]) if '"n":2' in c[2]]
    assert len(counts) == {"time": 2, "gap": 2, "count": 3}[shape]
    assert engine.stats["tested"].errors == {"time": 3, "gap": 3, "count": 1}[shape]


def test_an_error_at_the_end_of_a_window_names_the_first_one() -> None:
    engine = Engine(ending(two, bt.window(count=1)))
    engine.feed([Event("A", 1), Event("A", 5)])
    with pytest.raises(DetectorError, match=r"failed at Event\(type='A', ts=1, .*expected two"):
        engine.finish()


def test_an_error_at_the_end_of_the_stream_says_so() -> None:
    engine = Engine(ending(two, bt.window(count=3)))
    engine.feed([Event("A", 1)])
    with pytest.raises(DetectorError, match="'tested' failed at the end of the stream: ValueError"):
        engine.finish()
