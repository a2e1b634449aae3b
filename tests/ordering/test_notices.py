"""Notices: a unit whose slack grows tells the unit above before a longer delay reaches it.

Paper *slack*, section II-E.2. The lower unit orders B and C for a detector that makes a D of every
C, at the time of the C; the upper unit orders D and X. Both read their clock off A.
"""

from __future__ import annotations

import pytest

from betimes.model import PSEUDO, Event, EventBatch
from betimes.ordering import OrderingUnit

# B2 is late and makes the lower slack 9, but makes no D; so the first D that takes 9 is D20, and
# X21 must not pass before it.
STREAM = [
    *(Event("A", t) for t in range(11)),
    Event("B", 2),
    *(Event("A", t) for t in range(11, 21)),
    Event("C", 20),
    Event("A", 21),
    Event("X", 21),
    *(Event("A", t) for t in range(22, 45)),
]


def detect(released: EventBatch) -> list[Event]:
    return [Event("D", event.ts) for event in released if event.type == "C"]


def upper_output(*, slack: str, notify: bool) -> tuple[list[str], dict[int, int]]:
    """What the upper unit hands out, and its slack at each clock event."""
    lower = OrderingUnit(clock="A", on=("B", "C"))
    upper = OrderingUnit(clock="A", on=("D", "X"), slack=slack)
    handed: list[str] = []
    slacks: dict[int, int] = {}

    def raise_up(events: EventBatch | list[Event]) -> None:
        handed.extend(e.type + str(e.ts) for e in upper.feed(events).released.events)

    for event in STREAM:
        ordered = lower.feed([event])
        if notify:
            raise_up(ordered.notices)
        raise_up(detect(ordered.released.events))
        raise_up([event])
        slacks[event.ts] = upper.stats.slack
    handed += [e.type + str(e.ts) for e in upper.finish().released.events]
    return handed, slacks


every_policy = pytest.mark.parametrize("slack", ["largest", "decaying", "quantile"])


@every_policy
def test_with_notices_the_upper_slack_grows_before_the_late_event_and_order_is_kept(
    slack: str,
) -> None:
    handed, slacks = upper_output(slack=slack, notify=True)
    assert slacks[10] == 0
    assert slacks[11] == 9
    assert handed == ["D20", "X21"]


@every_policy
def test_without_notices_the_upper_unit_hands_out_in_the_wrong_order(slack: str) -> None:
    handed, slacks = upper_output(slack=slack, notify=False)
    assert slacks[28] <= 1
    assert handed == ["X21", "D20"]


def test_a_notice_is_a_pseudo_event_at_clock_minus_slack_one_for_each_growth() -> None:
    unit = OrderingUnit(clock="A")
    first = unit.feed([Event("A", 0), Event("A", 2), Event("C", 1), Event("A", 4)])
    assert list(first.notices) == [Event(PSEUDO, 1)]
    quiet = unit.feed([Event("C", 3), Event("A", 5)])
    assert list(quiet.notices) == []
    twice = unit.feed([Event("C", 1), Event("A", 6), Event("C", 1), Event("A", 9)])
    assert list(twice.notices) == [Event(PSEUDO, 1), Event(PSEUDO, 1)]
    assert unit.stats.slack == 8


def test_notices_do_not_depend_on_batches() -> None:
    one_by_one, at_once = OrderingUnit(clock="A"), OrderingUnit(clock="A")
    singles = [notice for event in STREAM for notice in one_by_one.feed(event).notices]
    assert list(at_once.feed(STREAM).notices) == singles
    assert len(singles) > 0


def test_a_notice_is_never_handed_out_nor_held() -> None:
    unit = OrderingUnit(clock="*")
    stream = [Event("A", 5), Event(PSEUDO, 1), Event(PSEUDO, 10**12), Event("A", 6)]
    ordered = unit.feed(EventBatch.from_rows(stream))
    assert [e.ts for e in ordered.released.events] == [5]
    assert unit.stats.slack == 5
    assert unit.stats.clock == 6
    assert PSEUDO not in {e.type for e in [*unit.buffer, *unit.finish().released.events]}


@pytest.mark.parametrize("order", [(3, 40), (40, 3)])
def test_quantile_keeps_to_the_largest_notice_while_its_window_lasts(
    order: tuple[int, int],
) -> None:
    unit = OrderingUnit(clock="A", slack="quantile")
    slacks = []
    for now, notice in zip((100, 200), order, strict=True):
        stream = [Event("A", now - 1), Event(PSEUDO, now - notice), Event("A", now)]
        unit.feed(EventBatch.from_rows(stream))
        slacks.append(unit.stats.slack)
    assert slacks == [order[0], 40]
    unit.feed([Event("A", t) for t in range(201, 200 + 2 * 500)])
    assert unit.stats.slack < 3
