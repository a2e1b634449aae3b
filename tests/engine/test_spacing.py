"""Adaptive snapshots: the spacing costs hardly more than the best one, with any costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine.snapshots.spacing import BURDEN, LONGEST, Adaptive, Costs

KEYS = 8


def _costs(
    process: float, snapshot: float, events: int, disturbed: int, *, apart: bool = False
) -> Costs:
    """The costs of a stage whose batches are all alike."""
    costs = Costs(apart=apart)
    for _ in range(3):
        costs.note_snapshot(snapshot)
        costs.note_run(process * events, events, 0)
        costs.note_batch(disturbed, 0, KEYS)
    return costs


@given(
    st.floats(1e-7, 1e-3), st.floats(1e-7, 1e-3), st.integers(1, 10**6), st.integers(1, KEYS),
    st.booleans(),
)  # fmt: skip
def test_the_spacing_is_the_cheapest(
    process: float, snapshot: float, events: int, disturbed: int, apart: bool
) -> None:
    costs = _costs(process, snapshot, events, disturbed, apart=apart)

    def cost(length: float) -> float:
        """What a batch costs with snapshots every `length` events of a segment."""
        saved = events / length * (1 if apart else KEYS)
        again = disturbed * length / 2 / (1 if apart else KEYS)
        return saved * snapshot * BURDEN + again * process

    lengths = [1 + (LONGEST - 1) * (step / 999) ** 3 for step in range(1000)]
    chosen = Adaptive().length(costs, speculative=True)
    assert 1 <= chosen <= LONGEST
    assert cost(chosen) <= 1.1 * min(map(cost, lengths))  # whole numbers are not all


@pytest.mark.parametrize("apart", [False, True])
def test_the_spacing_does_not_depend_on_the_cut(apart: bool) -> None:
    # 80,000 events disturb each key once, in one batch or in eight
    whole = _costs(1e-6, 1e-6, 80_000, KEYS, apart=apart)
    cut = _costs(1e-6, 1e-6, 10_000, 1, apart=apart)
    model = Adaptive()
    assert model.length(whole, speculative=True) == model.length(cut, speculative=True)


def test_without_disturbance_snapshots_are_rare() -> None:
    costs = _costs(1e-6, 1e-6, 1000, 1)
    assert Adaptive().length(costs, speculative=False) == LONGEST
    assert Adaptive().length(costs, speculative=True) < LONGEST
    assert Adaptive().length(Costs(), speculative=True) == LONGEST
