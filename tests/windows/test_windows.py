"""Windows of every kind, with operators of every kind, give what cutting by hand gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.model.change import fold
from betimes.testing import oracle
from betimes.testing.strategies import cut, disordered, engine_options
from betimes.windows import window, windowed
from betimes.windows.shapes import Window
from tests.engine.material import FOREVER, share
from tests.windows.material import OPERATORS, PAYLOADS, WINDOWS, spread, truth

STREAMS = disordered(max_events=40, max_delay=30, payloads=PAYLOADS)


def hierarchy(shape: Window, operator: Any, by: str | None = None) -> Hierarchy:
    made = Hierarchy(clock="A")
    made.add(windowed(operator, shape), on=("A", "B", "C"), emits="made", by=by)
    return made


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())
@pytest.mark.parametrize("shape", WINDOWS.values(), ids=WINDOWS.keys())
@given(STREAMS, st.sampled_from([None, "k"]))
@share(0.05)
def test_the_oracle_agrees_with_windows_that_run_alone(
    shape: Window, operator: Any, stream: list[Event], by: str | None
) -> None:
    assert oracle(hierarchy(shape, operator, by), stream) == truth(shape, operator, stream, by)


@pytest.mark.parametrize("shape", WINDOWS.values(), ids=WINDOWS.keys())
@given(st.data(), STREAMS, engine_options(), st.sampled_from([None, "k"]))
@share(0.2)
def test_order_does_not_show(
    shape: Window,
    data: st.DataObject,
    stream: list[Event],
    options: dict[str, Any],
    by: str | None,
) -> None:
    operator = data.draw(st.sampled_from(list(OPERATORS.values())))
    engine = Engine(hierarchy(shape, operator, by), retention=FOREVER, **options)
    changes = [change for batch in data.draw(cut(stream)) for change in engine.feed(list(batch))]
    changes += engine.finish()
    assert fold(changes) == truth(shape, operator, stream, by)


class Before:
    """Passes on the value before."""

    def __init__(self) -> None:
        self.last: Any = None

    def on_event(self, event: Event) -> Event:
        made, self.last = Event("passed", event.ts, {"v": self.last}), event["v"]
        return made


def newest(table: Any) -> dict[str, Any]:
    return {"v": table.column("v").to_pylist()[-1]}


def test_a_correction_that_changes_only_the_kind_of_a_value_is_told() -> None:
    made = Hierarchy(clock="A")
    made.add(Before, on="A", emits="passed")
    made.add(windowed(newest, window(time=10)), on="passed", emits="made")
    values = {1: 1.0, 13: 5, 40: 5, 2: 1, 50: 5}
    events = [Event("A", ts, {"v": v}) for ts, v in values.items()]
    engine = Engine(made, attenuation=0)
    changes = [change for event in events for change in engine.feed(event)]
    assert fold([*changes, *engine.finish()]) == oracle(made, events)


class Unless:
    """Passes events on, unless the one that they name has come before them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: Event) -> Event | None:
        self.seen.append(event["name"])
        return None if event["unless"] in self.seen else Event("passed", event.ts, {"v": 0})


@pytest.mark.parametrize("snapshots", [1, 1000])
def test_why_something_was_taken_back_does_not_depend_on_snapshots(snapshots: int) -> None:
    """A late event lands before one that is taken back, and a snapshot may lie between them."""
    made = Hierarchy(clock="A")
    made.add(Unless, on="A", emits="passed")
    made.add(windowed(spread, window(count=2)), on="passed", emits="made")
    engine = Engine(made, attenuation=0, snapshots=snapshots)
    names = [(10, "a", ""), (25, "b", ""), (30, "c", "x"), (40, "d", ""), (50, "e", "")]
    engine.feed([Event("A", ts, {"name": name, "unless": other}) for ts, name, other in names])
    late = engine.feed(Event("A", 20, {"name": "x", "unless": ""}))
    gone = [c.cause for c in late if (c.type, c.change_type) == ("made", "delete")]
    assert gone == ["late passed at 20"] * 2
