"""Events that come after their place has settled: repaired, put aside or dropped, never silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import BetimesError, Event, OptionError
from betimes.model.change import LATE as LATE_ROW
from betimes.model.change import Change, fold
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut
from tests.engine.material import (
    FOREVER,
    Count,
    Twins,
    feed_all,
    flat,
    hierarchies,
    one_by_one,
    other,
    standing,
    streams,
    tick,
)

IN_ORDER = [tick(ts, k=0) for ts in range(50)]
LATE = other(3, k=0)
AFTER = [tick(51, k=0), tick(60, k=0)]
every_attenuation = pytest.mark.parametrize("attenuation", [1.0, 0.3, 0.0])


def counting() -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted", every=10), on=("A", "B"), emits="counted", name="count")
    return hierarchy


def two_levels() -> Hierarchy:
    hierarchy = counting()
    hierarchy.add(Count("again", every=1), on="counted", emits="again", name="count again")
    return hierarchy


def late_rows(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.type == "late"]


# Repair


@every_attenuation
def test_a_repair_takes_final_rows_back_and_says_why(attenuation: float) -> None:
    engine = Engine(two_levels(), attenuation=attenuation)
    before = standing(engine.feed(IN_ORDER))
    assert {row.status for row in before.values() if row.ts < 40} == {"final"}
    changes = [*engine.feed([LATE, *AFTER]), *engine.finish()]
    gone = [change for change in changes if change.change_type == "delete"]
    assert {change.status for change in gone if change.ts < 40} == {"final"}
    assert {change.cause for change in gone if change.type == "counted"} == {"late B at 3"}
    assert all(c.cause.startswith("retracted counted at") for c in gone if c.type == "again")
    assert {change.match_id for change in gone} <= before.keys()


@every_attenuation
def test_a_repair_gives_the_result_of_perfect_order(attenuation: float) -> None:
    engine = Engine(two_levels(), attenuation=attenuation)
    stream = [*IN_ORDER, LATE, *AFTER]
    assert fold(one_by_one(engine, stream)) == oracle(two_levels(), stream)
    assert engine.stats["count"].replays == 1
    assert engine.stats["count"].late == 0


def test_a_delete_carries_the_whole_row_again() -> None:
    engine = Engine(two_levels(), attenuation=1.0)
    before = standing(engine.feed(IN_ORDER))
    gone = [c for c in engine.feed([LATE, *AFTER]) if c.change_type == "delete"]
    assert gone
    assert all(before[change.match_id].event == change.event for change in gone)


def test_what_a_repair_does_not_change_stays_untouched() -> None:
    """Only the key of the late event is disturbed."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("counted", every=3), on=("A", "B"), emits="counted", by="k")
    engine = Engine(hierarchy, attenuation=1.0)
    engine.feed([tick(ts, k=ts % 2) for ts in range(50)])
    touched = [*engine.feed([other(3, k=1), *AFTER])]
    assert {c.payload["k"] for c in touched if c.change_type == "delete"} == {1}


# Beyond retention


def test_what_is_older_than_the_history_is_put_aside_even_under_repair() -> None:
    engine = Engine(counting(), attenuation=0.0, retention=5, snapshots=1)
    changes = one_by_one(engine, [*IN_ORDER, LATE, *AFTER])
    (row,) = late_rows(changes)
    assert (row.change_type, row.status, row.ts) == ("insert", "final", 3)
    assert row.payload["event"] == "B"
    assert engine.stats["count"].late == 1
    assert fold(changes) == oracle(counting(), [*IN_ORDER, *AFTER])


@given(hierarchies(max_levels=2, per_batch=False), streams(), st.integers(0, 10), st.data())
def test_with_little_retention_nothing_is_silent(
    hierarchy: Hierarchy, stream: list[Event], retention: int, data: st.DataObject
) -> None:
    engine = Engine(hierarchy, attenuation=1.0, retention=retention, snapshots=1)
    try:
        changes = flat(feed_all(engine, data.draw(cut(stream))))
    except BetimesError as error:
        assert "cannot take back" in str(error)  # noqa: PT017
        reject()  # has its own test below
    count = sum(stats.late for stats in engine.stats.values())
    assert len(late_rows(changes)) == count
    if not count:
        assert fold(changes) == oracle(hierarchy, stream)


def test_a_repair_goes_only_as_far_back_as_all_levels_can() -> None:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(Twins("twins"), on="A", emits="twins", name="twins")
    hierarchy.add(Count("counted", every=1), on="twins", emits="counted", name="count")
    engine = Engine(hierarchy, attenuation=1.0, retention=0, snapshots=1)
    changes = one_by_one(engine, [tick(ts, k=0) for ts in (3, 5, 2)])
    assert late_rows(changes) or fold(changes) == oracle(hierarchy, [tick(2), tick(3), tick(5)])


# Side and drop


@every_attenuation
def test_side_gives_a_row_for_each_late_event(attenuation: float) -> None:
    engine = Engine(counting(), attenuation=attenuation, late="side")
    changes = one_by_one(engine, [*IN_ORDER, LATE, *AFTER])
    (row,) = late_rows(changes)
    assert (row.change_type, row.status, row.ts, row.detector) == ("insert", "final", 3, "count")
    assert row.payload["event"] == "B"
    assert row.payload["k"] == 0
    assert row.payload["late_by"] > 0
    assert row.cause == "B came too late"
    assert engine.stats["count"].late == 1
    assert fold(changes) == oracle(counting(), [*IN_ORDER, *AFTER])


@every_attenuation
def test_drop_counts(attenuation: float) -> None:
    engine = Engine(counting(), attenuation=attenuation, late="drop")
    changes = one_by_one(engine, [*IN_ORDER, LATE, *AFTER])
    assert late_rows(changes) == []
    assert engine.stats["count"].late == 1
    assert fold(changes) == oracle(counting(), [*IN_ORDER, *AFTER])


@given(streams(), st.sampled_from([1.0, 0.3, 0.0]), st.data())
def test_with_side_the_result_is_that_of_the_events_in_time(
    stream: list[Event], attenuation: float, data: st.DataObject
) -> None:
    engine = Engine(counting(), attenuation=attenuation, late="side", retention=FOREVER)
    changes = flat(feed_all(engine, data.draw(cut(stream))))
    assert not [c for c in changes if (c.change_type, c.status) == ("delete", "final")]
    rows = late_rows(changes)
    assert len(rows) == engine.stats["count"].late
    in_time = list(stream)
    for row in rows:
        in_time.remove(Event(row.payload["event"], row.ts, {"k": row.payload["k"]}))
    assert fold(changes) == oracle(counting(), in_time)


@given(streams(), st.data())
def test_drop_gives_what_side_gives_without_the_rows(
    stream: list[Event], data: st.DataObject
) -> None:
    batches = data.draw(cut(stream))
    side, drop = (Engine(counting(), attenuation=0.3, late=late) for late in ("side", "drop"))
    told, dropped = (flat(feed_all(engine, batches)) for engine in (side, drop))
    assert fold(told) == fold(dropped)
    assert late_rows(dropped) == []
    assert drop.stats["count"].late == side.stats["count"].late == len(late_rows(told))


def test_late_by_is_the_engines_whatever_the_payload_holds() -> None:
    engine = Engine(counting(), attenuation=1.0, late="side")
    late = other(3, k=0, late_by=-1, event="mine")
    (row,) = late_rows(one_by_one(engine, [*IN_ORDER, late, *AFTER]))
    assert row.payload["late_by"] > 0
    assert row.payload["event"] == "B"


def test_late_by_does_not_depend_on_the_batches() -> None:
    after = [LATE, tick(60, k=0), tick(1000, k=0)]
    one, another = (Engine(counting(), attenuation=1.0, late="side") for _ in range(2))
    (single,) = late_rows(one_by_one(one, [*IN_ORDER, *after]))
    (at_once,) = late_rows(flat(feed_all(another, [IN_ORDER, after])))
    assert single.payload == at_once.payload


def test_late_rows_have_ids_of_their_own() -> None:
    engine = Engine(counting(), attenuation=1.0, late="side")
    engine.feed(IN_ORDER)
    rows = late_rows([*engine.feed([LATE, LATE, *AFTER]), *engine.finish()])
    assert len(rows) == 2
    assert len({row.match_id for row in rows}) == 2


# Events of other detectors that come too late


@dataclass
class DatesBack:
    """Dates what it makes of B back by what the last A said."""

    back: int = 0

    def on_event(self, event: Event) -> Event | None:
        if event.type == "B":
            payload = {"back": self.back, "at": event.ts}
            return Event("back", max(0, event.ts - self.back), payload)
        self.back = event["back"]
        return None


def dating_back() -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(DatesBack, on=("A", "B"), emits="back", name="dates back")
    hierarchy.add(lambda e: Event("up", e.ts, e.payload), on=("A", "back"), emits="up", name="up")
    return hierarchy


def far_back(*, corrected: bool) -> list[Event]:
    """An output is dated before what has settled above; if `corrected`, it is taken back."""
    correction = [tick(40, back=101)] if corrected else []
    begin = [tick(ts, back=100) for ts in range(40)]
    return [*begin, other(41), tick(41, back=1), *correction, tick(42, back=1), tick(200, back=1)]


@every_attenuation
def test_an_output_dated_before_the_settled_frontier_is_repaired(attenuation: float) -> None:
    for corrected in (False, True):
        stream = far_back(corrected=corrected)
        engine = Engine(dating_back(), attenuation=attenuation, min_slack=5, retention=FOREVER)
        assert fold(one_by_one(engine, stream)) == oracle(dating_back(), stream)


@every_attenuation
@pytest.mark.parametrize(("late", "retention"), [("side", FOREVER), ("repair", 0)])
def test_an_output_dated_before_the_settled_frontier_is_put_aside(
    attenuation: float, late: str, retention: int
) -> None:
    options: Any = {"late": late, "retention": retention, "min_slack": 5, "snapshots": 1}
    engine = Engine(dating_back(), attenuation=attenuation, **options)
    stream = far_back(corrected=False)
    changes = one_by_one(engine, stream)
    (row,) = late_rows(changes)
    assert (row.detector, row.payload["event"], row.ts) == ("up", "back", 0)
    assert engine.stats["up"].late == 1
    assert (
        sum(fold(changes).values())
        == sum(oracle(dating_back(), far_back(corrected=False)).values()) - 1
    )


@pytest.mark.parametrize(
    ("late", "retention"), [("side", FOREVER), ("drop", FOREVER), ("repair", 0)]
)
def test_an_output_that_was_put_aside_can_be_taken_back(late: str, retention: int) -> None:
    options: Any = {"late": late, "retention": retention, "min_slack": 5, "snapshots": 1}
    engine = Engine(dating_back(), attenuation=0.0, **options)
    changes = one_by_one(engine, far_back(corrected=True))
    inputs = [change for change in standing(changes).values() if change.type == "up"]
    assert len(inputs) == 44, "only what came of the late output is missing"


# Clock events from the future


def test_a_clock_event_too_far_ahead_is_not_lost_silently() -> None:
    engine = Engine(counting(), attenuation=1.0)
    changes = one_by_one(engine, [*IN_ORDER, tick(10**12, k=0), *AFTER])
    assert engine.rejected == 1
    assert [change.ts for change in changes if change.type == "rejected"] == [10**12]


def test_the_late_policy_must_be_known() -> None:
    with pytest.raises(OptionError, match=r"expected late to be one of.*got late='ignore'"):
        Engine(counting(), late="ignore")


def test_late_results_from_below_have_rows_of_their_own() -> None:
    class Counts:
        def __init__(self) -> None:
            self.n = 0

        def on_event(self, event: Event) -> Event:
            self.n += 1
            return Event("x", max(0, event.ts - 5), {"n": self.n})

    hierarchy = Hierarchy(clock=["A", "B"])
    hierarchy.add(Counts, on="A", emits="x")
    hierarchy.add(lambda e: Event("o", e.ts), on=["x", "B"], emits="o", name="above")
    engine = Engine(hierarchy, late="side", retention=0, attenuation=0.0)
    stream = [Event("B", 10), Event("A", 8), Event("A", 28), Event("A", 12)]
    changes = [c for event in stream for c in engine.feed(event)] + [*engine.finish()]
    late = [change for change in changes if change.type == LATE_ROW]
    assert len({change.match_id for change in late}) == len(late) > 1
