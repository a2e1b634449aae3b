"""Events by key, and what was made from them by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from betimes.engine.stages.rows.history import EventRows
from betimes.engine.stages.runner import Due, Made
from betimes.model.event import Event


def split_due(items: list[Any]) -> tuple[list[Due], list[Event]]:
    """What a detector made because deadlines passed, and what it made from the event itself."""
    return [i for i in items if type(i) is Due], [i for i in items if type(i) is not Due]


def by_row(made: Made) -> Iterator[tuple[int, list[Any]]]:
    """What was made, grouped by the row of the event that it was made from."""
    before, items = -1, list[Any]()
    for row, event in zip(*made, strict=True):
        if row == before:
            items.append(event)
            continue
        if items:
            yield before, items
        before, items = row, [event]
    if items:
        yield before, items


def rows_by_key(events: EventRows) -> dict[Any, list[int]]:
    """The rows of each key's events."""
    rows: dict[Any, list[int]] = {}
    for row in range(len(events)):
        rows.setdefault(events.key(row), []).append(row)
    return rows


def in_row_order(made: list[tuple[int, Any]]) -> Made:
    """What was made key by key, in the order of all events."""
    made.sort(key=lambda pair: pair[0])
    return Made([row for row, _ in made], [event for _, event in made])
