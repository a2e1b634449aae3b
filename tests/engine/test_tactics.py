"""One suite for all tactics: each keeps the protocol of `betimes.engine.stages.tactic`.

To have a tactic checked, add a line to `CASES`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.codec import dumps
from betimes.engine.news.news import Output
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.columns import ColumnTactic
from betimes.engine.stages.columns.history import CodedEvents
from betimes.engine.stages.rows import RowTactic
from betimes.engine.stages.slices import SliceTactic
from betimes.engine.stages.tactic import Setting
from betimes.model import Event, EventBatch, EventError
from betimes.patterns import Pattern, pattern
from betimes.testing.strategies import cut, disordered, engine_options
from tests.engine.material import FOREVER, Count, Watched, share, standing
from tests.engine.protocol import NAME, Case, Run, check, feed
from tests.engine.slicing import EveryNth, Own, Steps


def text(form: str, **options: Any) -> Any:
    """A pattern with the three types in the places of 0, 1 and 2."""

    def make(on: tuple[str, ...]) -> Pattern:
        return pattern(form.format(*on), emits="made", **options)

    return make


LARGER = {"C": "type == 'C' and v >= A.v"}
CASES = [
    Case("rows: per event", RowTactic, lambda on: Count("made", 2, back=3)),
    Case("rows: deadlines", RowTactic, text("{0} !{1}", within=9)),
    Case("rows: general pattern", RowTactic, text("{0} {2}+ {1}", within=20)),
    Case("rows: compiled pattern", RowTactic, text("{0} !{1} {2}", within=20)),
    Case("rows: per batch", RowTactic, lambda on: EveryNth("made")),
    Case("slices: columns", SliceTactic, lambda on: EveryNth("made", 2, back=3)),
    Case("slices: two types", SliceTactic, lambda on: Steps("made")),
    Case("slices: its own snapshots", SliceTactic, lambda on: Own("made")),
    Case("columns", ColumnTactic, text("{0} !{1} {2}", within=20)),
    Case("columns: holds back", ColumnTactic, text("{0} !{1} {2}", define=LARGER, within=9)),
]


PAYLOADS = st.fixed_dictionaries({"k": st.integers(0, 2), "v": st.integers(0, 3)})
STREAMS = disordered(min_events=5, max_events=30, max_delay=25, payloads=PAYLOADS)
SPLITS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {}, {"by": "k"}, {"by": "k", "order": "key"}]
)
LATE: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"retention": FOREVER},
        {"retention": FOREVER},
        {"retention": 10},
        {"retention": 10, "late": "side"},
        {"retention": 10, "max_skew": 4},
        {"retention": 0, "late": "drop", "slack": 5},
    ]
)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Disorder, cuts, an attenuation that changes, restarts, and options of all kinds."""
    batches = [list(batch) for batch in draw(cut(draw(STREAMS)))]
    several = {"min_size": len(batches), "max_size": len(batches)}
    values = st.sampled_from([None, None, 1.0, 0.4, 0.0])
    return Run(
        batches,
        draw(st.lists(values, **several)),
        draw(st.lists(st.integers(0, 3).map(lambda n: n == 3), **several)),
        draw(engine_options()) | draw(SPLITS) | draw(LATE),
        by=draw(st.sampled_from([None, "k"])),
        above=draw(st.booleans()),
        clock=draw(st.sampled_from(["A", ("A", "B"), "*"])),
    )


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
@given(runs())
@share(0.2)
def test_every_clause_holds(case: Case, run: Run) -> None:
    check(case, run)
