"""What a run has bound: a row of bindings that is never changed and shares what it can.

Runs fork, and every branch keeps all that was bound before the fork. A row is therefore a tuple of
levels, the newest bindings first: level 0 holds fewer than `WIDTH` bindings, level 1 fewer than
`WIDTH` blocks of `WIDTH` bindings each, level 2 blocks of such blocks, and so on. A longer row is
made by copying level 0 and sharing the rest, and a row of a million bindings is only a few levels
deep, so that it can be compared and written to a checkpoint without deep recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from betimes.model.event import Event

Binding = tuple[str, Event, int]
"""The name under which an event is bound, the event, and its number in the stream."""
Row = tuple[tuple[Any, ...], ...]

WIDTH = 32
"""Copying so few references costs less than making the tuple that holds them."""
EMPTY: Row = ()


def bind(row: Row, binding: Binding) -> Row:
    """The row with one more binding.

    >>> row = bind(EMPTY, ("a", Event("A", 1), 0))
    >>> [name for name, _, _ in bindings(bind(row, ("b", Event("B", 2), 1)))]
    ['a', 'b']
    >>> len(row)
    1
    """
    item: Any = binding
    for depth, level in enumerate(row):
        level = (*level, item)
        if len(level) < WIDTH:
            return (*((),) * depth, level, *row[depth + 1 :])
        item = level
    return (*((),) * len(row), (item,))


def bindings(row: Row) -> Iterator[Binding]:
    """All bindings, the oldest first."""
    for depth in range(len(row) - 1, -1, -1):
        yield from _leaves(row[depth], depth)


def _leaves(block: tuple[Any, ...], depth: int) -> Iterator[Binding]:
    if depth == 0:
        yield from block
    else:
        for inner in block:
            yield from _leaves(inner, depth - 1)


def by_name(row: Row) -> dict[str, list[Event]]:
    """The events bound under each name, in order: what conditions look at.

    >>> row = bind(bind(EMPTY, ("a", Event("A", 1), 0)), ("a", Event("A", 2), 1))
    >>> [event.ts for event in by_name(row)["a"]]
    [1, 2]
    """
    found: dict[str, list[Event]] = {}
    for name, event, _ in bindings(row):
        found.setdefault(name, []).append(event)
    return found
