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
from betimes.windows import windowed
from betimes.windows.shapes import Window
from tests.engine.material import FOREVER, share
from tests.windows.material import OPERATORS, PAYLOADS, WINDOWS, truth

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
