"""The kind of value that an expression has, as far as it is known before the first event.

There are numbers (booleans count as numbers) and text. A payload column may hold either, so its
kind is unknown until events arrive. But `type` is text, `ts` and every sum are numbers, and the
kind of a literal is known. An expression that can never work is an error at once.
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
"""The kinds of arguments that each function takes."""
_COLUMNS: dict[str | None, Kind] = {"type": "text", "ts": "number"}


def kind_of(expr: Expr) -> Kind | None:
    """The kind of its value; None if it depends on the events, and for null, which has any kind."""
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
                    f"expected a column of numbers in {node.function}(), got type, which is text",
                    node.span,
                )


def check_condition(expr: Expr, source: SourceText) -> None:
    """Raise if it cannot be true or false."""
    if kind_of(expr) == "text":
        raise source.error(
            "expected a condition, got text; compare it with something, as in name == 'P7'",
            expr.span,
        )


def _demand(kind: Kind, expr: Expr, where: str, source: SourceText) -> None:
    if kind_of(expr) not in (kind, None):
        got = kind_of(expr)
        raise source.error(f"expected {_a(kind)} {where}, got {_a(got)}", expr.span)


def _a(kind: Kind | None) -> str:
    """The kind as it reads in a sentence."""
    return "a number" if kind == "number" else "text"


def _check_comparison(node: Expr, op: str, sides: tuple[Expr, Expr], source: SourceText) -> None:
    if any(isinstance(side, Literal) and side.value is None for side in sides):
        raise source.error(
            f"expected a value to compare by {op!r}, got null, which never compares as true; "
            "write x is null or x is not null",
            node.span,
        )
    left, right = map(kind_of, sides)
    if left and right and left != right:
        raise source.error(
            f"expected two numbers or two texts for {op!r}, got {_a(left)} and {_a(right)}; "
            "put text in quotes, but not numbers",
            node.span,
        )
