"""The syntax tree of an expression: small immutable nodes, and functions that inspect them.

The parser produces few kinds of nodes, so that there is little left to do for the code that runs
them. Alternative spellings are gone: `1 < v <= 5` is `1 < v and v <= 5`; `v between 1 and 5` is
`v >= 1 and v <= 5`; `x not in (1, 2)` is `not x in (1, 2)`; `v is not null` is `not v is null`;
`x in name` is `contains(name, x)`; `2s` is `2000000`. Each node knows its `span` in the source. The
span is ignored in comparisons: two nodes are equal if they mean the same.
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
"""Columns that every event has. They take precedence over payload columns of the same name."""
KEYWORDS = frozenset(
    {"and", "or", "not", "in", "is", "between", "null", "None", "true", "True", "false", "False"}
)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Spanned:
    """Base of all nodes: the span of a node in its source."""

    span: Span = field(default=(0, 0), kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class Literal(Spanned):
    """A number, text, a boolean, or null."""

    value: int | float | str | bool | None


@dataclass(frozen=True)
class Column(Spanned):
    """A column of the candidate, the event being tested; `type` and `ts` are built in."""

    name: str


@dataclass(frozen=True)
class StepColumn(Spanned):
    """`A.v`: a column of the last event bound to a step; null if there is none."""

    step: str
    column: str


@dataclass(frozen=True)
class Aggregate(Spanned):
    """`avg(B.v)`: over all events bound to a step so far. Only `count(B)` has no column."""

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
    """`operand is null`, the only test of a null that is not itself null."""

    operand: Expr


@dataclass(frozen=True)
class Not(Spanned):
    """`not operand`."""

    operand: Expr


@dataclass(frozen=True)
class And(Spanned):
    """`part and part ...`, evaluated from left to right."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True)
class Or(Spanned):
    """`part or part ...`, evaluated from left to right."""

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
    """The child nodes of a node."""
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
    """Every node with its depth, from the top. Works at any depth, as it does not recurse."""
    waiting = [(expr, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in reversed(children(node)))


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """A copy in which `change` has replaced each node, from the bottom up."""
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
    """The payload columns of the candidate that it reads, so not `type` and `ts`."""
    names = {node.name for node, _ in walk(expr) if isinstance(node, Column)}
    return frozenset(names - BUILT_IN)


def steps_of(expr: Expr) -> frozenset[str]:
    """The names of the steps whose bound events it reads."""
    return frozenset(
        node.step for node, _ in walk(expr) if isinstance(node, StepColumn | Aggregate)
    )


def types_of(expr: Expr) -> frozenset[str] | None:
    """The event types for which it can hold; None if it does not restrict them.

    Considers only `type == 'x'` and `type in ('x', 'y')`, alone or under `and` and `or`.
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
    """The conditions that must all hold: the parts of an `and`, including nested ones."""
    if not isinstance(expr, And):
        return (expr,)
    return tuple(each for part in expr.parts for each in conjuncts(part))


def written(name: str) -> str:
    """A name as written in an expression or a pattern: in backticks unless it is plain.

    >>> written("v"), written("heart rate"), written("in")
    ('v', '`heart rate`', '`in`')
    """
    if _PLAIN_NAME.fullmatch(name) and name not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def of_candidate(expr: Expr, step: str) -> Expr:
    """The expression as the condition of step B, in which `B.v` is the candidate's own `v`.

    Aggregates stay the same, because they refer to the events bound before.
    """

    def change(node: Expr) -> Expr:
        if isinstance(node, StepColumn) and node.step == step:
            return Column(node.column, span=node.span)
        return node

    return transform(expr, change)
