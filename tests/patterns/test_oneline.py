"""How patterns print: readable, and different for patterns that differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from betimes.patterns.builder import Builder, begin
from betimes.patterns.grammar import skeleton
from betimes.patterns.oneline import text_of
from betimes.patterns.pattern import Pattern, pattern
from betimes.patterns.steps import Spec
from tests.patterns.random_patterns import grouped, specs

either = specs() | grouped("loops optional")


def of(text: str = "A B C", **options: object) -> Pattern:
    return pattern(text, **{"emits": "hit", "within": "2s", **options})  # type: ignore[arg-type]


def loop() -> Builder:
    return begin("a").times(2, 4)


DIFFERENT = [
    of(),
    of("A-B C"),
    of("A ... B C"),
    of("A !B C"),
    of("A -!B C"),
    of("A B+ C"),
    of("A B+? C"),
    of("A (B C)"),
    of("A (B|C)"),
    of(emits="goal"),
    of(by="player"),
    of(within=None),
    of(within="2000001us"),
    of(define={"B": "type == 'X'"}),
    of(define={"B": lambda event: event["v"] > 1}),
    of(define={"B": lambda event: event["v"] > 2}),
    of(where="v > 5"),
    of(where="C.v > 5"),
    of(skip="to_next"),
    of(select={"v": "A.v"}),
    of(timeouts="missed"),
    of(on=("A", "B", "C", "D")),
    of(name="other"),
    of(limit=5),
    of(overflow="side"),
    begin("a"),
    begin(begin("a")),
    begin("a").optional(),
    begin("a").skip("to_first:a"),
    begin("a").skip("to_first:a", miss="error"),
    begin("a").times(3),
    begin("a").times(3).greedy(),
    loop(),
    loop().optional(),
    loop().greedy(),
    loop().consecutive(),
    loop().allow_combinations(),
    loop().within("1s"),
    loop().within("1s", of="step"),
    begin("a").times(2, 4, within="1s"),
    begin("a").times_or_more(2),
    begin("a").times_or_more(2).until("v > 1"),
    begin("a").times_or_more(2).until("v > 2"),
]


def test_what_differs_reads_differently() -> None:
    assert len({repr(each) for each in DIFFERENT}) == len(DIFFERENT)


@given(either, either)
def test_two_patterns_read_the_same_only_if_they_are(one: Spec, other: Spec) -> None:
    assert (repr(Pattern(one)) == repr(Pattern(other))) == (one == other)


@given(
    st.sampled_from(["A B", "A-B ... C", "(A B+?){2,} C?", "A !(B|C) `heart rate`*", "A -!B C{2}"])
)
def test_the_text_form_reads_back(text: str) -> None:
    steps = skeleton(text)
    assert text_of(skeleton(text_of(steps))) == text_of(steps)
    assert [(s.op, s.least, s.most) for s in skeleton(text_of(steps))] == [
        (s.op, s.least, s.most) for s in steps
    ]


def test_a_pattern_prints_as_it_is_written() -> None:
    assert repr(of("A !B C+", by="player", define={"B": "type == 'foul'"})) == (
        "Pattern('A !B C+', define={'!B': \"type == 'foul'\"}, emits='hit', by='player', "
        "within='2 s')"
    )
