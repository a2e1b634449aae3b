"""The builder: what its methods build, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from betimes.model import Event
from betimes.patterns.builder import Builder, begin
from betimes.patterns.pattern import Pattern
from betimes.patterns.steps import PatternError, Spec, Step
from betimes.patterns.wellformed import check


def last(pattern: Builder) -> Step:
    return pattern.spec.steps[-1]


def start() -> Builder:
    return begin("a", "type == 'A'")


class TestBuilding:
    def test_each_way_to_follow(self) -> None:
        pattern = start().next("b").followed_by("c").followed_by_any("d")
        pattern = pattern.not_next("e").not_followed_by("f").followed_by("g")
        assert [(step.op, step.name) for step in pattern.spec.steps] == [
            ("begin", "a"),
            ("next", "b"),
            ("followed_by", "c"),
            ("followed_by_any", "d"),
            ("not_next", "e"),
            ("not_followed_by", "f"),
            ("followed_by", "g"),
        ]

    def test_a_builder_is_a_pattern_and_never_changes(self) -> None:
        one = start()
        two = one.one_or_more()
        assert isinstance(one, Pattern)
        assert last(one).most == 1
        assert last(two).most is None
        with pytest.raises(FrozenInstanceError):
            one.emits = "x"  # type: ignore[misc]

    def test_options_stay(self) -> None:
        pattern = begin("a", emits="hit", by="player", timeouts="missed", on="A", limit=7)
        pattern = pattern.next("b").within("2s").skip("past_last")
        assert (pattern.emits, pattern.by, pattern.timeouts) == ("hit", "player", "missed")
        assert (pattern.on, pattern.limit, pattern.spec.skip) == (("A",), 7, "past_last")

    @pytest.mark.parametrize(
        ("build", "counts"),
        [
            (lambda p: p.times(3), (3, 3, False)),
            (lambda p: p.times(2, 4), (2, 4, False)),
            (lambda p: p.times(0, 4), (1, 4, True)),
            (lambda p: p.times(0, 4).optional(), (1, 4, True)),
            (lambda p: p.times_or_more(2), (2, None, False)),
            (lambda p: p.one_or_more(), (1, None, False)),
            (lambda p: p.one_or_more().optional(), (1, None, True)),
        ],
    )
    def test_counts(
        self, build: Callable[[Builder], Builder], counts: tuple[int, int | None, bool]
    ) -> None:
        step = last(build(start()))
        assert (step.least, step.most, step.optional) == counts

    def test_how_the_events_of_a_step_follow_each_other(self) -> None:
        assert last(start().times(1).consecutive()).inner == "strict"
        assert last(start().one_or_more().allow_combinations()).inner == "combinations"

    def test_greedy_and_until(self) -> None:
        step = last(start().one_or_more().greedy().until("v > 5"))
        assert step.greedy
        assert step.until is not None
        assert step.until.text == "v > 5"

    def test_windows(self) -> None:
        pattern = start().next("b").within("2s", of="step").within("10s").within("1min")
        assert last(pattern).within == 2_000_000
        assert pattern.spec.within == 10_000_000  # the shortest of several counts
        assert last(start().times(2, within="3ms")).loop_within == 3_000

    def test_conditions_are_text_functions_or_none(self) -> None:
        fast = Event("A", 0, {"v": 7})
        for where in (
            "v > 5",
            "True",
            lambda event: event["v"] > 5,
            lambda _event, bound: not bound,
        ):
            condition = last(begin("a", where)).takes[0][1]
            assert condition is not None
            assert condition.holds(fast, {})
        assert last(begin("a")).takes == (("a", None),)

    def test_conditions_are_joined(self) -> None:
        condition = last(start().where("v > 5").or_where("v == 0")).takes[0][1]
        assert condition is not None
        found = [
            condition.holds(Event(t, 0, {"v": v}), {}) for t, v in [("A", 7), ("B", 7), ("B", 0)]
        ]
        assert found == [True, False, True]
        assert last(begin("a").or_where("v == 0")).takes[0][1] is not None

    def test_a_group_is_a_step(self) -> None:
        group = begin("b").followed_by("c")
        pattern = start().next(group).times(2).consecutive()
        assert last(pattern).group == group.spec.steps
        assert (last(pattern).least, last(pattern).inner) == (2, "strict")
        assert begin(group).one_or_more().next("d").spec.steps[0].group == group.spec.steps


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: begin(""), "expected the name of a step"),
    (lambda: begin(Spec(())), "expected the name of a step"),  # type: ignore[arg-type]
    (lambda: begin("a", 5), "expected where of step 'a' to be a condition"),
    (lambda: begin("a", "v >"), "cannot read where of step 'a'"),
    (lambda: start().next("a"), "a different name for each step, got 'a' twice"),
    (lambda: start().not_next("n").next("n"), "'n' twice"),
    (lambda: start().next(begin("b").next("a")), "'a' twice"),
    (lambda: start().optional().not_next("b"), "directly after 'a', which is optional"),
    (lambda: start().times(0, 2).not_followed_by("b"), "directly after 'a', which is optional"),
    (lambda: start().next(begin("b").optional()).not_next("c"), "which is optional"),
    (lambda: start().not_next("b").optional(), "optional is not for not_next 'b'"),
    (lambda: start().not_followed_by("b").one_or_more(), "times is not for not_followed_by 'b'"),
    (lambda: start().not_followed_by("b").greedy(), "greedy is not for not_followed_by 'b'"),
    (lambda: start().times(2).one_or_more(), "already has a number of events"),
    (lambda: start().times(1).times(1), "already has a number of events"),
    (
        lambda: start().optional().one_or_more(),
        "is already optional; set the number of events first",
    ),
    (lambda: start().times(0), "expected step 'a' to have 1 <= least <= most"),
    (lambda: start().times(0, 0), "expected step 'a' to have 1 <= least <= most"),
    (lambda: start().times(3, 2), "least=3, most=2"),
    (lambda: start().times_or_more(0), "1 <= least <= most"),
    (lambda: start().times(1.5), "expected whole numbers"),  # type: ignore[arg-type]
    (lambda: start().greedy(), "greedy is for steps with several events"),
    (lambda: start().next(begin("b")).one_or_more().greedy(), "greedy is not for groups"),
    (lambda: start().times(2, 3).allow_combinations().greedy(), "remove one of them"),
    (lambda: start().one_or_more().greedy().next("b").optional(), "'a', is greedy"),
    (lambda: start().consecutive(), "consecutive is for steps with several events"),
    (lambda: start().allow_combinations(), "allow_combinations is for steps with several"),
    (lambda: start().times(2).consecutive().allow_combinations(), "exclude each other"),
    (lambda: start().until("v > 5"), "takes a limited number of events"),
    (lambda: start().times(2, 4).until("v > 5"), "takes a limited number of events"),
    (lambda: start().one_or_more().until("v > 5").until("v > 6"), "already has an until"),
    (lambda: start().next(begin("b")).where("v > 5"), "where is not for groups"),
    (lambda: start().next(begin("b"), "v > 5"), "where is not for groups"),
    (
        lambda: start().next(begin("b").within("1s")),
        "within or skip, which apply to a whole pattern",
    ),
    (lambda: start().next(begin("b").skip("to_next")), "within or skip, which apply to a whole"),
    (lambda: start().next(begin("b").not_next("c")), "put it after the group"),
    (
        lambda: start().next(begin("b").not_next("c").next("d").optional()),
        "put it after the group",
    ),
    (lambda: start().next(begin("b").optional()).one_or_more(), "all its steps are optional"),
    (
        lambda: start().not_next("n").next(begin("b").optional()),
        "every step of the group '.b.' is optional, after not_next 'n'",
    ),
    (lambda: start().within("soon"), "expected within to be a duration"),
    (lambda: start().within(0), "expected within to be longer than 0"),
    (lambda: start().within(0, of="step"), "within of step 'a' to be above 0"),
    (lambda: start().within("1s", of="match"), "expected of to be"),  # type: ignore[arg-type]
    (
        lambda: start().within("2s", of="step").within("1s"),
        "longer than the window of the whole pattern",
    ),
    (
        lambda: start().times(2, within="2s").within("1s"),
        "longer than the window of the whole pattern",
    ),
    (lambda: start().times(2, within="2s").within("1s", of="step"), "has two windows"),
    (lambda: start().next(begin("b")).within("1s", of="step"), "is on the group '.b.'"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_makes_no_sense_is_refused_where_it_is_said(
    build: Callable[[], Any], message: str
) -> None:
    with pytest.raises(PatternError, match=message):
        build()


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (start().not_followed_by("b"), "ends with not_followed_by 'b' and has no window"),
        (
            start().not_followed_by("b").within("1s", of="step").next("c"),
            "has a window, but another step comes after it",
        ),
        (start().skip("to_first:z"), r"one of the steps that bind events, \['a'\]"),
        (start().not_next("b").skip("to_last:b"), "one of the steps that bind events"),
        (start().skip("past_first"), "expected skip to be 'none', 'to_next'"),
        (start().skip("to_first"), "expected skip to be 'none', 'to_next'"),
        (start().skip("to_next", miss="stop"), "expected miss to be"),  # type: ignore[arg-type]
    ],
)
def test_what_could_still_be_made_right_is_refused_in_the_end(
    pattern: Builder, message: str
) -> None:
    with pytest.raises(PatternError, match=message):
        check(pattern.spec)


def test_what_another_front_end_builds_is_checked_too() -> None:
    a = Step("begin", "a", (("a", None),))
    for steps, message in [
        ((), "expected a pattern to have steps"),
        ((Step("not_next", "a", a.takes),), "begin with a step that binds an event"),
        ((a, Step("begin", "b", (("b", None),))), "expected 'b' to follow something"),
        ((Step("begin", "a"),), "to take events or to be a group"),
        ((Step("begin", "a", (("", None),)),), "expected the name of a step to be text"),
        ((a, Step("not_next", "n", (("n", None),), most=None)), "without times"),
    ]:
        with pytest.raises(PatternError, match=message):
            check(Spec(steps))


def test_matches_are_published() -> None:
    detector = begin("a", "type == 'A'", emits="hit").next("b", "type == 'B'").make()
    assert detector.on_event(Event("A", 1)) is None
    found = detector.on_event(Event("B", 2))
    assert found == [Event("hit", 2, {"a.ts": 1, "b.ts": 2})]
