"""Random expressions, how they are written, and what they mean, as short as it can be said."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st

from betimes.model import Event
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
    written,
)

COLUMNS = ("v", "w", "s")
NUMBERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([0.5, -0.0, 2.0, 1e-07, 1e16]), st.booleans()
)
TEXTS = st.sampled_from(["", "a", "ab", "it's", 'say "a"', "back\\slash", "\n\t", "`", "é"])
NAMES = st.sampled_from([*COLUMNS, "type", "ts"])
STEPS = st.sampled_from(["A", "B", "my `step`", "and"])
NUMBER_COLUMNS = st.sampled_from([*COLUMNS, "ts"])


def _columns(names: st.SearchStrategy[str]) -> st.SearchStrategy[Expr]:
    return st.one_of(st.builds(Column, names), st.builds(StepColumn, STEPS, names))


def _numbers(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    signed = inner.filter(lambda each: not isinstance(each, Literal))
    sign = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    return st.one_of(
        st.builds(Negative, signed),
        st.builds(Arithmetic, sign, inner, inner),
        st.builds(Call, st.just("abs"), st.tuples(inner)),
    )


number = st.recursive(
    st.one_of(
        st.builds(Literal, NUMBERS),
        _columns(NUMBER_COLUMNS),
        st.builds(
            Aggregate,
            st.sampled_from(["first", "last", "sum", "avg", "min", "max", "count"]),
            STEPS,
            NUMBER_COLUMNS,
        ),
        st.builds(Aggregate, st.just("count"), STEPS, st.none()),
    ),
    _numbers,
    max_leaves=4,
)
text = st.one_of(
    st.builds(Literal, TEXTS),
    _columns(st.sampled_from([*COLUMNS, "type"])),
    st.builds(Call, st.just("lower"), st.tuples(_columns(st.just("s")))),
)
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def _conditions(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Not, inner),
        st.builds(And, parts),
        st.builds(Or, parts),
        st.builds(Compare, SIGNS, inner, number),
        st.builds(IsNull, inner),
    )


conditions = st.recursive(
    st.one_of(
        number.filter(lambda each: not isinstance(each, Literal)),
        st.builds(Compare, SIGNS, number, number),
        st.builds(Compare, SIGNS, text, text),
        st.builds(In, number, st.lists(number, min_size=1, max_size=3).map(tuple)),
        st.builds(In, text, st.lists(text, min_size=1, max_size=3).map(tuple)),
        st.builds(IsNull, st.one_of(number, text)),
        st.builds(Call, st.sampled_from(["startswith", "contains"]), st.tuples(text, text)),
    ),
    _conditions,
    max_leaves=6,
)

_LEVELS = {"+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6}


def unparse(expr: Expr, level: int = 0) -> str:
    """As one would write it, with no more parentheses than necessary."""
    text, own = _written(expr)
    return f"({text})" if own < level else text


def _written(expr: Expr) -> tuple[str, int]:
    match expr:
        case Literal(str(constant)):
            quoted = constant.replace("\\", "\\\\").replace("'", "\\'")
            return "'" + quoted.replace("\n", "\\n").replace("\t", "\\t") + "'", 8
        case Literal(constant):
            return repr(constant), 8
        case Column(name):
            return written(name), 8
        case StepColumn(step, column):
            return f"{written(step)}.{written(column)}", 8
        case Aggregate(function, step, column):
            of = "" if column is None else f".{written(column)}"
            return f"{function}({written(step)}{of})", 8
        case Call(function, arguments):
            return f"{function}({', '.join(map(unparse, arguments))})", 8
        case Negative(operand):
            return "-" + unparse(operand, 7), 7
        case Arithmetic(op, left, right):
            own = _LEVELS[op]
            return f"{unparse(left, own)} {op} {unparse(right, own + 1)}", own
        case Compare(op, left, right):
            return f"{unparse(left, 5)} {op} {unparse(right, 5)}", 4
        case In(item, options):
            return f"{unparse(item, 5)} in ({', '.join(map(unparse, options))})", 4
        case IsNull(operand):
            return f"{unparse(operand, 5)} is null", 4
        case Not(operand):
            return f"not {unparse(operand, 3)}", 3
        case And(parts):
            return " and ".join(unparse(part, 3) for part in parts), 2
        case Or(parts):
            return " or ".join(unparse(part, 2) for part in parts), 1


class WrongError(Exception):
    """What the plain interpreter raises."""


def plain(expr: Expr, event: Event, bound: Bound) -> Any:
    """The meaning of an expression."""

    def run(each: Expr) -> Any:
        return plain(each, event, bound)

    def holds(each: Expr) -> bool | None:
        found = run(each)
        return None if found is None else bool(_demand("number", found))

    match expr:
        case Literal(constant):
            return constant
        case Column(name):
            return _read(event, name)
        case StepColumn(step, column):
            return _read(bound[step][-1], column) if bound.get(step) else None
        case Aggregate(_, step, None):
            return len(bound.get(step, ()))
        case Aggregate(function, step, str(column)):
            return _aggregate(function, bound.get(step, ()), column)
        case Call(function, arguments):
            values = [run(argument) for argument in arguments]
            if None in values:
                return None
            kind = "number" if function == "abs" else "text"
            return _CALLS[function](*(_demand(kind, each) for each in values))
        case Negative(operand):
            found = run(operand)
            return None if found is None else -_demand("number", found)
        case Arithmetic(op, left, right):
            return _calculate(_OPERATIONS[op], run(left), run(right))
        case Compare(op, left, right):
            return _compare(_TESTS[op], run(left), run(right))
        case In(item, options):
            wanted = run(item)
            return _decide((_compare(operator.eq, wanted, run(o)) for o in options), stop=True)
        case IsNull(operand):
            return run(operand) is None
        case Not(operand):
            found = holds(operand)
            return None if found is None else not found
        case And(parts):
            return _decide(map(holds, parts), stop=False)
        case Or(parts):
            return _decide(map(holds, parts), stop=True)
    raise NotImplementedError(expr)


def _decide(answers: Iterable[bool | None], stop: bool) -> bool | None:
    seen = []
    for answer in answers:
        seen.append(answer)
        if answer is stop:
            return stop
    return None if None in seen else not stop


def _read(event: Event, name: str) -> Any:
    if name in ("type", "ts"):
        return getattr(event, name)
    if name not in event.payload:
        raise WrongError
    return _known(event.payload[name])


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "number"


def _demand(kind: str, value: Any) -> Any:
    if _kind(value) != kind:
        raise WrongError
    return value


def _compare(test: Callable[[Any, Any], bool], a: Any, b: Any) -> bool | None:
    if a is None or b is None:
        return None
    return test(a, _demand(_kind(a), b))


def _calculate(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    try:
        return _known(operation(_demand("number", a), _demand("number", b)))
    except ZeroDivisionError:
        return None


def _aggregate(function: str, events: Iterable[Event], column: str) -> Any:
    events = list(events)
    if function in ("first", "last"):
        return _read(events[0 if function == "first" else -1], column) if events else None
    values = [value for event in events if (value := _read(event, column)) is not None]
    for value in values:
        if function != "count":
            _demand("number" if function in ("sum", "avg") else _kind(values[0]), value)
    if function == "count":
        return len(values)
    if function == "sum":
        return _total(values)
    if not values:
        return None
    return _total(values) / len(values) if function == "avg" else _CALLS[function](values)


def _total(values: list[Any]) -> Any:
    total = 0
    for value in values:
        total += value
    return total


_CALLS: dict[str, Callable[..., Any]] = {
    "startswith": str.startswith,
    "contains": lambda text, part: part in text,
    "lower": str.lower,
    "abs": abs,
    "min": min,
    "max": max,
}
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
