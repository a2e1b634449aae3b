"""The tactic of windows keeps the protocol of tactics, however many instances there are."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given

from betimes.windows import windowed
from betimes.windows.operators import OperatorSpec
from betimes.windows.tactic import WindowTactic
from tests.engine.cases import runs, tidies_early
from tests.engine.material import share
from tests.engine.protocol import NAME, Case, Run, check
from tests.engine.test_tactics import check_memory, some_runs
from tests.windows.material import TOTALS, WINDOWS, Quiet, Steps


def case(shape: str, operator: type, instances: int, schedule: Any = "round_robin") -> Case:
    window = WINDOWS[shape]
    options: dict[str, Any] = {"instances": instances, "schedule": schedule, "workers": "inline"}
    spec = OperatorSpec(operator, "arrow", ("made", "made-"), None, NAME)
    tactic = partial(WindowTactic, windowed(operator, window, **options), spec)
    name = f"{shape}, {operator.__name__}, {instances} {schedule}"
    return Case(name, tactic, windowed(operator, window))


CASES = [
    case("count", Steps, 1),
    case("count, odd", Quiet, 3),
    case("time", Steps, 2, "least_loaded"),
    case("time, odd", Quiet, 4, "locality"),
    case("gap", Steps, 2),
    case("free", Quiet, 2),
    case("free, state", Steps, 16, "locality"),
    *(
        Case(f"{shape}, aggregates", None, windowed(TOTALS, WINDOWS[shape]), ("made",))
        for shape in WINDOWS
        if not shape.startswith("free")
    ),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


pytestmark = pytest.mark.usefixtures(tidies_early.__name__)


@every_case
@given(runs())
@share(0.06)
def test_every_clause_holds(case: Case, run: Run) -> None:
    check(case, run)


@every_case
def test_heavy_disorder(case: Case) -> None:
    for run in some_runs(8):
        check(case, run)


def endless(case: Case, above: bool, by: str | None) -> bool:
    """Whether the stream is one session, which has to be kept while it is open."""
    return case.name.startswith("gap") and by is None and not above


@pytest.mark.parametrize(
    ("case", "above", "by"),
    [
        pytest.param(case, above, by, id=f"{case.name}-{above}-{by}")
        for case in CASES
        for above in (False, True)
        for by in (None, "k")
        if not endless(case, above, by)
    ],
)
def test_memory_is_bounded(case: Case, above: bool, by: str | None) -> None:
    check_memory(case, above, by, 2400 if case.name.startswith("gap, agg") else 1200)
