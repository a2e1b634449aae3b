"""Conditions: what can be asked of an expression, and conditions in Python or put together."""

from __future__ import annotations

import copy
import pickle

import pytest

from betimes.model import Event
from betimes.patterns.conditions import AllOf, AnyOf, TypeIs, condition, types_for
from betimes.patterns.expressions import columns_of, parse, steps_of, types_of
from betimes.patterns.steps import PatternError, Python
from betimes.patterns.syntax import And, Column, Compare, StepColumn, of_candidate

# What can be asked


def test_what_an_expression_reads() -> None:
    expr = parse("v > A.v and count(`my step`) < ts and `heart rate` > avg(B.w) or type == 'x'")
    assert columns_of(expr) == {"v", "heart rate"}
    assert steps_of(expr) == {"A", "B", "my step"}


TYPES: dict[str, set[str] | None] = {
    "type == 'a'": {"a"},
    "'a' == type": {"a"},
    "type == 'a' and v > 5": {"a"},
    "type == 'a' or type == 'b' and v > 5": {"a", "b"},
    "type in ('a', 'b')": {"a", "b"},
    "type in ('a', 'b') and type in ('b', 'c')": {"b"},
    "type == 'a' and type == 'b'": set(),
    "type == 'a' or v > 5": None,
    "type in ('a', name)": None,
    "type != 'a'": None,
    "not type == 'a'": None,
    "A.type == 'a'": None,
    "v > 5": None,
}


@pytest.mark.parametrize("text", TYPES)
def test_the_types_for_which_it_can_hold(text: str) -> None:
    assert types_of(parse(text)) == TYPES[text]
    assert types_for(condition(text, "where")) == TYPES[text]


def test_types_of_conditions_together() -> None:
    a, b, fast = TypeIs("a"), TypeIs("b"), condition("v > 5", "where")
    assert types_for(AllOf((a, fast))) == frozenset({"a"})
    assert types_for(AllOf((fast, fast))) is None
    assert types_for(AllOf((a, b))) == frozenset()
    assert types_for(AnyOf((a, b))) == frozenset({"a", "b"})
    assert types_for(AnyOf((a, fast))) is None
    assert types_for(Python(bool, looks_back=False)) is None
    assert types_for(None) is None


def test_nodes_know_where_they_stand() -> None:
    text = "v > 5 and (A.v + 1) * 2 < 7"
    expr = parse(text)
    spans = {text[slice(*part.span)] for part in getattr(expr, "parts", ())}
    assert spans == {"v > 5", "(A.v + 1) * 2 < 7"}
    assert parse("v>5") == parse("  v  >  5  ")


def test_in_its_own_condition_the_name_of_a_step_is_the_candidate() -> None:
    expr = parse("B.v > A.v and B.v > last(B.v)")
    own = of_candidate(expr, "B")
    assert own == parse("v > A.v and v > last(B.v)")
    assert isinstance(own, And)
    compare = own.parts[0]
    assert isinstance(compare, Compare)
    assert (compare.left, compare.right) == (Column("v"), StepColumn("A", "v"))
    assert compare.left.span == (0, 3)


# Conditions


def test_conditions_in_python() -> None:
    one = condition(lambda event: event["v"] > 5, "define['A']")
    two = condition(lambda event, bound: event["v"] > len(bound["A"]), "define['A']")
    event = Event("E", 0, {"v": 6})
    assert one.holds(event, {})
    assert two.holds(event, {"A": [Event("B", 0, {"v": 1})]})
    assert (one.reads, two.reads) == (frozenset(), frozenset({"*"}))
    assert condition(lambda event, least=5: event["v"] > least, "where").holds(event, {})


@pytest.mark.parametrize("bad", [5, None, ["v > 5"], lambda: True, lambda a, b, c: a + b + c, dict])
def test_what_is_no_condition(bad: object) -> None:
    with pytest.raises(PatternError, match=r"expected define\['A'\] to be a condition as text"):
        condition(bad, "define['A']")


def test_conditions_together() -> None:
    a, fast = TypeIs("a"), condition("v > 5 or v < B.v", "where")
    wrapped = condition("(v > 5 or v < 2)", "where")
    both, some = AllOf((a, fast)), AnyOf((a, fast))
    assert both.text == "type == 'a' and (v > 5 or v < B.v)"
    assert AllOf((a, wrapped)).text == "type == 'a' and (v > 5 or v < 2)"
    assert AllOf((a, some)).text == "type == 'a' and (type == 'a' or v > 5 or v < B.v)"
    assert both.reads == some.reads == {"B"}
    yes, no, other = (Event(type, 0, {"v": v}) for type, v in (("a", 6), ("b", 3), ("b", 6)))
    assert [both.holds(event, {}) for event in (yes, no, other)] == [True, False, False]
    assert [some.holds(event, {}) for event in (yes, no, other)] == [True, False, True]


def test_conditions_can_be_copied_and_sent() -> None:
    made = AllOf((TypeIs("a"), condition("v > 5", "where")))
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made
        assert again.holds(Event("a", 0, {"v": 6}), {})
