"""The parts of an expression: small immutable nodes, and questions that can be asked of them.

The parser leaves few kinds of nodes, so that whoever turns them into something that runs has
little to do. What is only another way to write something is gone: `1 < v <= 5` is
`1 < v and v <= 5`; `v between 1 and 5` is `v >= 1 and v <= 5`; `x not in (1, 2)` is
`not x in (1, 2)`; `v is not null` is `not v is null`; `x in name` is `contains(name, x)`; `2s` is
`2000000`. Each node knows its `span` in the source. It takes no part in comparing: two nodes are
equal if they mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal as Choice

from betimes.patterns.source import Span

AggregateName = Choice["first", "last", "sum", "avg", "min", "max", "count"]
AGGREGATES: tuple[AggregateName, ...] = ("first", "last", "sum", "avg", "min", "max", "count")
FUNCTIONS = ("startswith", "endswith", "contains", "abs", "lower", "upper", "len")
BUILT_IN = frozenset({"type", "ts"})
"""Columns that every event has. They win over columns of the payload with these names."""
KEYWORDS = frozenset(
    {"and", "or", "not", "in", "is", "between", "null", "None", "true", "True", "false", "False"}
)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Spanned:
    """What all nodes have."""

    span: Span = field(default=(0, 0), kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class Literal(Spanned):
    """A number, a text, a truth value, or null."""

    value: int | float | str | bool | None


@dataclass(frozen=True)
class Column(Spanned):
    """A column of the candidate, the event that is looked at; `type` and `ts` are built in."""

    name: str


@dataclass(frozen=True)
class StepColumn(Spanned):
    """`A.v`: a column of the event bound last to a step; null if there is none."""

    step: str
    column: str


@dataclass(frozen=True)
class Aggregate(Spanned):
    """`avg(B.v)`: over all events bound to a step so far. Without a column only in `count(B)`."""

    function: AggregateName
    step: str
    column: str | None


@dataclass(frozen=True)
class Call(Spanned):
    """`startswith(name, 'P')`: one of `FUNCTIONS`."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class Negative(Spanned):
    """`-v`."""

    operand: Expr


@dataclass(frozen=True)
class Arithmetic(Spanned):
    """`left op right`."""

    op: Choice["+", "-", "*", "/", "//", "%"]
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Compare(Spanned):
    """`left op right`."""

    op: Choice["==", "!=", "<", "<=", ">", ">="]
    left: Expr
    right: Expr


@dataclass(frozen=True)
class In(Spanned):
    """`item in (option, ...)`."""

    item: Expr
    options: tuple[Expr, ...]


@dataclass(frozen=True)
class IsNull(Spanned):
    """`operand is null`, the only test that a null does not turn into null."""

    operand: Expr


@dataclass(frozen=True)
class Not(Spanned):
    """`not operand`."""

    operand: Expr


@dataclass(frozen=True)
class And(Spanned):
    """`part and part ...`, decided from left to right."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True)
class Or(Spanned):
    """`part or part ...`, decided from left to right."""

    parts: tuple[Expr, ...]


Expr = (
    Literal
    | Column
    | StepColumn
    | Aggregate
    | Call
    | Negative
    | Arithmetic
    | Compare
    | In
    | IsNull
    | Not
    | And
    | Or
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The nodes directly below."""
    match expr:
        case Arithmetic() | Compare():
            return (expr.left, expr.right)
        case And() | Or():
            return expr.parts
        case Negative() | Not() | IsNull():
            return (expr.operand,)
        case Call():
            return expr.arguments
        case In():
            return (expr.item, *expr.options)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[tuple[Expr, int]]:
    """Every node with its depth, the top first. Any depth will do: it does not recur."""
    waiting = [(expr, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in reversed(children(node)))


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """A copy in which each node, lowest first, is what `change` makes of it."""
    match expr:
        case Arithmetic() | Compare():
            left, right = transform(expr.left, change), transform(expr.right, change)
            return change(replace(expr, left=left, right=right))
        case And() | Or():
            parts = tuple(transform(part, change) for part in expr.parts)
            return change(replace(expr, parts=parts))
        case Negative() | Not() | IsNull():
            return change(replace(expr, operand=transform(expr.operand, change)))
        case Call():
            arguments = tuple(transform(argument, change) for argument in expr.arguments)
            return change(replace(expr, arguments=arguments))
        case In():
            options = tuple(transform(option, change) for option in expr.options)
            return change(replace(expr, item=transform(expr.item, change), options=options))
        case _:
            return change(expr)


def columns_of(expr: Expr) -> frozenset[str]:
    """The candidate's own payload columns that are read; `type` and `ts` are not in the payload."""
    names = {node.name for node, _ in walk(expr) if isinstance(node, Column)}
    return frozenset(names - BUILT_IN)


def steps_of(expr: Expr) -> frozenset[str]:
    """The names of the steps whose bound events are read."""
    return frozenset(
        node.step for node, _ in walk(expr) if isinstance(node, StepColumn | Aggregate)
    )


def types_of(expr: Expr) -> frozenset[str] | None:
    """The event types for which it can hold; None if it does not say, so any.

    It looks only at `type == 'x'` and `type in ('x', 'y')`, alone or under `and` and `or`.
    """
    match expr:
        case And():
            known = [types for part in expr.parts if (types := types_of(part)) is not None]
            return frozenset.intersection(*known) if known else None
        case Or():
            known = [types for part in expr.parts if (types := types_of(part)) is not None]
            return frozenset().union(*known) if len(known) == len(expr.parts) else None
        case Compare("==", Column("type"), Literal(str(type))):
            return frozenset({type})
        case Compare("==", Literal(str(type)), Column("type")):
            return frozenset({type})
        case In(Column("type"), options):
            values = [option.value for option in options if isinstance(option, Literal)]
            texts = frozenset(value for value in values if isinstance(value, str))
            return texts if len(values) == len(options) else None
        case _:
            return None


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """What must hold, each by itself: the parts of an `and`, and of those within it."""
    if not isinstance(expr, And):
        return (expr,)
    return tuple(each for part in expr.parts for each in conjuncts(part))


def written(name: str) -> str:
    """A name as it is written in an expression or a pattern: in backticks if it is not plain.

    >>> written("v"), written("heart rate"), written("in")
    ('v', '`heart rate`', '`in`')
    """
    if _PLAIN_NAME.fullmatch(name) and name not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def of_candidate(expr: Expr, step: str) -> Expr:
    """The expression as the condition of a step: `B.v` is then the candidate's own `v`.

    Aggregates stay as they are, they are about the events bound before.
    """

    def change(node: Expr) -> Expr:
        if isinstance(node, StepColumn) and node.step == step:
            return Column(node.column, span=node.span)
        return node

    return transform(expr, change)
