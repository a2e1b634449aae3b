"""The payload of a match: every bound event, or what `select` computes from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from betimes.model.event import Event
from betimes.patterns.evaluate import value_of
from betimes.patterns.expressions import parse
from betimes.patterns.source import SourceText
from betimes.patterns.steps import PatternError
from betimes.patterns.syntax import Column, StepColumn, walk, written
from betimes.patterns.where import StepName, check_names

Pairs = Iterable[tuple[str, Event]]
"""The bound events, each with the name under which it is bound, in order."""
Shape = Callable[[Pairs, int], dict[str, Any]]
"""From bound events and the time of the match to a payload."""


def everything(found: Sequence[StepName]) -> Shape:
    """All columns of all bound events; steps that repeat have lists.

    >>> from betimes.patterns.grammar import skeleton
    >>> from betimes.patterns.where import step_names
    >>> shape = everything(step_names(skeleton("A B+")))
    >>> a, b, c = Event("A", 1, {"v": 5}), Event("B", 2, {"v": 6}), Event("B", 3, {"w": 7})
    >>> shape([("A", a), ("B", b), ("B", c)], 3)
    {'A.ts': 1, 'A.v': 5, 'B.ts': [2, 3], 'B.v': [6, None], 'B.w': [None, 7]}
    """
    repeated = {each.name for each in found if each.repeated and not each.negated}

    def shape(pairs: Pairs, _ts: int) -> dict[str, Any]:
        payload: dict[str, Any] = {}
        for name, events in _by_name(pairs).items():
            if len(events) == 1 and name not in repeated:
                # The common case, in a single pass.
                (event,) = events
                payload[f"{name}.ts"] = event.ts
                for column, value in event.payload.items():
                    if column != "ts":
                        payload[f"{name}.{column}"] = value
                continue
            rows = [{**event.payload, "ts": event.ts} for event in events]
            columns = dict.fromkeys(["ts", *(column for row in rows for column in row)])
            for column in columns:
                values = [row.get(column) for row in rows]
                payload[f"{name}.{column}"] = values if name in repeated else values[-1]
        return payload

    return shape


def selected(select: Mapping[str, str], found: Sequence[StepName]) -> Shape:
    """What the user selects: expressions over the bound events and `ts`, the time of the match."""
    if not isinstance(select, Mapping):
        raise PatternError(
            "expected select to map columns to expressions, as in "
            f"select={{'speed': 'avg(B.v)'}}, got select={select!r}"
        )
    bound = [each for each in found if not each.negated]
    runs = {}
    for name, text in select.items():
        source = SourceText(text, f"select[{name!r}]")
        expr = parse(text, source.what)
        check_names(expr, bound, source)
        for node, _ in walk(expr):
            if isinstance(node, Column) and node.name != "ts":
                column, step = written(node.name), written(bound[0].name)
                raise source.error(
                    f"expected a column of a step, as in {step}.{column}, or ts, the time of the "
                    f"match, got {node.name!r}",
                    node.span,
                    "use",
                )
        runs[name] = value_of(expr, source)

    def shape(pairs: Pairs, ts: int) -> dict[str, Any]:
        match, events = Event("match", ts), _by_name(pairs)
        return {name: run(match, events) for name, run in runs.items()}

    return shape


def plain_columns(
    select: Mapping[str, str], found: Sequence[StepName]
) -> dict[str, tuple[str, str]] | None:
    """The step and the column that each field is; None if one of them is not just a column.

    >>> from betimes.patterns.grammar import skeleton
    >>> from betimes.patterns.where import step_names
    >>> steps = step_names(skeleton("A B"))
    >>> plain_columns({"v": "A.v", "at": "ts"}, steps), plain_columns({"v": "A.v + 1"}, steps)
    ({'v': ('A', 'v'), 'at': ('B', 'ts')}, None)
    """
    last = [each.name for each in found if not each.negated][-1]
    columns: dict[str, tuple[str, str]] = {}
    for name, text in select.items():
        match parse(text, f"select[{name!r}]"):
            case StepColumn(step, column):
                columns[name] = step, column
            case Column("ts"):
                columns[name] = last, "ts"
            case _:
                return None
    return columns


def _by_name(pairs: Pairs) -> dict[str, list[Event]]:
    events: dict[str, list[Event]] = {}
    for name, event in pairs:
        events.setdefault(name, []).append(event)
    return events
