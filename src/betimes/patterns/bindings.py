"""What a run has bound: an immutable row of bindings that shares its parts with other rows.

Runs fork, and every branch keeps everything that was bound before the fork. So a row is a tuple of
levels, the newest bindings first: level 0 holds fewer than `WIDTH` bindings, level 1 fewer than
`WIDTH` blocks of `WIDTH` bindings each, level 2 blocks of such blocks, and so on. To make a longer
row, level 0 is copied and the rest is shared. A row of a million bindings is only a few levels
deep, so it can be compared and written to a checkpoint without deep recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from betimes.model.event import Event

Binding = tuple[str, Event, int]
"""The name under which an event is bound, the event, and its number in the stream."""
Row = tuple[tuple[Any, ...], ...]

WIDTH = 32
"""Copying this many references costs less than creating the tuple that holds them."""
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
    """All bindings, oldest first."""
    for depth in range(len(row) - 1, -1, -1):
        yield from _leaves(row[depth], depth)


def _leaves(block: tuple[Any, ...], depth: int) -> Iterator[Binding]:
    if depth == 0:
        yield from block
    else:
        for inner in block:
            yield from _leaves(inner, depth - 1)


def by_name(row: Row) -> dict[str, list[Event]]:
    """The events bound under each name, in order, as conditions read them.

    >>> row = bind(bind(EMPTY, ("a", Event("A", 1), 0)), ("a", Event("A", 2), 1))
    >>> [event.ts for event in by_name(row)["a"]]
    [1, 2]
    """
    found: dict[str, list[Event]] = {}
    for name, event, _ in bindings(row):
        found.setdefault(name, []).append(event)
    return found
