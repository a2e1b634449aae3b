"""The matcher against the definition, and the contract that the engine builds on."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
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
from tests.patterns.random_patterns import SKIPS, grouped, specs, streams

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
    @given(specs(), streams())
    def test_it_finds_what_the_definition_says(self, spec: Spec, events: list[Event]) -> None:
        expected = Counter((match.names, match.ts, "match") for match in brute(spec, events))
        assert Counter(run(running(spec), events)) == expected

    @given(specs(skips=SKIPS[1:]), streams())
    def test_it_skips_what_the_definition_says(self, spec: Spec, events: list[Event]) -> None:
        matcher = running(spec)
        expected = [(match.names, match.ts, "match") for match in brute(spec, events)]
        assert run(matcher, events) == expected
        assert matcher.state == running(spec).state

    @given(grouped(), streams())
    def test_a_group_is_all_its_numbers_of_iterations(
        self, spec: Spec, events: list[Event]
    ) -> None:
        rows = list(islice(unrolled(spec.steps, "begin", len(events)), 101))
        assume(len(rows) < 101)
        expected: Counter[Plain] = Counter()
        for steps in filter(None, rows):
            flat = replace(spec, steps=(replace(steps[0], op="begin"), *steps[1:]))
            expected.update(map(original, run(running(renamed(flat)), events)))
        assert Counter(run(running(spec), events)) == expected


def unrolled(steps: Sequence[Step], op: Op, most: int) -> Iterator[tuple[Step, ...]]:
    """Rows of steps without groups that mean the same, all of them together."""
    rows = []
    for step in steps:
        follows = op if step.op == "begin" else step.op
        if not step.group:
            rows.append([(replace(step, op=follows),)])
            continue
        counts = range(step.least, (step.most or max(most, step.least)) + 1)
        choices: list[tuple[Step, ...]] = [()] if step.optional else []
        for count in counts:
            if count > most:
                break
            ops = [follows] + [INNER[step.inner]] * (count - 1)
            for parts in product(*(list(unrolled(step.group, each, most)) for each in ops)):
                choices.append(tuple(each for part in parts for each in part))
        rows.append(choices)
    for parts in product(*rows):
        row = tuple(each for part in parts for each in part)
        if sum(each.least for each in row if not each.optional) <= most:
            yield row


def renamed(spec: Spec) -> Spec:
    """Each copy of a step with a name of its own."""
    steps = [
        replace(step, name=f"{step.name}@{at}", takes=((f"{step.name}@{at}", step.takes[0][1]),))
        for at, step in enumerate(spec.steps)
    ]
    return replace(spec, steps=tuple(steps))


def original(row: Plain) -> Plain:
    return tuple((name.partition("@")[0], n) for name, n in row[0]), row[1], row[2]
