"""The matcher against the definition, and the contract that the engine builds on."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.patterns.builder import Builder, begin
from betimes.patterns.construction import INNER
from betimes.patterns.matcher import Match, Matcher
from betimes.patterns.steps import Op, PatternError, Python, Spec, Step
from tests.patterns.brute import brute
from tests.patterns.random_patterns import SKIPS, TRAITS, grouped, specs, streams

FOR_EVER = 10**9
Plain = tuple[tuple[tuple[str, int], ...], int, str]


def running(spec: Spec, **options: Any) -> Matcher:
    return Matcher(spec, **{"limit": 100_000, **options})


def run(matcher: Matcher, events: Sequence[Event]) -> list[Plain]:
    """All that the matcher reports until the end of time."""
    found = [match for event in events for match in matcher.on_event(event)]
    return plain(found + matcher.on_time(FOR_EVER))


def plain(matches: Sequence[Match]) -> list[Plain]:
    return [
        (tuple((name, event["n"]) for name, event in match.bound), match.ts, match.kind)
        for match in matches
    ]


def numbered(text: str) -> list[Event]:
    """`a b b` as events, a microsecond apart; `a5 b7` with their times."""
    events = []
    for number, word in enumerate(text.split()):
        ts = int(word[1:]) if word[1:] else number
        events.append(Event(word[0], ts, {"n": number}))
    return events


def is_type(type: str) -> str:
    return f"type == '{type}'"


A_B = begin("a", is_type("a")).followed_by("b", is_type("b"))


class TestMeaning:
    @pytest.mark.parametrize("traits", TRAITS)
    @given(st.data(), streams())
    def test_it_finds_what_the_definition_says(
        self, traits: str, data: st.DataObject, events: list[Event]
    ) -> None:
        spec = data.draw(specs(traits, skips=["none"]))
        expected = Counter((match.names, match.ts, "match") for match in brute(spec, events))
        assert Counter(run(running(spec), events)) == expected

    @pytest.mark.parametrize("skip", SKIPS[1:])
    @given(st.data(), streams())
    def test_it_skips_what_the_definition_says(
        self, skip: str, data: st.DataObject, events: list[Event]
    ) -> None:
        spec = data.draw(specs(data.draw(st.sampled_from(TRAITS)), skips=[skip]))
        matcher = running(spec)
        expected = [(match.names, match.ts, "match") for match in brute(spec, events)]
        assert run(matcher, events) == expected
        assert matcher.state == running(spec).state

    @pytest.mark.parametrize("traits", ["loops", "optional", "loops optional windows"])
    @given(st.data(), streams())
    def test_a_group_is_all_its_numbers_of_iterations(
        self, traits: str, data: st.DataObject, events: list[Event]
    ) -> None:
        spec = data.draw(grouped(traits))
        rows = unrolled(spec.steps, "begin", len(events))
        expected: Counter[Plain] = Counter()
        for steps in filter(None, rows):
            flat = replace(spec, steps=(replace(steps[0], op="begin"), *steps[1:]))
            expected.update(map(original, run(running(renamed(flat)), events)))
        assert Counter(run(running(spec), events)) == expected


Row = tuple[Step, ...]


def unrolled(steps: Sequence[Step], op: Op, most: int) -> list[Row]:
    """Rows of steps without groups that mean the same, all of them together.

    Those that need more than `most` events are left out.
    """
    rows: list[Row] = [()]
    for step in steps:
        follows = op if step.op == "begin" else step.op
        single: Row = (replace(step, op=follows),)
        choices = repeated(step, follows, most) if step.group else [single]
        rows = joined(rows, choices, most)
    return rows


def repeated(group: Step, op: Op, most: int) -> list[Row]:
    """A group as often as it may be there, without groups."""
    row: list[Row] = [()]
    rows: list[Row] = [()] if group.optional else []
    for count in range(1, min(group.most or most, most) + 1):
        follows = op if count == 1 else INNER[group.inner]
        row = joined(row, unrolled(group.group, follows, most), most)
        rows += row if count >= group.least else []
    return rows


def joined(rows: list[Row], more: list[Row], most: int) -> list[Row]:
    both = [(*row, *others) for row in rows for others in more]
    short = [row for row in both if sum(s.least for s in row if not s.optional) <= most]
    assume(len(short) < 50)  # else it takes too long
    return short


def renamed(spec: Spec) -> Spec:
    """Each copy of a step with a name of its own."""
    steps = [
        replace(step, name=f"{step.name}@{at}", takes=((f"{step.name}@{at}", step.takes[0][1]),))
        for at, step in enumerate(spec.steps)
    ]
    return replace(spec, steps=tuple(steps))


def original(row: Plain) -> Plain:
    return tuple((name.partition("@")[0], n) for name, n in row[0]), row[1], row[2]


any_spec = st.sampled_from(TRAITS).flatmap(specs)


class TestState:
    @given(any_spec, streams(), st.data())
    def test_it_goes_on_from_a_state_as_if_nothing_had_been(
        self, spec: Spec, events: list[Event], data: st.DataObject
    ) -> None:
        cut = data.draw(st.integers(0, len(events)))
        one = running(spec, timeouts=True)
        for event in events[:cut]:
            one.on_event(event)
        other = running(spec, timeouts=True)
        other.state = pickle.loads(pickle.dumps(one.state))
        assert other.state == one.state
        assert other.deadline == one.deadline
        assert run(other, events[cut:]) == run(one, events[cut:])
        assert other.state == one.state

    @given(any_spec, streams())
    def test_a_state_never_changes(self, spec: Spec, events: list[Event]) -> None:
        matcher = running(spec)
        taken = []
        for event in events:
            taken.append((matcher.state, pickle.dumps(matcher.state)))
            matcher.on_event(event)
        for state, written in taken:
            assert state == pickle.loads(written)
            assert is_plain(state)

    def test_what_does_nothing_leaves_the_runs_as_they_are(self) -> None:
        matcher = running(A_B.spec)
        matcher.on_event(Event("a", 1))
        _, runs, _ = matcher.state
        matcher.on_event(Event("z", 2))
        assert matcher.state[1][0] is runs[0]

    def test_a_long_row_is_shallow(self) -> None:
        first = begin("a", is_type("a"))
        matcher = running(first.next("b", is_type("b")).one_or_more().next("c", is_type("c")).spec)
        matcher.on_event(Event("a", 0))
        for ts in range(1, 5_000):
            matcher.on_event(Event("b", ts))
        assert depth(matcher.state) < 10
        [longest] = matcher.on_event(Event("c", 5_000))
        assert [event.ts for _, event in longest.bound] == list(range(5_001))


def is_plain(state: Any) -> bool:
    if type(state) is tuple:
        return all(map(is_plain, state))
    return type(state) in (int, str, bool, type(None), Event)


def depth(state: Any) -> int:
    return 1 + max(map(depth, state), default=0) if isinstance(state, tuple) else 0


class TestTime:
    @given(any_spec, streams())
    def test_small_steps_of_time_report_the_same(self, spec: Spec, events: list[Event]) -> None:
        """Reported at their instants, not later, and in the same order."""
        large, small = (running(spec, timeouts=True) for _ in range(2))
        now = 0
        for event in events:
            stepwise = [match for ts in range(now, event.ts + 1) for match in small.on_time(ts)]
            now = event.ts
            assert plain(large.on_event(event)) == plain(stepwise + small.on_event(event))
            assert large.state == small.state

    @given(any_spec, streams(), st.booleans())
    def test_nothing_is_due_before_the_deadline(
        self, spec: Spec, events: list[Event], timeouts: bool
    ) -> None:
        matcher = running(spec, timeouts=timeouts)
        for event in events:
            matcher.on_event(event)
        for _ in range(1000):
            before, deadline = matcher.state, matcher.deadline
            if deadline is None:
                assert matcher.on_time(FOR_EVER) == []
                assert matcher.state[2] == () or spec.within is None
                return
            assert matcher.on_time(deadline - 1) == []
            matcher.on_time(deadline)
            assert matcher.state != before
        pytest.fail("the deadline makes no progress")

    def test_a_window_ends_before_the_event_at_its_end(self) -> None:
        spec = A_B.within(5).spec
        assert run(running(spec), numbered("a1 b5")) == [((("a", 0), ("b", 1)), 5, "match")]
        assert run(running(spec), numbered("a1 b6")) == []

    def test_what_did_not_come_in_time_is_an_answer(self) -> None:
        spec = A_B.followed_by("c", is_type("c")).within(5).spec
        matcher = running(spec, timeouts=True)
        for event in numbered("a1 b2 b4"):
            assert matcher.on_event(event) == []
        assert matcher.deadline == 6
        assert plain(matcher.on_time(9)) == [((("a", 0), ("b", 1)), 6, "timeout")]
        assert matcher.deadline is None

    def test_what_can_do_without_the_step_is_not_over_with_its_window(self) -> None:
        spec = A_B.optional().within(3, of="step").followed_by("c", is_type("c")).spec
        found = run(running(spec, timeouts=True), numbered("a1 c9"))
        assert found == [((("a", 0),), 4, "timeout"), ((("a", 0), ("c", 1)), 9, "match")]

    def test_a_loop_that_is_left_too_late_is_an_answer_too(self) -> None:
        loop = begin("a", is_type("a")).one_or_more().consecutive()
        spec = loop.followed_by("b", is_type("b")).within(3, of="step").spec
        found = run(running(spec, timeouts=True), numbered("a1 c9 b9"))
        assert found == [((("a", 0),), 4, "timeout")]

    def test_absence_at_the_end_is_reported_when_its_window_is_over(self) -> None:
        spec = begin("a", is_type("a")).not_followed_by("b", is_type("b")).within(5).spec
        matcher = running(spec)
        for event in numbered("a1 a3 c5"):
            assert matcher.on_event(event) == []
        assert matcher.deadline == 6
        assert plain(matcher.on_event(Event("b", 7))) == [((("a", 0),), 6, "match")]
        assert matcher.deadline is None  # the second was followed by one

    def test_absence_after_a_loop_does_not_need_another_event(self) -> None:
        loop = begin("a", is_type("a")).one_or_more().not_followed_by("b", is_type("b")).within(5)
        found = run(running(loop.spec), numbered("a1 a2"))
        assert [(row, ts) for row, ts, _ in found] == [
            ((("a", 0), ("a", 1)), 6),
            ((("a", 0),), 6),
            ((("a", 1),), 7),
        ]

    def test_a_held_match_is_released_when_an_earlier_run_is_over(self) -> None:
        spec = (
            begin("a", "type == 'a'")
            .followed_by("b", "type == 'b' and b.v == last(a.v)")
            .within(10)
            .skip("to_next")
        ).spec
        matcher = running(spec)
        events = [Event("a", 1, {"v": 1}), Event("a", 2, {"v": 2}), Event("b", 3, {"v": 2})]
        assert [match for event in events for match in matcher.on_event(event)] == []
        assert matcher.deadline == 11
        assert [match.ts for match in matcher.on_time(11)] == [3]

    def test_a_step_window_is_measured_from_the_event_before(self) -> None:
        spec = A_B.within(3, of="step").followed_by("c", is_type("c")).spec
        assert len(run(running(spec), numbered("a1 b3 c9"))) == 1
        assert run(running(spec), numbered("a1 b4 c9")) == []

    def test_a_step_window_does_not_bind_those_who_do_without_the_step(self) -> None:
        spec = A_B.optional().within(3, of="step").followed_by("c", is_type("c")).spec
        late = [(("a", 0), ("c", 1))]
        assert [row for row, _, _ in run(running(spec), numbered("a1 c9"))] == late
        assert [row for row, _, _ in run(running(spec), numbered("a1 c9 b9"))] == late


class TestLimit:
    def test_too_many_runs_are_an_error_and_change_nothing(self) -> None:
        matcher = running(A_B.spec, limit=2)
        matcher.on_event(Event("a", 1))
        matcher.on_event(Event("a", 2))
        before = matcher.state
        with pytest.raises(
            PatternError, match=r"3 open partial matches.* limit=2; 3 wait at step 'b'"
        ):
            matcher.on_event(Event("a", 3))
        assert matcher.state is not before
        assert matcher.state == before

    def test_or_the_oldest_is_given_up_and_shown(self) -> None:
        matcher = running(A_B.spec, limit=2, overflow="side")
        events = numbered("a1 a2 a3 b4")
        found = [plain(matcher.on_event(event)) for event in events]
        assert found[2] == [((("a", 0),), 1, "overflow")]
        assert [row for row, _, _ in found[3]] == [(("a", 1), ("b", 3)), (("a", 2), ("b", 3))]

    def test_matches_that_wait_for_it_count_and_are_released(self) -> None:
        spec = (
            begin("a", is_type("a"))
            .followed_by("b", "type == 'b' and v == last(a.v)")
            .skip("to_next")
        ).spec
        matcher = running(spec, limit=2, overflow="side")
        events = [
            Event(t, ts, {"v": v})
            for ts, (t, v) in enumerate([("a", 1), ("a", 2), ("b", 2), ("a", 3)])
        ]
        found = [match.kind for event in events for match in matcher.on_event(event)]
        assert found == ["overflow", "match"]


class TestConditions:
    def test_each_is_asked_once_an_event(self) -> None:
        asked: Counter[int] = Counter()

        def is_b(event: Event) -> bool:
            asked[event.ts] += 1
            return event.type == "b"

        matcher = running(begin("a", is_type("a")).followed_by_any("b", is_b).spec)
        for event in numbered("a a a a b b c"):
            matcher.on_event(event)
        assert set(asked.values()) == {1}

    def test_one_that_looks_back_sees_what_the_run_has_bound(self) -> None:
        same = lambda event, bound: event["v"] == bound["a"][-1]["v"]  # noqa: E731
        spec = begin("a", is_type("a")).followed_by("b", same).spec
        matcher = running(spec)
        events = [Event("a", 1, {"v": 1}), Event("a", 2, {"v": 2}), Event("b", 3, {"v": 1})]
        found = [match for event in events for match in matcher.on_event(event)]
        assert [event.ts for match in found for _, event in match.bound] == [1, 3]

    def test_the_first_alternative_that_fits_names_the_event(self) -> None:
        fits = Python(lambda event: event["v"] > 1, looks_back=False)
        step = Step("begin", "(x|y)", (("x", fits), ("y", None)))
        matcher = running(Spec((step,)))
        found = [matcher.on_event(Event("a", ts, {"v": v})) for ts, v in enumerate([2, 1])]
        assert [match.bound[0][0] for matches in found for match in matches] == ["x", "y"]

    def test_events_that_are_not_looked_at_still_bring_the_time(self) -> None:
        only = Python(lambda event: event.type != "z", looks_back=False)
        spec = begin("a", is_type("a")).next("b", is_type("b")).within(5).spec
        matcher = running(replace(spec, only=only), timeouts=True)
        assert [row for row, _, _ in run(matcher, numbered("a1 z2 b3"))] == [(("a", 0), ("b", 2))]
        found = [matcher.on_event(event) for event in numbered("a1 z7")]
        assert plain(found[1]) == [((("a", 0),), 6, "timeout")]


def rows(pattern: Builder, text: str) -> list[str]:
    """Matches as text: the steps' names, each with the number of its event."""
    found = run(running(pattern.spec), numbered(text))
    return sorted(" ".join(f"{name}{n}" for name, n in row) for row, _, _ in found)


class TestWhereFlinkIsQuiet:
    """What is left open, or taken for nothing, by the construction that this one follows."""

    def test_two_prohibitions_in_a_row_both_hold(self) -> None:
        first = begin("a", is_type("a"))
        both = first.not_followed_by("n", is_type("b")).not_followed_by("m", is_type("c"))
        assert rows(both.followed_by("d", is_type("d")), "a b d") == []
        assert rows(both.followed_by("d", is_type("d")), "a c d") == []
        assert rows(both.within(9), "a b") == []
        assert rows(both.within(9), "a x") == ["a0"]

    def test_a_prohibition_before_not_next_holds_on(self) -> None:
        pattern = (
            begin("a", is_type("a"))
            .not_followed_by("n", is_type("b"))
            .not_next("m", is_type("c"))
            .followed_by("d", is_type("d"))
        )
        assert rows(pattern, "a x b d") == []
        assert rows(pattern, "a x x d") == ["a0 d3"]

    def test_a_prohibition_ends_with_the_first_event_of_a_loop(self) -> None:
        pattern = (
            begin("a", is_type("a"))
            .not_followed_by("n", is_type("b"))
            .followed_by("c", is_type("c"))
            .times(1, 2)
            .followed_by("d", is_type("d"))
        )
        assert rows(pattern, "a c x b c d") == ["a0 c1 c4 d5", "a0 c1 d5"]

    def test_an_optional_group_lifts_a_prohibition_too(self) -> None:
        group = begin("c", is_type("c")).followed_by("d", is_type("d"))
        pattern = (
            begin("a", is_type("a"))
            .not_followed_by("n", is_type("b"))
            .followed_by(group)
            .optional()
            .followed_by("e", is_type("e"))
        )
        assert rows(pattern, "a c d b e") == ["a0 c1 d2 e4"]
        assert rows(pattern, "a x b c d e") == []

    def test_a_group_in_a_group_follows_as_the_outer_one_does(self) -> None:
        inner = begin("b", is_type("b")).followed_by("c", is_type("c"))
        outer = begin(inner).followed_by("d", is_type("d"))
        assert rows(begin("a", is_type("a")).followed_by(outer), "a x b c d") == ["a0 b2 c3 d4"]
        assert rows(begin("a", is_type("a")).next(outer), "a x b c d") == []

    def test_a_group_that_may_be_empty_in_two_ways_is_left_once(self) -> None:
        group = begin("b", is_type("b")).optional().followed_by("c", is_type("c")).optional()
        pattern = begin("a", is_type("a")).followed_by(group).optional()
        found = rows(pattern.followed_by("d", is_type("d")), "a c d")
        assert found == ["a0 c1 d2", "a0 d2"]

    def test_a_loop_of_groups_is_left_once(self) -> None:
        group = begin("b", is_type("b"))
        pattern = begin("a", is_type("a")).next(group).one_or_more()
        assert rows(pattern.followed_by("c", is_type("c")), "a b x x c c") == ["a0 b1 c4"]
