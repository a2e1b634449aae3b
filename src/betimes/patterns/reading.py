"""Reading columns of events, the kinds of their values, and the errors if these are wrong."""

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

    It converts NaN and NumPy numbers, so that no other code has to deal with them.
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
    # An array compared with itself gives an array, not true or false.
    return found.tolist() if isinstance(found, np.generic | np.ndarray) else found


def kind(found: Any) -> str:
    """The kind of a value: number, text, or the name of its Python type.

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
        f"columns {sorted(event.payload)}; if only some types have it, test the type first, as in "
        "type == 'x' and v > 5",
        expr.span,
        "evaluate",
    )


def mismatch(
    expr: Expr, source: SourceText, op: str, pair: tuple[Any, ...], event: Event
) -> PatternError:
    """The error for values that cannot be combined."""
    numbers_only = op in ("+", "-", "*", "/", "//", "%", "sum", "avg")
    wanted = "numbers" if numbers_only else "only numbers or only text"
    return unfit(expr, source, f"{wanted} for {op!r}", pair, event)


def unfit(
    expr: Expr, source: SourceText, expected: str, found: tuple[Any, ...], event: Event
) -> PatternError:
    """The error for values that are not what a part of an expression needs."""
    kinds = ("text" if kind(each) == "text" else f"a {kind(each)}" for each in found)
    got = " and ".join(f"{each!r} ({of})" for each, of in zip(found, kinds, strict=True))
    return source.error(f"expected {expected}, got {got}, at {event}", expr.span, "evaluate")
