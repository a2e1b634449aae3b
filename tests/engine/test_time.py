"""Detectors that wait for something not to happen: deadlines, early and right like everything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.model.change import fold
from betimes.model.detector import DetectorError
from betimes.patterns import pattern
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut
from tests.engine.material import Count, feed_all, flat, one_by_one, standing, streams


@dataclass
class Unanswered:
    """An A that no B follows within so many microseconds."""

    patience: int = 10
    waiting: list[int] = field(default_factory=list)

    @property
    def deadline(self) -> int | None:
        return self.waiting[0] + self.patience if self.waiting else None

    def on_event(self, event: Event) -> Event | None:
        if event.type == "A":
            self.waiting.append(event.ts)
        elif self.waiting:
            return Event("answered", event.ts, {"k": 0, "to": self.waiting.pop(0)})
        return None

    def on_time(self, ts: int) -> Iterator[Event]:
        yield Event("unanswered", ts, {"k": 0, "to": self.waiting.pop(0)})


def hierarchy(by: str | None = None) -> Hierarchy:
    made = Hierarchy(clock=("A", "B"))
    made.add(Unanswered, on=("A", "B"), emits=("answered", "unanswered"), by=by)
    return made


def levels(patience: int, by: str | None) -> Hierarchy:
    """Deadlines on two levels, and a count above that sees their order."""
    made = Hierarchy(clock="A")
    made.add(Unanswered(patience), on=("A", "B"), emits=("answered", "unanswered"), by=by)
    made.add(Late(), on=("unanswered", "C"), emits="tardy", by="k")
    made.add(Count("n", 1), on=("answered", "unanswered", "tardy", "A"), emits="n")
    return made


@dataclass
class Late:
    """So many events, 7 after the first of them."""

    deadline: int | None = None
    count: int = 0

    def on_event(self, event: Event) -> None:
        self.deadline = event.ts + 7 if self.deadline is None else self.deadline
        self.count += 1

    def on_time(self, ts: int) -> Event:
        count, self.count, self.deadline = self.count, 0, None
        return Event("tardy", ts, {"k": 0, "n": count})


def test_absence_is_told_when_time_has_passed_and_dated_there() -> None:
    engine = Engine(hierarchy(), attenuation=0.0)
    assert not engine.feed([Event("A", 5), Event("A", 14)])
    (change,) = engine.feed(Event("A", 15))
    assert (change.type, change.ts, change.cause) == ("unanswered", 15, "time at 15")


def test_a_late_answer_takes_absence_back() -> None:
    engine = Engine(hierarchy(), attenuation=0.0)
    engine.feed([Event("A", 5), Event("A", 20)])
    changes = engine.feed(Event("B", 12))
    assert [(c.change_type, c.type, c.cause) for c in changes] == [
        ("delete", "unanswered", "late B at 12"),
        ("insert", "answered", "B at 12"),
    ]


def test_time_runs_out_at_the_end_or_stays_at_the_last_event() -> None:
    stream = [Event("A", 5), Event("A", 6), Event("B", 7), Event("A", 16)]
    out = one_by_one(Engine(hierarchy()), stream)
    told = [c.ts for c in out if c.type == "unanswered" and c.status == "final"]
    assert told == [26, 16]  # the first was provisional before
    engine = Engine(hierarchy())
    stays = [*engine.feed(stream), *engine.finish(advance=False)]
    assert [(c.ts, c.status) for c in stays if c.type == "unanswered"] == [
        (16, "provisional"),
        (16, "final"),
    ]


def test_an_absurd_time_is_not_the_last_event() -> None:
    stream = [Event("A", 5), Event("B", 6), Event("A", 7), Event("A", 10**15), Event("B", 6)]
    engine = Engine(hierarchy())
    changes = [*engine.feed(stream), *engine.finish(advance=False)]
    assert not [c for c in changes if c.type == "unanswered"]


def test_a_deadline_comes_before_the_events_of_its_time() -> None:
    changes = one_by_one(Engine(hierarchy()), [Event("A", 0), Event("B", 10), Event("A", 11)])
    first = next(c for c in changes if c.change_type == "insert")
    assert (first.type, first.ts) == ("unanswered", 10)


def test_keys_wait_each_for_themselves() -> None:
    stream = [Event("A", 0, {"k": 1}), Event("A", 1, {"k": 2}), Event("B", 2, {"k": 1})]
    engine = Engine(hierarchy(by="k"), attenuation=0.0)
    changes = [*engine.feed(stream), *engine.feed(Event("A", 30, {"k": 3})), *engine.finish()]
    told = {(c.type, c.payload["to"]) for c in changes if c.change_type != "delete"}
    assert told == {("answered", 0), ("unanswered", 1), ("unanswered", 30)}


options = st.fixed_dictionaries({
    "attenuation": st.sampled_from([1.0, 0.4, 0.0]),
    "retraction": st.sampled_from(["full", "on-demand", "auto"]),
    "snapshots": st.sampled_from([1, 3, "adaptive"]),
})  # fmt: skip


@settings(max_examples=150)
@given(st.data(), streams(), options, st.sampled_from([None, "k"]), st.booleans())
def test_order_does_not_show(
    data: st.DataObject, stream: list[Event], chosen: dict[str, Any], by: str | None, advance: bool
) -> None:
    made = levels(data.draw(st.integers(1, 20)), by)
    engine = Engine(made, retention="1h", **chosen)
    changes = [c for batch in data.draw(cut(stream)) for c in engine.feed(list(batch))]
    changes += engine.finish(advance=advance)
    assert fold(changes) == oracle(made, stream, advance=advance)
    for change in changes:
        assert change.status == "final" or change.change_type != "confirm"


@settings(max_examples=60)
@given(st.data(), streams(), st.sampled_from([1.0, 0.4]))
def test_the_cut_does_not_show(
    data: st.DataObject, stream: list[Event], attenuation: float
) -> None:
    ids = []
    for parts in ([[event] for event in stream], data.draw(cut(stream))):
        engine = Engine(hierarchy(by="k"), attenuation=attenuation, retention="1h")
        ids.append(set(standing(flat(feed_all(engine, parts)))))
    assert ids[0] == ids[1]


def test_absence_is_told_when_single_feeding_would_tell_it() -> None:
    """However large the batch is, no later than the first arrival that lets time pass."""
    stream = [Event("A", ts) for ts in range(0, 100, 4)]
    runs = []
    for parts in ([[event] for event in stream], [stream]):
        changes = flat(feed_all(Engine(hierarchy(), attenuation=1.0), parts))
        runs.append([(c.ts, c.detected_at, c.slack) for c in changes if c.change_type == "insert"])
    assert runs[0] == runs[1]
    assert runs[0][0] == (10, 12, 0)


@settings(max_examples=60)
@given(streams(), options, st.integers(0, 50))
def test_a_restart_does_not_show(stream: list[Event], chosen: dict[str, Any], at: int) -> None:
    made = levels(9, "k")
    whole, first, second = (Engine(made, retention="1h", **chosen) for _ in range(3))
    head, tail = stream[:at], stream[at:]
    expected = [*whole.feed(head), *whole.feed(tail), *whole.finish()]
    changes = [*first.feed(head)]
    second.restore(first.checkpoint())
    changes += [*second.feed(tail), *second.finish()]
    assert fold(changes) == fold(expected) == oracle(made, stream)


@dataclass
class Stuck:
    """Sets its deadline and never moves it on."""

    deadline: int | None = None

    def on_event(self, event: Event) -> None:
        self.deadline = event.ts

    def on_time(self, ts: int) -> None: ...


def test_a_deadline_that_does_not_move_is_named() -> None:
    made = Hierarchy(clock="A")
    made.add(Stuck, on="A", emits="B")
    engine = Engine(made, attenuation=0.0)
    with pytest.raises(DetectorError, match=r"'Stuck' failed .* its deadline is still 3 after"):
        one_by_one(engine, [Event("A", 3), Event("A", 4)])


class Overdue:
    """Tells when `after` microseconds have passed since the A at 0."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.deadline: int | None = None

    def on_event(self, event: Event) -> None:
        if event.ts == 0:
            self.deadline = self.after

    def on_time(self, ts: int) -> Event:
        self.deadline = None
        return Event("overdue", ts)


def seen(event: Event) -> Event:
    return Event("seen", event.ts)


@example(0.07, 100)
@settings(max_examples=60)
@given(st.integers(0, 100).map(lambda percent: percent / 100), st.integers(1, 300))
def test_deadlines_pass_exactly_when_events_of_their_time_are_released(
    attenuation: float, slack: int
) -> None:
    """In every stage that passes time: of Python detectors and of compiled patterns."""
    due = 1_000
    made = Hierarchy(clock="C")
    made.add(Overdue(due), on="A", emits="overdue")
    # The match of the second A waits until the first one, which is older, has run out of time.
    made.add(pattern("A B", within=f"{due}us", where="A.k == B.k", emits="matched"))
    made.add(seen, on="D", emits="seen")
    first, second = {"k": 1}, {"k": 2}
    early = [
        Event("C", 0), Event("A", 0, first), Event("A", 1, second), Event("B", 2, second),
        Event("D", due),
    ]  # fmt: skip
    engine = Engine(made, attenuation=attenuation, slack=slack)
    assert not [change for event in early for change in engine.feed(event)]
    told: dict[str, int] = {}
    for clock in range(due - 1, due + slack + 1):
        for change in engine.feed(Event("C", clock)):
            told.setdefault(change.type, clock)
    released = due + math.ceil(Fraction(str(attenuation)) * slack)
    assert told == {"overdue": released, "matched": released, "seen": released}


def ahead_of_every_event(what: str) -> Hierarchy:
    """On two levels; its clock learns that B is always 20 behind A."""
    made = Hierarchy(clock=("A", "B"))
    if what == "detector":
        made.add(Unanswered(8), on=("A", "C"), emits=("answered", "unanswered"), by="k")
    elif what == "compiled":
        made.add(pattern("A !A", within=8, by="k", emits="unanswered"))
    else:  # a loop, which only the general matcher runs
        made.add(pattern("A+ !A", within=8, by="k", emits="unanswered"))
    made.add(Late(), on=("unanswered", "C"), emits="tardy")
    return made


@pytest.mark.parametrize("attenuation", [1, 0.4, 0])
@pytest.mark.parametrize("what", ["detector", "compiled", "general"])
def test_time_comes_no_further_than_the_newest_event(what: str, attenuation: float) -> None:
    """A B moves the clock as if it were an A, of which nobody knows whether it comes."""
    pairs = [
        Event(type, ts + 10 * n, {"k": n % 3})
        for n in range(600)
        for type, ts in (("A", 100), ("B", 80))
    ]
    for more in ([], [Event("C", 6_093, {"k": 1}), Event("B", 6_085, {"k": 0})]):
        stream, hierarchy = [*pairs, *more], ahead_of_every_event(what)
        engine = Engine(hierarchy, attenuation=attenuation)
        changes = list(engine.feed(stream[:1_100]))
        checkpoint, engine = engine.checkpoint(), Engine(hierarchy, attenuation=attenuation)
        engine.restore(checkpoint)
        for event in stream[1_100:]:
            changes += engine.feed(event)
        clocks = [stats.clock for stats in engine.stats.values()]
        assert clocks == [6_115 if more else 6_100] * 2  # beyond every event
        changes += engine.finish(advance=False)
        assert fold(changes) == oracle(hierarchy, stream, advance=False)


@pytest.mark.filterwarnings("ignore:pattern 'm'.*may wait forever")  # for that end, here
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("count", [1, 100])  # few become rows, many columns
def test_what_the_end_completes_says_so(compiled: bool, count: int) -> None:
    rising = pattern("A B", where="B.v > A.v", by="k", emits="m", on=("A", "B"))
    hierarchy = Hierarchy(clock="*")
    maker: Any = rising if compiled else rising.make
    hierarchy.add(maker, on=("A", "B"), emits="m", by="k", name="m")
    engine = Engine(hierarchy)
    found = [("A", 1, 5), ("A", 2, 1), ("B", 3, 2)]
    engine.feed([Event(type, ts, {"v": v, "k": k}) for k in range(count) for type, ts, v in found])
    changes = engine.finish()
    assert {change.cause for change in changes} == {"the end of the stream"}
    assert set(changes.to_arrow()["cause"].to_pylist()) == {"the end of the stream"}
    assert len(changes) == count


def test_with_order_by_key_each_key_ends_with_its_last_event() -> None:
    stream = [Event("A", ts, {"k": key}) for key, ts in (("a", 0), ("b", 5), ("a", 30), ("b", 9))]
    for order, found in (("shared", 3), ("key", 1)):
        engine = Engine(hierarchy(), by="k", order=order)
        changes = [*engine.feed(stream), *engine.finish(advance=False)]
        expected = oracle(hierarchy(), stream, by="k", order=order, advance=False)
        assert fold(changes) == expected
        assert expected.total() == found
