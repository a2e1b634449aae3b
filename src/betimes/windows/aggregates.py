"""Aggregates of windows, written in the expression language of patterns.

    bt.aggregate(mean="avg(v)", n="count()", p99="quantile(v, 0.99)")

Each is one function of one expression, which is evaluated for each event: `avg(a * b)`. As
everywhere in the language, nulls are ignored; `first` and `last` return the value of that event.
`count()` counts events, `count(v)` those where v is not null. `sum` and `count` of nothing are 0,
the others null.

They are incremental: an event is added to what a window knows, and forgotten. Only `quantile` keeps
values.
"""

from __future__ import annotations

import math
import re
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from betimes.model.errors import OptionError
from betimes.model.event import Event
from betimes.model.hints import did_you_mean
from betimes.patterns.evaluate import value_of
from betimes.patterns.expressions import parse
from betimes.patterns.source import SourceText
from betimes.patterns.syntax import steps_of

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_QUANTILE = re.compile(r"(.*),\s*(\d+\.?\d*|\.\d+)\s*", re.DOTALL)

State = list[Any]
"""What an aggregate knows of a window; plain data."""


def _add(state: State, value: Any) -> None:
    if value is not None:
        state[0] += value


def _add_and_count(state: State, value: Any) -> None:
    if value is not None:
        state[0] += value
        state[1] += 1


def _count(state: State, value: Any) -> None:
    if value is not None:
        state[0] += 1


def _least(state: State, value: Any) -> None:
    if value is not None and (state[0] is None or value < state[0]):
        state[0] = value


def _most(state: State, value: Any) -> None:
    if value is not None and (state[0] is None or value > state[0]):
        state[0] = value


def _first(state: State, value: Any) -> None:
    if not state[1]:
        state[:] = [value, True]


def _last(state: State, value: Any) -> None:
    state[0] = value


def _insert(state: State, value: Any) -> None:
    if value is not None:
        if not isinstance(value, int | float):
            raise TypeError(f"a quantile is of numbers, not of {value!r}")
        insort(state, value)


def _only(state: State, _share: float) -> Any:
    return state[0]


def _mean(state: State, _share: float) -> Any:
    if not state[1]:
        return None
    try:
        return state[0] / state[1]
    except OverflowError:  # an integer that no float can hold
        return math.inf if state[0] > 0 else -math.inf


def _quantile(state: State, share: float) -> Any:
    """Linear between the two nearest values, as in NumPy and polars."""
    if not state:
        return None
    at = share * (len(state) - 1)
    low = int(at)
    high = min(low + 1, len(state) - 1)
    try:
        return state[low] + (state[high] - state[low]) * (at - low)
    except OverflowError:
        return math.inf if state[low] > 0 else -math.inf


_FUNCTIONS: dict[str, tuple[State, Callable[[State, Any], None], Callable[[State, float], Any]]] = {
    "sum": ([0], _add, _only),
    "avg": ([0, 0], _add_and_count, _mean),
    "count": ([0], _count, _only),
    "min": ([None], _least, _only),
    "max": ([None], _most, _only),
    "first": ([None, False], _first, _only),
    "last": ([None], _last, _only),
    "quantile": ([], _insert, _quantile),
}
"""What each knows at first, how it takes a value, and what it gives."""


@dataclass(frozen=True)
class Column:
    """One aggregate: a function of an expression."""

    name: str
    text: str
    function: str
    expression: str | None
    """None counts events."""
    share: float = 0.0
    """Which quantile."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self.name, self.text, self.function, self.expression, self.share)

    @cached_property
    def value(self) -> Callable[[Event], Any]:
        """What it takes of an event."""
        if self.expression is None:
            return lambda _event: True
        run = value_of(parse(self.expression, self.name), SourceText(self.expression, self.name))
        return lambda event: run(event, {})

    def begin(self) -> State:
        return list(_FUNCTIONS[self.function][0])

    def take(self, state: State, value: Any) -> None:
        _FUNCTIONS[self.function][1](state, value)

    def result(self, state: State) -> Any:
        return _FUNCTIONS[self.function][2](state, self.share)


@dataclass(frozen=True)
class Aggregate:
    """What `aggregate` returns: columns of a window's result."""

    columns: tuple[Column, ...]
    texts: dict[str, str] = field(hash=False, default_factory=dict)

    def facts(self) -> dict[str, str]:
        return dict(self.texts)


def aggregate(**columns: str) -> Aggregate:
    """Aggregates of a window, by the names that they have in its result.

    The functions are `avg`, `count`, `first`, `last`, `max`, `min`, `quantile(x, share)` and `sum`.

    >>> [column.function for column in aggregate(n="count()", p99="quantile(v, 0.99)").columns]
    ['count', 'quantile']
    >>> aggregate(mean="average(v)")
    Traceback (most recent call last):
    ...
    betimes.model.errors.OptionError: expected an aggregate such as "avg(v)", got mean='average(v)\
'; the functions are avg, count, first, last, max, min, quantile, sum; did you mean 'avg'?
    """
    if not columns:
        raise OptionError('expected aggregates by name, as in aggregate(mean="avg(v)"), got none')
    return Aggregate(tuple(_column(name, text) for name, text in columns.items()), columns)


def _column(name: str, text: object) -> Column:
    if name.startswith("window."):
        raise OptionError(
            f"expected another name for the aggregate {name!r}: windows themselves have columns "
            "that begin with 'window.'"
        )
    call = _CALL.fullmatch(text) if isinstance(text, str) else None
    if not isinstance(text, str) or call is None or call[1] not in _FUNCTIONS:
        raise OptionError(
            f'expected an aggregate such as "avg(v)", got {name}={text!r}; the functions are '
            f"{', '.join(sorted(_FUNCTIONS))}{did_you_mean(call and call[1], _FUNCTIONS)}"
        )
    function, inner, share = call[1], call[2].strip(), 0.0
    if function == "quantile":
        parts = _QUANTILE.fullmatch(inner)
        if parts is None or not 0 <= float(parts[2]) <= 1:
            raise OptionError(
                f'expected a quantile such as "quantile(v, 0.99)", got {name}={text!r}'
            )
        inner, share = parts[1].strip(), float(parts[2])
    if not inner and function != "count":
        raise OptionError(f"expected {function}() to be of a column, got {name}={text!r}")
    if inner and steps_of(parse(inner, name)):
        raise OptionError(
            f"expected {name} to look at columns of one event, got {name}={text!r}; write columns "
            "without the name of a step"
        )
    return Column(name, text, function, inner or None, share)
