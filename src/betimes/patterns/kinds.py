"""Which kind of value an expression has, as far as that is known before any event has come.

There are numbers (truth values count as such) and texts. A column of the payload may hold either,
so its kind is unknown until then; but `type` is a text, `ts` and every sum are numbers, and a
literal is what it is. What cannot work whatever comes is an error at once.
"""

from __future__ import annotations

from typing import Literal as Choice

from betimes.patterns.source import SourceText
from betimes.patterns.syntax import (
    Aggregate,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expr,
    In,
    Literal,
    Negative,
    Not,
    Or,
    StepColumn,
    walk,
)

Kind = Choice["number", "text"]

ARGUMENTS: dict[str, tuple[Kind, ...]] = {
    "startswith": ("text", "text"),
    "endswith": ("text", "text"),
    "contains": ("text", "text"),
    "abs": ("number",),
    "lower": ("text",),
    "upper": ("text",),
    "len": ("text",),
}
"""What each function takes."""
_COLUMNS: dict[str | None, Kind] = {"type": "text", "ts": "number"}


def kind_of(expr: Expr) -> Kind | None:
    """The kind of its value; None if events decide that, and for null, which is of any kind."""
    match expr:
        case Literal(None):
            return None
        case Literal(value):
            return "text" if isinstance(value, str) else "number"
        case Column(name) | StepColumn(_, name):
            return _COLUMNS.get(name)
        case Aggregate("sum" | "avg" | "count"):
            return "number"
        case Aggregate(_, _, column):
            return _COLUMNS.get(column)
        case Call("lower" | "upper"):
            return "text"
        case _:
            return "number"


def check_kinds(expr: Expr, source: SourceText) -> None:
    """Raise at the first part that mixes kinds."""
    for node, _ in walk(expr):
        match node:
            case Arithmetic(op, left, right):
                _demand("number", left, f"on both sides of {op!r}", source)
                _demand("number", right, f"on both sides of {op!r}", source)
            case Negative(operand):
                _demand("number", operand, "after '-'", source)
            case Compare(op, left, right):
                _check_comparison(node, op, (left, right), source)
            case In(item, options):
                for option in options:
                    _check_comparison(option, "in", (item, option), source)
            case Call(function, arguments):
                for argument, kind in zip(arguments, ARGUMENTS[function], strict=True):
                    _demand(kind, argument, f"in {function}()", source)
            case And(parts) | Or(parts):
                for part in parts:
                    check_condition(part, source)
            case Not(operand):
                check_condition(operand, source)
            case Aggregate("sum" | "avg", _, "type"):
                raise source.error(
                    f"expected a column of numbers in {node.function}(), got type, which is a text",
                    node.span,
                )


def check_condition(expr: Expr, source: SourceText) -> None:
    """Raise if it cannot be true or false."""
    if kind_of(expr) == "text":
        raise source.error(
            "expected a condition, got a text; compare it with something, as in name == 'P7'",
            expr.span,
        )


def _demand(kind: Kind, expr: Expr, where: str, source: SourceText) -> None:
    if kind_of(expr) not in (kind, None):
        raise source.error(f"expected a {kind} {where}, got a {kind_of(expr)}", expr.span)


def _check_comparison(node: Expr, op: str, sides: tuple[Expr, Expr], source: SourceText) -> None:
    if any(isinstance(side, Literal) and side.value is None for side in sides):
        raise source.error(
            f"a comparison with null never holds, so {op!r} makes no sense here; "
            "write x is null or x is not null",
            node.span,
        )
    left, right = map(kind_of, sides)
    if left and right and left != right:
        raise source.error(
            f"expected two numbers or two texts for {op!r}, got a {left} and a {right}; "
            "text stands in quotes, numbers do not",
            node.span,
        )
