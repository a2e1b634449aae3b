"""Every tactic with detectors for it to run, and random runs: what contract suites are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from betimes.engine.stages.columns import ColumnTactic
from betimes.engine.stages.rows import RowTactic
from betimes.engine.stages.slices import SliceTactic
from betimes.model import Event
from betimes.patterns import Pattern, pattern
from betimes.testing.strategies import cut, disordered, engine_options
from betimes.transactions import transactional
from betimes.transactions.tactic import TransactionTactic
from tests.engine.material import FOREVER, Count
from tests.engine.protocol import Case, Run
from tests.engine.slicing import EveryNth, Own, Steps


def text(form: str, **options: Any) -> Any:
    """A pattern with the three types in the places of 0, 1 and 2."""

    def make(on: tuple[str, ...]) -> Pattern:
        return pattern(form.format(*on), emits="made", **options)

    return make


def transact(event: Event, state: Any) -> Iterator[Event]:
    """Reads, updates, deletes and lists keys; some events touch nothing that others do."""
    v = event["v"]
    if event.type == "A":
        state.add(("sum", v), event.ts)
    elif v == 3:
        yield Event("made", event.ts, {"keys": len(state), "first": str(next(iter(state), ""))})
    else:
        before = state.pop(v, None) if v else state.get(v)
        state[v] = event.ts if before is None or v else before
        seen = state.get(("sum", 1), 0) % 7
        yield Event("made", max(0, event.ts - 3), {"before": before, "seen": seen})
        if v == 2:
            del state[v]


LARGER = {"C": "type == 'C' and v >= A.v"}
CASES = [
    Case("rows: per event", RowTactic, Count("made", 2, back=3)),
    Case("rows: deadlines", RowTactic, text("{0} !{1}", within=9)),
    Case("rows: general pattern", RowTactic, text("{0} {2}+ {1}", within=20)),
    Case("rows: compiled pattern", RowTactic, text("{0} !{1} {2}", within=20)),
    Case("rows: per batch", RowTactic, EveryNth("made")),
    Case("slices: columns", SliceTactic, EveryNth("made", 2, back=3)),
    Case("slices: two types", SliceTactic, Steps("made")),
    Case("slices: its own snapshots", SliceTactic, Own("made")),
    Case("columns", ColumnTactic, text("{0} !{1} {2}", within=20)),
    Case("columns: holds back", ColumnTactic, text("{0} !{1} {2}", define=LARGER, within=9)),
    Case("transactions", TransactionTactic, transactional(transact)),
]


SMALL = {
    "columns.tactic.SHORT": 4,
    "columns.store._MANY": 8,
    "columns.runs._ROOM": 2,
    "waiting._SPARE": 4,
}
"""Sizes at which tactics tidy up; with small ones, small streams reach all of their code."""


def small_sizes(patch: pytest.MonkeyPatch) -> None:
    """Make tactics tidy up early."""
    for name, size in SMALL.items():
        patch.setattr(f"betimes.engine.stages.{name}", size)


@pytest.fixture(scope="module")
def tidies_early() -> Iterator[None]:
    """Small sizes for a whole module of tests."""
    with pytest.MonkeyPatch.context() as patch:
        small_sizes(patch)
        yield


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
    value = st.sampled_from([None, None, 1.0, 0.4, 0.0])
    restart = st.integers(0, 3).map(lambda n: n == 3)
    return Run(
        batches,
        [draw(value) for _ in batches],
        [draw(restart) for _ in batches],
        draw(engine_options()) | draw(SPLITS) | draw(LATE),
        by=draw(st.sampled_from([None, "k"])),
        above=draw(st.booleans()),
        clock=draw(st.sampled_from(["A", ("A", "B"), "*"])),
    )


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
