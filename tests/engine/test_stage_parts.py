"""The parts of the driver by themselves: what is final, what comes too late, what has failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from betimes.engine.describe import describe
from betimes.engine.news.outputs import Output, Outputs
from betimes.engine.news.path import Path
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.retention import Retention
from betimes.engine.stages.columns.below import Waits
from betimes.engine.stages.failures import Failures
from betimes.engine.stages.finality import Finality
from betimes.engine.stages.lateness import Lateness
from betimes.engine.stages.rows.history import EventRows
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.telling import Telling
from betimes.engine.stats import StageCounts
from betimes.model import Event, EventBatch
from betimes.model.codec import CheckpointError
from tests.engine.material import Count


def output(
    ts: int, cause: int, *, name: str = "id", slack: int = 0, detected_at: int | None = None
) -> Output:
    now = cause if detected_at is None else detected_at
    return Output(
        name, Event("made", ts), (ts, 1, ("d", (cause, 0, 0), 0)), (cause, 0, 0), "A",
        0, now, slack, 0, None, None, 0,
    )  # fmt: skip


# Finality


def finality(retention: int = 10) -> Finality:
    return Finality(Retention(retention), StageCounts())


def test_at_first_nothing_is_certain_and_nothing_is_gone() -> None:
    found = finality()
    assert (found.certain(), found.final_to, found.horizon, found.reach) == (-1, -1, -1, -1)


def test_what_is_certain_ends_before_the_first_input_that_is_not_final() -> None:
    found = finality()
    found.settled = 50
    assert found.certain() == 50
    found.unsure = {"a": 40, "b": 30}
    assert found.certain() == 29
    found.unsure = {"a": 80}
    assert found.certain() == 50, "what is unsure later makes no difference"
    found.unsure = {"a": 0}
    assert found.certain() == -1


@pytest.mark.parametrize(("cause", "final"), [(49, True), (50, True), (51, False)])
def test_an_output_is_final_at_once_if_its_cause_is_certain(cause: int, final: bool) -> None:
    found, made = finality(), Outputs.of([output(40, cause)])
    found.settled = 50
    assert (found.publish(made) is None) is final
    assert found.state_of()["open"] == ([] if final else ["id"])


def test_outputs_that_wait_are_confirmed_once() -> None:
    counts = StageCounts()
    found, early, late = (
        Finality(Retention(10), counts),
        output(5, 5, name="early"),
        output(9, 9, name="late"),
    )
    found.publish(Outputs.of([early, late]))
    assert not found.confirmed()
    found.settled = 5
    assert not found.confirmed(), "only when the batch is done"
    found.advance()
    assert list(found.confirmed()) == [early]
    assert not found.confirmed()
    assert found.state_of()["open"] == ["late"]
    assert (counts.made, counts.finals) == (2, 1)


def test_some_are_final_at_once_and_the_others_stay_open() -> None:
    found = finality()
    found.settled = 9
    made = Outputs.of([output(9, 9, name="a"), output(12, 12, name="b"), output(3, 3, name="c")])
    final = found.publish(made)
    assert final is not None
    assert final.tolist() == [True, False, True]
    assert found.state_of()["open"] == ["b"]
    found.advance()
    assert not found.confirmed()


def test_what_was_taken_back_is_not_confirmed() -> None:
    found = finality()
    found.publish(Outputs.of([output(9, 9, name="a"), output(9, 9, name="b")]))
    found.withdraw(Outputs.of([output(9, 9, name="a")]))
    found.settled = 20
    found.advance()
    assert found.confirmed().ids == ["b"]


def test_latencies_count_from_the_time_of_the_output() -> None:
    counts = StageCounts()
    found = Finality(Retention(10), counts)
    found.settled = 100
    found.publish(Outputs.of([output(40, 50, slack=7, detected_at=52)]))
    assert (counts.first_latency, counts.final_latency) == (12, 17)
    found.publish(Outputs.of([output(40, 50, slack=7, detected_at=90)]))
    assert (counts.first_latency, counts.final_latency) == (12 + 50, 17 + 50)
    found.publish(Outputs.of([output(99, 50, slack=7, detected_at=52)]))
    assert (counts.first_latency, counts.final_latency) == (62, 67), "never below zero"


def test_the_horizon_only_moves_on() -> None:
    found = finality(retention=10)
    found.settled = 50
    found.advance()
    assert found.move_horizon() == 40
    found.unsure = {"a": 20}
    found.advance()
    assert found.final_to == 19
    assert found.move_horizon() == 40, "what is gone does not come back"


def test_the_reach_follows_what_stages_below_may_still_change() -> None:
    below, above = finality(retention=10), finality(retention=10)
    for each in (below, above):
        each.settled = 100
        each.advance()
    assert below.move_horizon() == 90
    above.below = below.may_change_from()
    assert above.move_horizon() == 90
    below.publish(Outputs.of([output(60, 95), output(80, 95, name="nearer")]))
    assert below.may_change_from() == 90 - 35, "an output may lie this far before its cause"
    above.below = below.may_change_from()
    assert above.move_horizon() == 55
    assert above.horizon == 90


def test_finality_resumes() -> None:
    found, other = finality(), finality()
    found.settled = 50
    found.unsure = {"a": 45}
    found.publish(Outputs.of([output(20, 30)]))
    found.advance()
    found.move_horizon()
    other.resume(found.state_of())
    assert other.state_of() == found.state_of()
    assert (other.certain(), other.may_change_from()) == (44, found.may_change_from())


# Lateness

NODE = describe(Count("made"), on="A", emits="made", by=None, name=None)


def arrivals(*events: tuple[str, int]) -> Arrivals:
    batch = EventBatch.from_rows([Event(type, ts) for type, ts in events])
    return Arrivals(
        batch, np.arange(len(batch)), np.arange(len(batch)), [], None, batch.__getitem__
    )


def handed(*times: int) -> EventRows:
    events = [Event("A", ts, {"n": n}) for n, ts in enumerate(times)]
    numbers = np.arange(len(events))
    return EventRows(np.array(times, np.int64), None, numbers, events, numbers, None)


def lateness(policy: str) -> tuple[Lateness, StageCounts]:
    counts = StageCounts()
    return Lateness(policy, NODE, counts), counts


def sift(
    part: Lateness, events: EventRows, first: int, known: Finality
) -> tuple[list[int], Telling]:
    news = Telling()
    rows = first + np.arange(len(events))
    path = Path((known.settled + 1, 1))
    return part.sift(events, rows, known, path, news).ts.tolist(), news


def test_an_event_is_late_by_what_had_settled_when_it_came() -> None:
    part, counts = lateness("side")
    certain = np.array([10, 30, 30, 30])
    # The second settles others, not itself; the third lies on the border; B is not taken.
    part.note(arrivals(("A", 9), ("A", 12), ("A", 30), ("B", 3)), certain, 8, 100)
    part.note(arrivals(("A", 29)), np.array([31]), 30, 104)
    left, news = sift(part, handed(9, 12, 30, 3, 29), 100, finality())
    assert left == [9, 12, 30, 3]
    assert [(event.ts, late_by) for event, late_by, _ in news.late] == [(29, 1)]
    assert counts.late == 1


def test_what_settled_in_the_middle_of_a_batch_counts_for_what_follows() -> None:
    part, _ = lateness("side")
    part.note(arrivals(("A", 50), ("A", 20), ("A", 60)), np.array([40, 40, 50]), -1, 0)
    left, news = sift(part, handed(50, 20, 60), 0, finality())
    assert left == [50, 60]
    assert [late_by for _, late_by, _ in news.late] == [20]


@pytest.mark.parametrize(("ts", "too_late"), [(40, True), (41, False)])
@pytest.mark.parametrize("policy", ["repair", "side", "drop"])
def test_where_history_is_gone_every_policy_puts_aside(
    policy: str, ts: int, too_late: bool
) -> None:
    part, counts = lateness(policy)
    known = finality()
    known.settled, known.horizon = 50, 40
    left, news = sift(part, handed(ts, 60), 0, known)
    assert left == ([60] if too_late else [ts, 60])
    assert counts.late == too_late
    told = [late_by for _, late_by, _ in news.late]
    assert told == ([10] if too_late and policy != "drop" else [])
    assert part.repairs is (policy == "repair")


def test_an_output_that_comes_too_late_is_remembered_until_it_is_taken_back() -> None:
    part, _ = lateness("side")
    known = finality()
    known.horizon, known.unsure = 40, {"id": 30, "other": 45}
    events = handed(30, 60)
    events.outputs[0] = "id"
    left, _ = sift(part, events, 0, known)
    assert left == [60]
    assert part.aside == {"id"}
    assert known.unsure == {"other": 45}, "what was not handled holds nothing back"


def test_events_in_time_are_handed_on_as_they_are() -> None:
    part, _ = lateness("side")
    for events in (handed(), handed(3, 4)):
        assert (
            part.sift(events, np.arange(len(events)), finality(), Path((0, 0)), Telling()) is events
        )


def test_lateness_resumes() -> None:
    part, _ = lateness("side")
    part.note(arrivals(("A", 3)), np.array([9]), 8, 7)
    part.aside.add("id")
    other, _ = lateness("side")
    other.resume(part.state_of())
    assert other.aside == {"id"}
    assert sift(other, handed(3), 7, finality())[0] == []


# Failures


def place(ts: int) -> tuple[int, int, Any]:
    return ts, 0, ts


def noted(errors: str, *times: int) -> Failures:
    failures = Failures(errors)
    for ts in times:
        failures.note("k", place(ts), DetectorFailed(f"at {ts}"))
    return failures


@pytest.mark.parametrize(("final_to", "count"), [(-1, 0), (4, 0), (5, 1), (6, 1), (7, 2)])
def test_a_failure_counts_when_its_place_is_final(final_to: int, count: int) -> None:
    failures = noted("skip", 5, 7)
    assert failures.judge(final_to) == count
    assert failures.judge(final_to) == 0, "once"


def test_a_failure_that_counts_stops_the_engine() -> None:
    failures = noted("stop", 7, 5)
    assert failures.judge(4) == 0
    with pytest.raises(DetectorFailed, match="at 5"):
        failures.judge(5)


def test_a_failure_that_a_late_event_may_repair_does_not_stop_the_engine() -> None:
    patient = Failures("stop", patience=4)
    patient.note("k", place(5), DetectorFailed("at 5"))
    assert patient.judge(8) == 0
    with pytest.raises(DetectorFailed, match="at 5"):
        patient.judge(9)


def test_what_is_mended_does_not_count() -> None:
    failures = noted("stop", 3, 5, 7, 9)
    failures.note("other", place(5), DetectorFailed("of another key"))
    failures.mend("k", place(3), place(7))
    with pytest.raises(DetectorFailed, match="of another key"):
        failures.judge(8)
    with pytest.raises(DetectorFailed, match="at 9"):
        failures.judge(9)


def test_a_failure_that_comes_again_after_it_was_counted_is_not_counted_twice() -> None:
    failures = noted("skip", 5)
    assert failures.judge(6) == 1
    failures.mend("k", place(0), place(9))
    failures.note("k", place(5), DetectorFailed("again"))
    failures.note("other", place(5), DetectorFailed("of another key"))
    assert failures.judge(9) == 1


def test_a_failure_that_vanishes_after_it_was_counted_counts_no_longer() -> None:
    failures = noted("skip", 5)
    assert failures.judge(6) == 1
    failures.mend("k", place(0), place(9))
    assert failures.judge(9) == -1


def test_what_was_counted_is_forgotten_with_its_place() -> None:
    failures = noted("skip", 5, 7)
    failures.judge(9)
    failures.forget(6)
    assert failures.state_of() == ({}, {("k", place(7))})


def test_failures_resume() -> None:
    failures = noted("skip", 5, 8)
    failures.judge(6)
    other = Failures("stop")
    other.resume(failures.state_of())
    other.note("k", place(5), DetectorFailed("again"))
    with pytest.raises(DetectorFailed, match="at 8"):
        other.judge(9)
    assert other.state_of() == ({}, {("k", place(5))})


# What waits from other stages, at a compiled pattern


def test_outputs_wait_until_they_are_handed_out_or_taken_back() -> None:
    first, copy, other, later = (
        output(ts, ts, name=name)
        for ts, name in ((1, "0" * 24), (1, "0" * 24 + "-1"), (2, "ab" * 12), (3, "cd" * 12))
    )
    copy.copy = 1
    waits = Waits()
    assert waits.withdraw(first) is None
    waits.put(np.array([7, 5, 6]), Outputs.of([first, copy, other]))
    assert waits.withdraw(copy) == 5, "the number among equals tells them apart"
    assert waits.withdraw(copy) is None
    waits.hand_out(np.array([4, 6]))
    waits.put(np.array([9]), Outputs.of([later]))
    rows, words = waits.state_of()
    assert rows.tolist() == [7, 9]
    again = Waits()
    again.resume((rows, words))
    assert [again.withdraw(each) for each in (first, copy, other, later)] == [7, None, None, 9]
    with pytest.raises(CheckpointError, match="waits from other stages"):
        again.resume((rows[::-1].copy(), words))
    with pytest.raises(CheckpointError, match="waits from other stages"):
        again.resume((rows, words[:, :1]))
