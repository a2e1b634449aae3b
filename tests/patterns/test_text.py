"""Patterns as text: the steps they become, where conditions go, and what is refused."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.patterns.grammar import skeleton
from betimes.patterns.steps import PatternError, Spec, Step
from betimes.patterns.text import parse_text
from tests.patterns.test_expressions import marked


def said(step: Step) -> str:
    """A step in one line."""
    if step.group:
        inside = ", ".join(map(said, step.group))
        return f"{step.op} [{inside}]{times(step)}"
    return f"{step.op} {'/'.join(name for name, _ in step.takes)}{times(step)}"


def times(step: Step) -> str:
    optional, greedy = "optional " * step.optional, "greedy " * step.greedy
    if (step.least, step.most) != (1, 1) or optional:
        return f" {optional}{greedy}{step.least}..{step.most or ''}"
    return ""


def conditions(spec: Spec) -> dict[str, str]:
    """The condition of each step, as text."""

    def flat(steps: tuple[Step, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for step in steps:
            found |= flat(step.group)
            for name, each in step.takes:
                assert each is not None
                found["!" * step.negated + name] = each.text
        return found

    return flat(spec.steps)


READ = {
    "A": ["begin A"],
    "A B": ["begin A", "followed_by B"],
    " A\n  B ": ["begin A", "followed_by B"],
    "A-B": ["begin A", "next B"],
    "A - B": ["begin A", "next B"],
    "A ... B": ["begin A", "followed_by_any B"],
    "A...B": ["begin A", "followed_by_any B"],
    "A !B C": ["begin A", "not_followed_by B", "followed_by C"],
    "A !B-C": ["begin A", "not_followed_by B", "next C"],
    "A -!B C": ["begin A", "not_next B", "followed_by C"],
    "A-!B": ["begin A", "not_next B"],
    "A !(B|C) D": ["begin A", "not_followed_by B/C", "followed_by D"],
    "A !A B": ["begin A", "not_followed_by A", "followed_by B"],
    "A !X B !X C": [
        "begin A",
        "not_followed_by X",
        "followed_by B",
        "not_followed_by X",
        "followed_by C",
    ],
    "(A|B) C": ["begin A/B", "followed_by C"],
    "( A | B | C )-D": ["begin A/B/C", "next D"],
    "A+": ["begin A greedy 1.."],
    "A*": ["begin A optional greedy 1.."],
    "A?": ["begin A optional 1..1"],
    "A??": ["begin A optional 1..1"],
    "A+?": ["begin A 1.."],
    "A*?": ["begin A optional 1.."],
    "A{3}": ["begin A 3..3"],
    "A{2,4}": ["begin A greedy 2..4"],
    "A{ 2 , 4 }?": ["begin A 2..4"],
    "A{2,}": ["begin A greedy 2.."],
    "A{0,4}": ["begin A optional greedy 1..4"],
    "A{1}": ["begin A"],
    "(A|B)+ C": ["begin A/B greedy 1..", "followed_by C"],
    "(A B)+": ["begin [begin A, followed_by B] greedy 1.."],
    "(A B) C": ["begin [begin A, followed_by B]", "followed_by C"],
    "A-(B !C D){2} E": [
        "begin A",
        "next [begin B, not_followed_by C, followed_by D] 2..2",
        "followed_by E",
    ],
    "A (B (C D)+ E)+": [
        "begin A",
        "followed_by [begin B, followed_by [begin C, followed_by D] greedy 1.., followed_by E]"
        " greedy 1..",
    ],
    "A (B)+": ["begin A", "followed_by B greedy 1.."],
    "A ((B))": ["begin A", "followed_by B"],
    "A-(B+)": ["begin A", "next B greedy 1.."],
    "A (B{2})+": ["begin A", "followed_by [begin B 2..2] greedy 1.."],
    "`my step` `a``b` é_1": ["begin my step", "followed_by a`b", "followed_by é_1"],
    "A in not": ["begin A", "followed_by in", "followed_by not"],
}


@pytest.mark.parametrize("text", READ)
def test_steps(text: str) -> None:
    assert [said(step) for step in parse_text(text).steps] == READ[text]


def test_names_of_steps() -> None:
    spec = parse_text("A !B !(C|D) (E|F) (G H)+")
    assert [step.name for step in spec.steps] == ["A", "!B", "!(C|D)", "E|F", "(G H)"]


@pytest.mark.parametrize("within", ["2s", timedelta(seconds=2), 2_000_000])
def test_within(within: Any) -> None:
    assert parse_text("A !B", within=within).within == 2_000_000


def test_defaults() -> None:
    spec = parse_text("A B")
    assert (spec.within, spec.skip, spec.only) == (None, "past_last", None)
    assert all(step.inner == "relaxed" for step in spec.steps)


@pytest.mark.parametrize(
    "skip", ["none", "to_next", "past_last", "to_first:A", "to_last:my step", "to_first:C"]
)
def test_skip(skip: str) -> None:
    assert parse_text("A (`my step` C)+", skip=skip).skip == skip


# Where conditions go


def test_a_name_is_a_type_unless_it_is_defined() -> None:
    spec = parse_text("A !B C", {"A": "type == 'x' and v > 5", "B": "v > A.v"})
    assert conditions(spec) == {
        "A": "type == 'x' and v > 5",
        "!B": "v > A.v",
        "C": "type == 'C'",
    }


WHERE: dict[tuple[str, str], dict[str, str]] = {
    ("A B C", "C.v > A.v"): {"C": "C.v > A.v"},
    ("A B C", "A.v < C.v"): {"C": "A.v < C.v"},
    ("A B C", "A.v > 1 and B.v > A.v and (C.v > 1 or A.v > 2)"): {
        "A": "A.v > 1",
        "B": "B.v > A.v",
        "C": "(C.v > 1 or A.v > 2)",
    },
    ("A B", "B.v > 1 and B.w > 2"): {"B": "B.v > 1 and B.w > 2"},
    ("A B", "B.v between 1 and A.v"): {"B": "B.v between 1 and A.v"},
    ("A !B C", "B.v > A.v"): {"!B": "B.v > A.v"},
    ("A !B C", "B.v > 1 and C.v > A.v"): {"!B": "B.v > 1", "C": "C.v > A.v"},
    ("A !(B|C) D", "C.v > A.v"): {"!C": "C.v > A.v"},
    ("A !B B2 !B C", "B.v > A.v"): {"!B": "B.v > A.v"},
    ("A !A C", "A.v > 1"): {"A": "A.v > 1"},
    ("(A|B) C", "A.v > 1 and C.v > 2"): {"A": "A.v > 1", "C": "C.v > 2"},
    ("A (B C)+ D", "C.v > B.v"): {"C": "C.v > B.v"},
    ("A B+ C", "B.v > A.v"): {"B": "B.v > A.v"},
    ("A B+ C", "B.v > avg(B.v)"): {"B": "B.v > avg(B.v)"},
    ("A B+ C", "C.v > avg(B.v)"): {"C": "C.v > avg(B.v)"},
    ("A B+ C", "avg(B.v) > 5"): {"C": "avg(B.v) > 5"},
    ("A B+ C", "avg(B.v) > A.v and count(B) > 2"): {"C": "avg(B.v) > A.v and count(B) > 2"},
    ("A B+ C? D E", "avg(B.v) > 5"): {"C": "avg(B.v) > 5", "D": "avg(B.v) > 5"},
    ("A B+ (C|D) E", "avg(B.v) > 5"): {"C": "avg(B.v) > 5", "D": "avg(B.v) > 5"},
    ("A B+ !X C", "avg(B.v) > 5"): {"C": "avg(B.v) > 5"},
    ("(A|B)+ C", "sum(A.v) > sum(B.v)"): {"C": "sum(A.v) > sum(B.v)"},
}


@pytest.mark.parametrize(("text", "where"), WHERE)
def test_where(text: str, where: str) -> None:
    spec = parse_text(text, where=where)
    expected = conditions(parse_text(text))
    for name, more in WHERE[text, where].items():
        expected[name] += " and " + more
    assert conditions(spec) == expected
    assert spec.only is None


def test_a_condition_without_steps_is_about_every_event() -> None:
    spec = parse_text("A C", where="v > 1 and C.v > A.v and w > 2")
    assert conditions(spec)["C"] == "type == 'C' and C.v > A.v"
    assert spec.only is not None
    assert [spec.only.holds(Event("X", 0, {"v": v, "w": 3}), {}) for v in (1, 2)] == [False, True]
    function = parse_text("A", where=lambda event: event["v"] > 1).only
    assert function is not None
    assert function.holds(Event("X", 0, {"v": 2}), {})


@pytest.mark.parametrize("text", ["A C", "A B C", "A C+ D"])
def test_the_own_name_of_a_step_is_the_candidate(text: str) -> None:
    bound = {"A": [Event("A", 0, {"v": 5})], "C": [Event("C", 1, {"v": 9})]}
    by_where = parse_text(text, where="C.v > A.v")
    by_define = parse_text(text, {"C": "type == 'C' and C.v > A.v"})
    for spec in (by_where, by_define):
        ((_, tested),) = next(step.takes for step in spec.steps if step.name == "C")
        assert tested is not None
        assert [tested.holds(Event("C", 2, {"v": v}), bound) for v in (4, 6)] == [False, True]


def test_the_types_of_other_steps_are_tested_first() -> None:
    spec = parse_text("A C", where="C.v > A.v")
    ((_, tested),) = spec.steps[1].takes
    assert tested is not None
    assert not tested.holds(Event("X", 2, {}), {"A": [Event("A", 0, {"v": 5})]})


# What is refused

UNREADABLE = {
    "": ("[ ]", "expected a step, got the end"),
    "  ": ("[ ]", "expected a step, got the end"),
    "!A B": ("[!]A B", "expected a pattern to begin with a step that binds an event, got '!'"),
    "-A": ("[-]A", "expected a pattern to begin with a step, got '-'"),
    "... A": ("[...] A", "expected a pattern to begin with a step, got '...'"),
    "A -": ("A -[ ]", "expected a step after '-', got the end"),
    "A ... ": ("A ... [ ]", "expected a step after '...', got the end"),
    "A - - B": ("A - [-] B", "expected a step, got '-'"),
    "A ... !B C": ("A ... [!]B C", "expected a step after '...', got '!'"),
    "A !B": ("A [!B]", "expected within, such as within='2s'"),
    "A !(B | C) ": ("A [!(B | C)]", "the pattern ends with '!(B|C)'"),
    "A ! B": ("A ![ ]B", "expected a name or (A|B) after '!', got ' '"),
    "A !!B C": ("A ![!]B C", "expected a name or (A|B) after '!', got '!'"),
    "A !B+ C": ("A !B[+] C", "expected no quantifier after '!B'"),
    "A !(B C) D": ("A !(B [C]) D", "expected '|' or ')', as in !(A|B), got 'C'"),
    "A B A": ("A B [A]", 'define={"A2": "type == \'A\'"}'),
    "A (B A)+": ("A (B [A])+", "got 'A' twice; call this one 'A2'"),
    "(A|A)": ("(A|[A])", "got 'A' twice"),
    "A|B": ("A[|]B", "expected alternatives in parentheses, as in (A|B)"),
    "(A|B C)": ("(A|B [C])", "expected '|' or ')', as in (A|B), got 'C'"),
    "(A B|C)": ("(A B[|]C)", "expected ')'; alternatives are single names, as in (A|B), got '|'"),
    "(A|(B C))": ("(A|[(]B C))", "expected a name, as in (A|B), got '('"),
    "(A|B+)": ("(A|B[+])", "got '+'"),
    "(A|)": ("(A|[)]", "expected a name, as in (A|B), got ')'"),
    "(A": ("(A[ ]", "expected ')'"),
    "A)": ("A[)]", "expected '(' somewhere before this ')'"),
    "A ()": ("A ([)]", "expected a step, got ')'"),
    "A (!B C)+": ("A ([!]B C)+", "expected a group to begin with a step that binds an event"),
    "A (-B C)+": ("A ([-]B C)+", "expected a group to begin with a step, got '-'"),
    "A (B !C)+ D": (
        "A [(B !C)]+ D",
        "expected a group to end with a step that binds an event, got '!C'",
    ),
    "A +": ("A [+]", "put a quantifier directly after its step"),
    "A++": ("A+[+]", "expected one quantifier, got another after '+'"),
    "A+??": ("A+?[?]", "expected one quantifier, got another after '+?'"),
    "A{0}": ("A[{0}]", "expected the upper limit to be 1 or more"),
    "A{3,2}": ("A[{3,2}]", "expected the upper limit to be 3 or more"),
    "A{}": ("A[{]}", "expected a quantifier such as {3}, {2,4} or {2,}"),
    "A{,3}": ("A[{],3}", "expected a quantifier such as"),
    "A{-1}": ("A[{]-1}", "expected a quantifier such as"),
    "A{9999999}": ("A[{]9999999}", "expected a quantifier such as"),
    "A.B": ("A[.]B", "in backticks"),
    "1A": ("[1]A", "expected a step, got '1'"),
    "A, B": ("A[,] B", "expected a step, got ','"),
    "A `B": ("A [`]B", "in backticks"),
    "A\n  B C C D": ("B C [C] D", "got 'C' twice"),
    "(" * 5_000: (None, "expected fewer nested groups"),
}


@pytest.mark.parametrize("text", UNREADABLE, ids=lambda text: text[:20])
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_text(text)
    place, message = UNREADABLE[text]
    assert str(caught.value).startswith("cannot read pattern\n")
    assert place is None or marked(caught.value) == place.strip()
    assert message in str(caught.value)


UNUSABLE: dict[tuple[str, str], tuple[str, str]] = {
    ("A C", "C.v > X.v"): ("C.v > [X.v]", "expected one of the steps 'A', 'C', got 'X'"),
    ("A C", "count(X) > 1"): ("[count(X)] > 1", "expected one of the steps 'A', 'C', got 'X'"),
    ("A !B C", "B.v > C.v"): (
        "B.v > [C.v]",
        "got 'C', which is not bound yet when an event is tested for 'B'",
    ),
    ("A !B C", "sum(B.v) > 1"): ("[sum(B.v)] > 1", "got 'B', which is negated"),
    ("A !B !D C", "B.v > D.v"): ("[B.v > D.v]", "expected a condition with one negated step"),
    ("A C", "v > A.v"): ("[v] > A.v", "expected the step of every column"),
    ("A C", "ts - A.ts < 2s"): ("[ts] - A.ts < 2s", "as in C.ts, got 'ts'"),
    ("A B+", "v > 1 and avg(B.v) > 5"): (
        "v > 1 and [avg(B.v) > 5]",
        "expected another step after the aggregate",
    ),
    ("A B+ C?", "avg(B.v) > 5"): ("[avg(B.v) > 5]", "put it in define"),
}


@pytest.mark.parametrize(("text", "where"), UNUSABLE)
def test_what_cannot_be_asked_in_where(text: str, where: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_text(text, where=where)
    place, message = UNUSABLE[text, where]
    assert str(caught.value).startswith("cannot use where\n")
    assert marked(caught.value) == place
    assert message in str(caught.value)


UNDEFINABLE: dict[tuple[str, str], tuple[str, str]] = {
    ("A C", "v > X.v"): ("v > [X.v]", "expected one of the steps 'A', 'C', got 'X'"),
    ("A C D", "v > D.v"): ("v > [D.v]", "make it a condition of 'D' instead"),
    ("A C D", "count(D) > 1"): ("[count(D)] > 1", "expected steps before 'C', got 'D'"),
    ("A !B C", "v > B.v"): ("v > [B.v]", "expected a step that binds events, got 'B'"),
}


@pytest.mark.parametrize(("text", "define"), UNDEFINABLE)
def test_what_cannot_be_asked_in_define(text: str, define: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_text(text, {"C": define})
    place, message = UNDEFINABLE[text, define]
    assert str(caught.value).startswith("cannot use define['C']\n")
    assert marked(caught.value) == place
    assert message in str(caught.value)


def test_within_a_repeated_group_later_steps_may_be_bound() -> None:
    parse_text("A (C D)+", {"C": "D.v is null or v > D.v"})
    parse_text("(A|B)+", {"A": "type == 'A' and count(B) < 3"})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no text": ({"text": 5}, "expected a pattern as text, such as 'A !B C', got 5"),
    "define": ({"define": "A"}, "expected define to map names to conditions"),
    "defined for nothing": (
        {"define": {"X": "v > 5"}},
        "expected define to contain names from the pattern, ['A', 'C'], got 'X'",
    ),
    "no condition": ({"define": {"A": 5}}, "expected define['A'] to be a condition as text"),
    "unreadable": ({"define": {"A": "v >"}}, "cannot read define['A']"),
    "where": ({"where": 5}, "expected where to be a condition as text"),
    "looks back": (
        {"where": lambda event, bound: event in bound},
        "use define to say at which step",
    ),
    "within": ({"within": "2 parsecs"}, "expected within to be a duration such as '150ms', '2s'"),
    "within 0": ({"within": 0}, "expected within to be longer than 0, got within=0"),
    "within -1": ({"within": -1}, "expected within to be 0 or longer"),
    "skip": ({"skip": "next"}, "expected skip to be 'none', 'to_next', 'past_last'"),
    "skip to nothing": ({"skip": "to_first:"}, "skip='to_first:'"),
    "skip to nobody": ({"skip": "to_first:X"}, "['A', 'C'], got skip='to_first:X'"),
    "skip 5": ({"skip": 5}, "got skip=5"),
    "skip to a negated step": ({"text": "A !B C", "skip": "to_last:B"}, "['A', 'C']"),
    "negated after optional": ({"text": "A B? !X C"}, "'B', which is optional"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(PatternError) as caught:
        parse_text(**({"text": "A C"} | options))
    assert message in str(caught.value)


@given(st.text(alphabet="ABC !()|-+*?{}12,.`", max_size=25))
def test_nothing_but_pattern_errors_whatever_is_written(text: str) -> None:
    with contextlib.suppress(PatternError):
        assert skeleton(text, ends=True)
