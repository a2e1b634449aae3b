"""Patterns that could need more and more memory are found, and no others."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from betimes.patterns.automaton import FINAL, START, Automaton, automaton
from betimes.patterns.builder import Builder, begin
from betimes.patterns.growth import grows
from betimes.patterns.steps import Spec
from tests.patterns.random_patterns import grouped, specs

A = begin("a")


@pytest.mark.parametrize(
    "pattern",
    [
        A,
        A.next("b").next("c"),
        A.next("b").optional().next("c"),
        A.times(3).consecutive().next("b"),
        A.next("b").times(2, 4).consecutive(),
        A.next(begin("b").next("c")).times(2).consecutive(),
        A.not_next("b").next("c"),
        A.followed_by("b").within("1s"),
        A.one_or_more().allow_combinations().within("1s"),
        A.not_followed_by("b").within("1s"),
        A.not_followed_by("b").within("1s", of="step"),
        A.followed_by("b").within("1s", of="step").next("c"),
        A.one_or_more().until("v > 5").next("b"),
        A.next(begin("b").followed_by("c")).one_or_more().until("v > 5"),
    ],
)
def test_bounded(pattern: Builder) -> None:
    assert grows(pattern.spec) == []


@pytest.mark.parametrize(
    ("pattern", "reasons"),
    [
        (A.followed_by("b"), ["may wait forever for step 'b'; .*within"]),
        (A.skip("past_last").followed_by("b"), ["may wait forever for step 'b'"]),
        (A.followed_by_any("b"), ["another event of step 'b', even after .*within.*skip"]),
        (A.skip("past_last").followed_by_any("b"), ["may wait forever for step 'b'"]),
        (A.one_or_more().consecutive(), ["loop of step 'a' never has to end; .*within.*until"]),
        (A.one_or_more().allow_combinations(), ["loop of step 'a' .*until.*skip"]),
        (A.times(2), ["in the loop of step 'a' may wait forever for the next; .*within"]),
        (A.times(2, within="1s"), ["in the loop of step 'a' may wait"]),
        (A.followed_by("b").one_or_more(), ["wait forever for step 'b'", "loop of step 'b'"]),
        (A.next(begin("b").next("c")).one_or_more(), ["loop of step '.b c.'"]),
        (A.followed_by(begin("b").next("c")), ["wait forever for step 'b'"]),
        (A.next(begin("b").followed_by("c")), ["wait forever for step 'c'"]),
    ],
)
def test_unbounded_with_the_step_and_what_to_do(pattern: Builder, reasons: list[str]) -> None:
    found = grows(pattern.spec)
    assert len(found) == len(reasons)
    for text, reason in zip(found, reasons, strict=True):
        assert re.search(reason, text)


@given(specs("loops optional", skips=["none"]))
def test_a_pattern_grows_if_and_only_if_a_run_can_go_in_circles(spec: Spec) -> None:
    assert bool(grows(spec)) == (spec.within is None and circles(automaton(spec)))


@given(grouped("loops optional"))
def test_a_pattern_with_groups_too(spec: Spec) -> None:
    assert bool(grows(spec)) == (spec.within is None and circles(automaton(spec)))


def circles(built: Automaton) -> bool:
    """Whether a run can come back to a state."""
    targets = {
        number: {move.target for move in state.moves if move.target not in (FINAL, START)}
        for number, state in enumerate(built.states)
    }
    while ends := [number for number, onwards in targets.items() if not onwards & targets.keys()]:
        for number in ends:
            del targets[number]
    return bool(targets)
