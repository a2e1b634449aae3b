"""From an expression to a Python function: nested closures, built once.

Each node becomes a function of the candidate and of what is bound so far. It returns the value;
None is null. The fast path assumes that columns hold what they should. Anything unusual about a
value is found on a second, slower path.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from betimes.model.event import Event
from betimes.patterns.reading import Read, kind, mismatch, reader, unfit
from betimes.patterns.source import SourceText
from betimes.patterns.steps import Bound
from betimes.patterns.syntax import (
    Aggregate,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Negative,
    Not,
    Or,
    StepColumn,
)

Run = Callable[[Event, Bound], Any]
Test = Callable[[Event, Bound], bool | None]

_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "startswith": ("text", str.startswith),
    "endswith": ("text", str.endswith),
    "contains": ("text", str.__contains__),
    "abs": ("number", abs),
    "lower": ("text", str.lower),
    "upper": ("text", str.upper),
    "len": ("text", len),
}


def value_of(expr: Expr, source: SourceText) -> Run:
    """A function that returns the value of an expression.

    >>> from betimes.patterns.expressions import parse
    >>> text = "2 * v + sum(B.v)"
    >>> run = value_of(parse(text), SourceText(text, "where"))
    >>> run(Event("C", 3, {"v": 5}), {"B": [Event("B", 1, {"v": 1}), Event("B", 2, {"v": 2})]})
    13
    """
    match expr:
        case Literal(constant):
            return lambda _event, _bound: constant
        case Column(name):
            return _of_candidate(reader(name, expr, source))
        case StepColumn(step, column):
            return _of_step(step, -1, reader(column, expr, source))
        case Aggregate():
            return _aggregate(expr, source)
        case Negative(operand):
            return _negative(expr, value_of(operand, source), source)
        case Arithmetic(op, left, right):
            return _arithmetic(expr, op, value_of(left, source), value_of(right, source), source)
        case Call(_, arguments):
            return _call(expr, [value_of(argument, source) for argument in arguments], source)
        case _:
            return truth_of(expr, source)


def truth_of(expr: Expr, source: SourceText) -> Test:
    """A function that returns whether an expression holds: True, False, or None for null."""
    match expr:
        case Compare():
            return _compare(expr, source)
        case And(parts):
            return _and([truth_of(part, source) for part in parts])
        case Or(parts):
            return _or([truth_of(part, source) for part in parts])
        case Not(operand):
            return _not(truth_of(operand, source))
        case IsNull(operand):
            return _is_null(value_of(operand, source))
        case In():
            return _in(expr, source)
        case _:
            return _as_truth(expr, value_of(expr, source), source)


# Reading


def _of_candidate(read: Read) -> Run:
    return lambda event, _bound: read(event)


def _of_step(step: str, place: int, read: Read) -> Run:
    def at(_event: Event, bound: Bound) -> Any:
        events = bound.get(step)
        return read(events[place]) if events else None

    return at


# Conditions


def _compare(expr: Compare, source: SourceText) -> Test:
    left, right = value_of(expr.left, source), value_of(expr.right, source)
    test, op = _TESTS[expr.op], expr.op

    def compare(event: Event, bound: Bound) -> bool | None:
        a, b = left(event, bound), right(event, bound)
        if a is None or b is None:
            return None
        if type(a) is not type(b) and kind(a) != kind(b):
            raise mismatch(expr, source, op, (a, b), event)
        try:
            return test(a, b)
        except TypeError:
            raise mismatch(expr, source, op, (a, b), event) from None

    match expr.left, expr.right:
        case Column("type"), Literal(constant) if op == "==":
            return lambda event, _bound: event.type == constant
        case Column(name), Literal(constant) if name != "ts" and name != "type":
            return _compare_with_constant(name, test, constant, compare)
        case _:
            return compare


def _compare_with_constant(
    name: str, test: Callable[[Any, Any], bool], constant: Any, compare: Test
) -> Test:
    """A fast path for the most frequent condition; anything unusual is left to `compare`."""
    types = (str,) if isinstance(constant, str) else (int, float)

    def quick(event: Event, bound: Bound) -> bool | None:
        found = event.payload.get(name)
        if type(found) in types and found == found:
            return test(found, constant)
        return compare(event, bound)

    return quick


def _in(expr: In, source: SourceText) -> Test:
    item = value_of(expr.item, source)
    options = [value_of(option, source) for option in expr.options]

    def member(event: Event, bound: Bound) -> bool | None:
        a = item(event, bound)
        answer: bool | None = False
        for option in options:
            b = option(event, bound)
            if a is None or b is None:
                answer = None
            elif type(a) is not type(b) and kind(a) != kind(b):
                raise mismatch(expr, source, "in", (a, b), event)
            elif a == b:
                return True
        return answer

    constants = [option.value for option in expr.options if isinstance(option, Literal)]
    types = set(map(type, constants))
    if len(constants) < len(options) or len(types) > 1:
        return member
    known, only = frozenset(constants), types.pop()

    def quick(event: Event, bound: Bound) -> bool | None:
        a = item(event, bound)
        return a in known if type(a) is only else member(event, bound)

    return quick


def _and(parts: list[Test]) -> Test:
    def every(event: Event, bound: Bound) -> bool | None:
        answer: bool | None = True
        for part in parts:
            holds = part(event, bound)
            if holds is None:
                answer = None
            elif not holds:
                return False
        return answer

    return every


def _or(parts: list[Test]) -> Test:
    def some(event: Event, bound: Bound) -> bool | None:
        answer: bool | None = False
        for part in parts:
            holds = part(event, bound)
            if holds:
                return True
            if holds is None:
                answer = None
        return answer

    return some


def _not(operand: Test) -> Test:
    def inverse(event: Event, bound: Bound) -> bool | None:
        holds = operand(event, bound)
        return None if holds is None else not holds

    return inverse


def _is_null(operand: Run) -> Test:
    return lambda event, bound: operand(event, bound) is None


def _as_truth(expr: Expr, run: Run, source: SourceText) -> Test:
    def holds(event: Event, bound: Bound) -> bool | None:
        found = run(event, bound)
        if found is None:
            return None
        if kind(found) != "number":
            raise unfit(expr, source, "a condition, so a truth value or a number", (found,), event)
        return bool(found)

    return holds


# Numbers and texts


def _negative(expr: Negative, operand: Run, source: SourceText) -> Run:
    def negative(event: Event, bound: Bound) -> Any:
        found = operand(event, bound)
        if found is None:
            return None
        if kind(found) != "number":
            raise unfit(expr, source, "a number after '-'", (found,), event)
        return -found

    return negative


def _arithmetic(expr: Expr, op: str, left: Run, right: Run, source: SourceText) -> Run:
    operation = _OPERATIONS[op]

    def calculate(event: Event, bound: Bound) -> Any:
        a, b = left(event, bound), right(event, bound)
        if a is None or b is None:
            return None
        if kind(a) != "number" or kind(b) != "number":
            raise mismatch(expr, source, op, (a, b), event)
        try:
            result = operation(a, b)
        except ZeroDivisionError:
            return None
        except (TypeError, ArithmeticError):
            raise mismatch(expr, source, op, (a, b), event) from None
        return result if result == result else None

    return calculate


def _call(expr: Call, arguments: list[Run], source: SourceText) -> Run:
    wanted, function = _FUNCTIONS[expr.function]

    def call(event: Event, bound: Bound) -> Any:
        values = [argument(event, bound) for argument in arguments]
        if None in values:
            return None
        for found in values:
            if kind(found) != wanted:
                needed = "text" if wanted == "text" else f"a {wanted}"
                raise unfit(expr, source, f"{needed} in {expr.function}()", (found,), event)
        return function(*values)

    return call


# Aggregates


def _aggregate(expr: Aggregate, source: SourceText) -> Run:
    step, function = expr.step, expr.function
    if expr.column is None:
        return lambda _event, bound: len(bound.get(step, ()))
    read = reader(expr.column, expr, source)
    if function in ("first", "last"):
        return _of_step(step, 0 if function == "first" else -1, read)

    summary = _SUMMARIES[function]

    def over(event: Event, bound: Bound) -> Any:
        found = [read(each) for each in bound.get(step, ())]
        known = [each for each in found if each is not None]
        for each in known:
            if kind(each) != ("number" if function in ("sum", "avg") else kind(known[0])):
                raise mismatch(expr, source, function, (known[0], each), event)
        try:
            result = summary(known)
        except (TypeError, ArithmeticError):
            raise mismatch(expr, source, function, tuple(known[:2]), event) from None
        return result if result == result else None

    return over


def _sum(found: list[Any]) -> Any:
    # Not Python's `sum`, which rounds floats differently from 3.12 on.
    total: Any = 0
    for each in found:
        total += each
    return total


_SUMMARIES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _sum,
    "avg": lambda found: _sum(found) / len(found) if found else None,
    "min": lambda found: min(found, default=None),
    "max": lambda found: max(found, default=None),
    "count": len,
}
"""Of the values that are not null."""
