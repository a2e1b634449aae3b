"""Expressions: what they mean, beside a plain interpreter; what is refused, and where it points."""

from __future__ import annotations

import contextlib
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.patterns.conditions import (
    Expression,
    condition,
)
from betimes.patterns.evaluate import value_of
from betimes.patterns.expressions import columns_of, parse, steps_of, types_of
from betimes.patterns.source import SourceText
from betimes.patterns.steps import Bound, PatternError
from betimes.patterns.syntax import (
    Expr,
)
from tests.patterns.plain_expressions import WrongError, conditions, plain, unparse


def value(text: str, payload: dict[str, Any] | None = None, **bound: list[Event]) -> Any:
    event = Event("E", 1_000_000, payload or {})
    return value_of(parse(text), SourceText(text, "where"))(event, bound)


def rows(*values: Any) -> list[Event]:
    return [Event("B", ts, {"v": each}) for ts, each in enumerate(values)]


# What they mean

MEANING: dict[str, Any] = {
    "1 + 2 * 3": 7,
    "(1 + 2) * 3": 9,
    "7 // 2 - 7 % 4": 0,
    "2 - 3 - 4": -5,
    "-v * 2": -10,
    "--v": 5,
    "7 / 2": 3.5,
    "1 < v <= 5": True,
    "1 < v < 5": False,
    "not v == 5 or v == 5": True,
    "not (v == 5 or v == 5)": False,
    "True or False and False": True,
    "v between 5 and 6": True,
    "v between 4 and 5 and v == 5": True,
    "v not between 4 and 5": False,
    "v in (1, 5)": True,
    "v in [1, 2]": False,
    "v in (5)": True,
    "v in (1, 5,)": True,
    "v not in (1, 2)": True,
    "not v in (1, 2)": True,
    "'7' in name": True,
    "'p' in 'P7'": False,
    "'p' not in name": True,
    "startswith(name, 'P')": True,
    'endswith(name, "7")': True,
    "contains(lower(name), 'p')": True,
    "upper('aé')": "AÉ",
    "len(name) * abs(-v)": 10,
    "`heart rate` > 100": True,
    "`in` == 1": True,
    "type == 'E'": True,
    "ts == 1s": True,
    "ts - 250ms": 750_000,
    "1.5s": 1_500_000,
    "1d == 24h and 1h == 60min and 1ms == 1000us": True,
    "1_000 + 1e3 + .5": 2000.5,
    r"len('\'\t\\\n')": 4,
    "true and True and not false": True,
    "nothing is null": True,
    "nothing is not None": False,
    "v is null": False,
    "v": 5,
    "flag and v": True,
    "flag + 1": 2,
    "flag == 1": True,
    "name < 'P8'": True,
    "first == 'last'": False,  # names of functions are names of columns, too
}
PAYLOAD = {
    "v": 5,
    "name": "P7",
    "heart rate": 120,
    "in": 1,
    "nothing": None,
    "flag": True,
    "first": "x",
}


@pytest.mark.parametrize("text", MEANING)
def test_meaning(text: str) -> None:
    result = value(text, PAYLOAD)
    assert result == MEANING[text]
    assert type(result) is type(MEANING[text])


NULL: dict[str, bool | None] = {
    "n == 1": None,
    "n != 1": None,
    "1 < n": None,
    "n == n": None,
    "n + 1 > 0": None,
    "-n == 1": None,
    "len(s) == 1": None,
    "startswith(s, 'a')": None,
    "not n == 1": None,
    "n == 1 and False": False,
    "False and n == 1": False,
    "n == 1 and True": None,
    "n == 1 or True": True,
    "n == 1 or False": None,
    "n in (1, 2)": None,
    "1 in (n, 1)": True,
    "1 in (n, 2)": None,
    "n between 1 and 2": None,
    "3 between n and 2": False,
    "n is null": True,
    "nan is null": True,
    "nan != nan": None,
    "nan + 1 is null": True,
    "not (nan < 5)": None,
    "1 / 0 is null": True,
    "1 // 0 > 0": None,
    "1 % 0 > 0": None,
    "1.0 // 0 is null": True,
    "1e999 - 1e999 is null": True,
    "X.v == 1": None,
    "X.ts is null": True,
    "not n": None,
    "n": None,
}


@pytest.mark.parametrize("text", NULL)
def test_null(text: str) -> None:
    event = Event("E", 0, {"n": None, "s": None, "nan": math.nan})
    made = condition(text, "where")
    assert isinstance(made, Expression)
    assert made._test(event, {}) is NULL[text]
    assert made.holds(event, {}) is (NULL[text] is True)


def test_aggregates() -> None:
    b = rows(3, None, 5.0, math.nan)
    found = {name: value(f"{name}(B.v)", B=b) for name in ("sum", "avg", "min", "max", "count")}
    assert found == {"sum": 8.0, "avg": 4.0, "min": 3, "max": 5.0, "count": 2}
    assert value("count(B)", B=b) == 4
    assert value("first(B.v)", B=b) == 3
    assert value("last(B.v) is null", B=b) is True
    assert value("last(B.ts) - first(B.ts)", B=b) == 3
    assert value("max(B.type)", B=b) == "B"
    assert value("min(B.v)", B=rows("b", "a")) == "a"


def test_aggregates_of_nothing() -> None:
    assert value("sum(X.v)") == 0
    for nothing in ([], rows(None)):
        assert value("sum(B.v)", B=nothing) == 0
        assert value("count(B.v)", B=nothing) == 0
        for name in ("avg", "min", "max", "first", "last"):
            assert value(f"{name}(B.v) is null", B=nothing) is True


def test_a_step_bound_several_times_is_the_last_one() -> None:
    assert value("B.v", B=rows(1, 2, 3)) == 3


def test_sums_are_the_same_in_every_python() -> None:
    assert value("sum(B.v)", B=rows(*[0.1] * 10)) == 0.9999999999999999


def test_other_kinds_of_numbers() -> None:
    payload = {"i": np.int64(5), "f": np.float32(0.5), "n": np.float64("nan"), "d": Decimal("2.5")}
    assert value("i + f", payload) == 5.5
    assert type(value("i", payload)) is int
    assert value("i == 5 and i in (5, 6) and d > 2", payload) is True
    assert value("n is null", payload) is True


def test_what_is_neither_number_nor_text_can_be_compared_with_its_like() -> None:
    payload = {"a": [1, 2], "b": [1, 3], "array": np.array([1, 2])}
    assert value("a == b", payload) is False
    assert value("a < b and a == array", payload) is True


# Beside a plain interpreter

VALUES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -2.0, math.nan, math.inf]),
    st.booleans(),
    st.none(),
    st.sampled_from(["", "a", "Ab"]),
)
PAYLOADS = st.one_of(
    st.fixed_dictionaries(
        {"v": st.integers(-3, 3), "w": st.sampled_from([0.5, None]), "s": st.sampled_from("ab")}
    ),
    st.dictionaries(st.sampled_from(["v", "w", "s"]), VALUES),
)
EVENTS = st.builds(Event, st.sampled_from(["a", "ab"]), st.integers(0, 3), PAYLOADS)
BOUND = st.dictionaries(st.sampled_from(["A", "B"]), st.lists(EVENTS, max_size=3))


@given(conditions)
def test_what_is_written_is_read_again(expr: Expr) -> None:
    # By `repr`, because Python takes 1, 1.0 and True for the same.
    assert repr(parse(unparse(expr))) == repr(expr)


@given(conditions, EVENTS, BOUND)
def test_the_same_as_a_plain_interpreter(expr: Expr, event: Event, bound: Bound) -> None:
    text = unparse(expr)
    made = condition(text, "where")
    assert isinstance(made, Expression)
    try:
        expected = plain(expr, event, bound)
    except WrongError:
        with pytest.raises(PatternError, match="cannot evaluate where"):
            value_of(made.expr, made.source)(event, bound)
        return
    found = value_of(made.expr, made.source)(event, bound)
    assert repr(found) == repr(expected)


@given(conditions, EVENTS, BOUND)
def test_columns_and_types_that_are_not_named_do_not_matter(
    expr: Expr, event: Event, bound: Bound
) -> None:
    made = condition(unparse(expr), "where")
    types = types_of(expr)

    def holds(event: Event, bound: Bound) -> bool:
        try:
            return made.holds(event, bound)
        except PatternError:
            return False

    if types is not None and event.type not in types:
        assert not holds(event, bound)
    needed = {name: event.payload[name] for name in columns_of(expr) if name in event.payload}
    seen = {name: events for name, events in bound.items() if name in steps_of(expr)}
    assert holds(event, bound) == holds(Event(event.type, event.ts, needed), seen)


# What is refused, and where the message points


def marked(error: PatternError) -> str:
    """The line of a message with the marked part in brackets, as `v > [>] 5`."""
    _, line, marks, *_ = str(error).split("\n")
    start, end = marks.index("^"), len(marks)
    line = line.ljust(end)
    return f"{line[:start]}[{line[start:end]}]{line[end:]}".strip()


UNREADABLE = {
    "": ("[ ]", "expected a value, got the end"),
    "v >": ("v >[ ]", "expected a value after '>', got the end"),
    "v > > 5": ("v > [>] 5", "expected a value after '>', got '>'"),
    "v > 5 w": ("v > 5 [w]", "expected 'and', 'or', an operator or the end, got 'w'"),
    "v > 5)": ("v > 5[)]", "got ')'"),
    "(v > 5": ("(v > 5[ ]", "expected an operator or ')', got the end"),
    "v = 5": ("v [=] 5", "expected '==', got '='"),
    "v === 5": ("v [===] 5", "expected '=='"),
    "v <> 5": ("v [<>] 5", "expected '!=', got '<>'"),
    "v && w": ("v [&&] w", "expected 'and', got '&&'"),
    "v || w": ("v [||] w", "expected 'or'"),
    "!v": ("[!]v", "expected 'not'"),
    "v ** 2": ("v [**] 2", "expected one of + - * / // %"),
    "v > 5 AND w": ("v > 5 [AND] w", "write 'and' in lower case"),
    "v > 'abc": ("v > ['abc]", "expected the text to end with '"),
    "v > 'a\\q'": ("v > 'a[\\q]'", r"expected one of \n \t \\ \' \" in text, got \q"),
    "`v > 5": ("[`v > 5]", "expected a name between two backticks"),
    "v > 5x": ("v > [5x]", "expected a number or a duration such as 150ms, 2s"),
    "v > 2sec": ("v > [2sec]", "got '2sec'"),
    "v ? 5": ("v [?] 5", "expected a value or an operator, got '?'"),
    "v # 5": ("v [#] 5", "got '#'"),
    "v in ()": ("v in ([)]", "expected a value after '(', got ')'"),
    "v in (1, 2": ("v in (1, 2[ ]", "expected ',' or ')', got the end"),
    "v in [1, 2)": ("v in [1, 2[)]", "expected ',' or ']', got ')'"),
    "v between 1": ("v between 1[ ]", "expected 'and', as in v between 1 and 5"),
    "v is 5": ("v is [5]", "expected null, as in v is null; compare values with =="),
    "v == null": ("[v == null]", "got null, which never compares as true"),
    "v in (1, None)": ("v in (1, [None])", "write x is null"),
    "A.": ("A.[ ]", "expected a column after the '.', got the end"),
    "A.b.c": ("A.b[.]c", "put a name that contains a '.' in backticks"),
    "A.in > 5": ("A.[in] > 5", "if it is a name, put it in backticks"),
    "averge(B.v) > 5": ("[averge](B.v) > 5", "got 'averge'"),
    "conut(B) > 5": ("[conut](B) > 5", "did you mean 'count'?"),
    "avg(B) > 5": ("avg(B[)] > 5", "expected a step and its column, as in avg(B.v), got ')'"),
    "sum(v + 1)": ("sum(v [+] 1)", "expected a step and its column, as in sum(B.v)"),
    "count(5)": ("count([5])", "expected a step, as in count(B) or count(B.v), got '5'"),
    "max(B.v, 5)": ("max(B.v[,] 5)", "expected ')', as in max(B.v)"),
    "startswith(name)": (
        "[startswith(name)]",
        "expected startswith(text, text), got 1 instead of 2",
    ),
    "len(a, b) > 5": ("[len(a, b)] > 5", "expected len(text), got 2 instead of 1 values"),
    "len() > 5": ("len([)] > 5", "expected a value after '('"),
    "1 < 'a'": ("[1 < 'a']", "got a number and text"),
    "v > 5 and type > 5": ("v > 5 and [type > 5]", "expected two numbers or two texts for '>'"),
    "ts == 'now'": ("[ts == 'now']", "put text in quotes"),
    "type in ('a', 5)": ("type in ('a', [5])", "got text and a number"),
    "v + 'a' > 5": ("v + ['a'] > 5", "expected a number on both sides of '+', got text"),
    "-type": ("-[type]", "expected a number after '-', got text"),
    "abs('a') > 5": ("abs(['a']) > 5", "expected a number in abs(), got text"),
    "lower(5) == 'a'": ("lower([5]) == 'a'", "expected text in lower(), got a number"),
    "5 in name": ("[5] in name", "expected text in contains(), got a number"),
    "sum(B.type) > 5": ("[sum(B.type)] > 5", "expected a column of numbers in sum()"),
    "v > 5 and 'a'": ("v > 5 and ['a']", "expected a condition, got text"),
    "not lower(name)": ("not [lower(name)]", "compare it with something"),
    "upper(name)": ("[upper(name)]", "expected a condition, got text"),
    "v > 5 and\n  w >> 6 and\n  x": ("w >[>] 6 and", "expected a value after '>'"),
    "\tv >> 6": ("v >[>] 6", "expected a value after '>'"),
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(PatternError) as caught:
        condition(text, "where")
    place, message = UNREADABLE[text]
    assert str(caught.value).startswith("cannot read where\n")
    assert marked(caught.value) == place.strip()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "v" + ")" * 10_000,
        "not " * 10_000 + "v",
        "-" * 10_000 + "v",
        " + ".join(["v"] * 10_000),
        "9" * 10_000,
        "len(" * 10_000,
        "`" * 9_999,
    ],
)
def test_absurd_expressions_are_refused(text: str) -> None:
    with pytest.raises(PatternError, match="cannot read where"):
        parse(text)


def test_long_rows_of_conditions_are_not_absurd() -> None:
    text = " or ".join(f"v == {number}" for number in range(5_000))
    assert condition(text, "where").holds(Event("E", 0, {"v": 4_999}), {})


@given(st.text(alphabet="vA.5'`()[]<=>!+-*/%, andotirwl\\\n", max_size=30))
def test_nothing_but_pattern_errors_whatever_is_written(text: str) -> None:
    with contextlib.suppress(PatternError):
        made = condition(text, "where")
        made.holds(Event("E", 0, {"v": 5, "A": "x"}), {"A": rows(5)})


WRONG: dict[str, tuple[str, str]] = {
    "type == 'E' and w > 5": (
        "type == 'E' and [w] > 5",
        "expected an event with a column 'w', got 'E' at 7 with the columns ['name', 'v']",
    ),
    "B.w > 5": ("[B.w] > 5", "got 'B' at 0 with the columns ['v']"),
    "sum(B.w) > 5": ("[sum(B.w)] > 5", "expected an event with a column 'w', got 'B' at 0"),
    "w is null": ("[w] is null", "expected an event with a column 'w'"),
    "name < 5": (
        "[name < 5]",
        "expected only numbers or only text for '<', got 'P7' (text) and 5 (a number), at "
        "Event(type='E', ts=7, payload={'v': 5, 'name': 'P7'})",
    ),
    "v == 'a'": ("[v == 'a']", "got 5 (a number) and 'a' (text)"),
    "v != name": ("[v != name]", "for '!='"),
    "name in (1, 2)": ("[name in (1, 2)]", "for 'in', got 'P7' (text) and 1 (a number)"),
    "v between 1 and name": ("[v between 1 and name]", "got 5 (a number) and 'P7' (text)"),
    "1 < v < name": ("1 < [v < name]", "for '<'"),
    "v + name > 5": ("[v + name] > 5", "expected numbers for '+'"),
    "-name > 5": ("[-name] > 5", "expected a number after '-', got 'P7' (text)"),
    "abs(name) > 5": ("[abs(name)] > 5", "expected a number in abs(), got 'P7' (text)"),
    "startswith(v, 'a')": ("[startswith(v, 'a')]", "expected text in startswith(), got 5"),
    "v > 1 and name": ("v > 1 and [name]", "expected a condition, so a truth value or a number"),
    "sum(T.v) > 5": ("[sum(T.v)] > 5", "expected numbers for 'sum', got 1 (a number) and 'a'"),
    "min(T.v) > 5": ("[min(T.v)] > 5", "for 'min', got 1 (a number) and 'a' (text)"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_evaluated(text: str) -> None:
    event = Event("E", 7, {"v": 5, "name": "P7"})
    with pytest.raises(PatternError) as caught:
        condition(text, "define['A']").holds(event, {"B": rows(1), "T": rows(1, "a")})
    place, message = WRONG[text]
    assert str(caught.value).startswith("cannot evaluate define['A']\n")
    assert marked(caught.value) == place
    assert message in str(caught.value)


def test_numbers_that_are_too_large_are_no_null() -> None:
    with pytest.raises(PatternError, match="expected numbers for '/'"):
        value("v / 3", {"v": 10**400})
    with pytest.raises(PatternError, match="expected numbers for 'avg'"):
        value("avg(B.v)", B=rows(10**400, 1.5))


def test_what_is_tested_first_guards_what_comes_after() -> None:
    ball, goal = Event("ball", 0, {"a": 7}), Event("goal", 0, {})
    for text in ("type == 'ball' and a > 5", "not (type != 'ball' or a <= 5)"):
        assert condition(text, "where").holds(ball, {})
        assert not condition(text, "where").holds(goal, {})
