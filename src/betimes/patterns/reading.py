"""Reading columns of events, the kinds of what is found there, and what is said if it is wrong."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from betimes.model.event import Event
from betimes.patterns.source import SourceText
from betimes.patterns.steps import PatternError
from betimes.patterns.syntax import Expr

Read = Callable[[Event], Any]

_PLAIN = frozenset({int, float, str, bool, type(None)})
_KINDS: dict[type, str] = {int: "number", float: "number", bool: "number", str: "text"}


def reader(name: str, expr: Expr, source: SourceText) -> Read:
    """A function that reads a column of an event: a plain value, or None for null.

    NaN, and the numbers of NumPy, end here, so that nobody else has to think of them.
    """
    if name == "type":
        return lambda event: event.type
    if name == "ts":
        return lambda event: event.ts

    def read(event: Event) -> Any:
        try:
            found = event.payload[name]
        except KeyError:
            raise missing(name, expr, source, event) from None
        if type(found) not in _PLAIN:
            found = _plain(found)
        return found if found == found else None

    return read


def _plain(found: Any) -> Any:
    # An array compared with itself is not true or false but a row of answers.
    return found.tolist() if isinstance(found, np.generic | np.ndarray) else found


def kind(found: Any) -> str:
    """What kind of value it is: number, text, or what Python calls its type.

    >>> kind(True), kind("P7"), kind([1, 2])
    ('number', 'text', 'list')
    """
    known = _KINDS.get(type(found))
    if known is not None:
        return known
    if isinstance(found, numbers.Number):
        return "number"
    return "text" if isinstance(found, str) else type(found).__name__


def missing(name: str, expr: Expr, source: SourceText, event: Event) -> PatternError:
    """The error for an event without a column."""
    return source.error(
        f"expected an event with a column {name!r}, got {event.type!r} at {event.ts} with the "
        f"columns {sorted(event.payload)}; if only some types have it, test that first, as in "
        "type == 'x' and v > 5",
        expr.span,
        "evaluate",
    )


def mismatch(
    expr: Expr, source: SourceText, op: str, pair: tuple[Any, ...], event: Event
) -> PatternError:
    """The error for values that do not go together."""
    numbers_only = op in ("+", "-", "*", "/", "//", "%", "sum", "avg")
    wanted = "numbers" if numbers_only else "numbers only or texts only"
    return unfit(expr, source, f"{wanted} for {op!r}", pair, event)


def unfit(
    expr: Expr, source: SourceText, expected: str, found: tuple[Any, ...], event: Event
) -> PatternError:
    """The error for values that are not what a part of an expression needs."""
    got = " and ".join(f"{each!r} (a {kind(each)})" for each in found)
    return source.error(f"expected {expected}, got {got}, at {event}", expr.span, "evaluate")
