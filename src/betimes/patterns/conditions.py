"""Conditions: what a step requires of an event, as text, as a type, or in Python.

>>> from betimes.model import Event
>>> fast = condition("type == 'position' and v > 5", "define['A']")
>>> fast.holds(Event("position", 0, {"v": 7}), {}), fast.holds(Event("goal", 0), {})
(True, False)
>>> higher = condition("v > last(B.v)", "define['B']")
>>> higher.holds(Event("b", 2, {"v": 7}), {"B": [Event("b", 1, {"v": 9})]}), higher.reads
(False, frozenset({'B'}))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from betimes.model.event import Event
from betimes.patterns.evaluate import Test, truth_of
from betimes.patterns.expressions import parse
from betimes.patterns.kinds import check_condition
from betimes.patterns.source import SourceText
from betimes.patterns.steps import Bound, Condition, PatternError, Python
from betimes.patterns.syntax import Expr, Or, of_candidate, steps_of, types_of


@dataclass(frozen=True)
class Expression:
    """A condition written as text; it does not hold if it is null."""

    expr: Expr
    source: SourceText
    """The text that the expression was parsed from; the spans of its nodes refer to it."""
    _test: Test = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_test", truth_of(self.expr, self.source))

    def __reduce__(self) -> tuple[Any, ...]:
        # The compiled function cannot be pickled; it is built again on the other side.
        return Expression, (self.expr, self.source)

    @property
    def text(self) -> str:
        start, end = self.expr.span
        return self.source.text[start:end]

    @property
    def reads(self) -> frozenset[str]:
        return steps_of(self.expr)

    def holds(self, event: Event, bound: Bound) -> bool:
        return self._test(event, bound) is True


@dataclass(frozen=True)
class TypeIs:
    """The event has a type: what a name in a pattern means unless `define` has it."""

    type: str

    @property
    def text(self) -> str:
        return f"type == {self.type!r}"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

    def holds(self, event: Event, bound: Bound) -> bool:  # noqa: ARG002 - as all conditions
        return event.type == self.type


@dataclass(frozen=True)
class AllOf:
    """All of them hold; they are evaluated in order, and stop at the first that does not."""

    conditions: tuple[Condition, ...]

    @property
    def text(self) -> str:
        return " and ".join(map(_within_and, self.conditions))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(each.reads for each in self.conditions))

    def holds(self, event: Event, bound: Bound) -> bool:
        for each in self.conditions:  # noqa: SIM110 - a generator takes twice the time
            if not each.holds(event, bound):
                return False
        return True


@dataclass(frozen=True)
class AnyOf:
    """At least one holds; they are evaluated in order, and stop at the first that does."""

    conditions: tuple[Condition, ...]

    @property
    def text(self) -> str:
        return " or ".join(each.text for each in self.conditions)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(each.reads for each in self.conditions))

    def holds(self, event: Event, bound: Bound) -> bool:
        for each in self.conditions:  # noqa: SIM110 - a generator takes twice the time
            if each.holds(event, bound):
                return True
        return False


def _within_and(condition: Condition) -> str:
    bare = isinstance(condition, AnyOf)
    if isinstance(condition, Expression) and isinstance(condition.expr, Or):
        # If it already has parentheses, it begins before its first part.
        bare = condition.expr.span[0] == condition.expr.parts[0].span[0]
    return f"({condition.text})" if bare else condition.text


def condition(value: object, what: str, *, of: str | None = None) -> Condition:
    """A condition from a user's input: text, or a function of `(event)` or `(event, bound)`.

    `what` is its name in errors. `of` is the step that it belongs to: if that is B, then `B.v` in
    the text is the candidate's own `v`.
    """
    if isinstance(value, str):
        expr, source = parse(value, what), SourceText(value, what)
        check_condition(expr, source)
        return Expression(expr if of is None else of_candidate(expr, of), source)
    if callable(value):
        parameters = _parameters(value)
        if parameters in (1, 2):
            return Python(value, looks_back=parameters == 2)
    raise PatternError(
        f"expected {what} to be a condition as text, such as \"type == 'position' and v > 5\", or "
        f"a function of (event) or (event, bound), got {what}={value!r}"
    )


def _parameters(function: Callable[..., Any]) -> int | None:
    """How many positional arguments a call needs; None if that cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.default is inspect.Parameter.empty]
    return sum(each.kind in positional for each in needed)


def types_for(condition: Condition | None) -> frozenset[str] | None:
    """The types of events for which a condition can hold; None if it does not restrict them.

    >>> sorted(types_for(AnyOf((TypeIs("A"), condition("type == 'B' and v > 5", "where")))))
    ['A', 'B']
    """
    match condition:
        case TypeIs(type):
            return frozenset({type})
        case Expression(expr):
            return types_of(expr)
        case AllOf(conditions):
            known = [types for each in conditions if (types := types_for(each)) is not None]
            return frozenset.intersection(*known) if known else None
        case AnyOf(conditions):
            known = [types for each in conditions if (types := types_for(each)) is not None]
            return frozenset().union(*known) if len(known) == len(conditions) else None
        case _:
            return None
