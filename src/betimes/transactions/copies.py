"""Copies of a state somewhere else, on which transactions run ahead: guesses, never the truth.

A copy is told what has changed since it was last told. Transactions run on it one after the other,
so each sees what those before it have written; what comes of them are records, which count where
the state is if their reads find the same there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.model.event import Event
from betimes.transactions.book import At, Book
from betimes.transactions.effects import DELETE, SET, Effect, Found, Key
from betimes.transactions.tracked import Execute, Reads, Writes, attempt
from betimes.transactions.versions import Base, Versions

END: Place = (2**63, 0, 0)
Known = list[tuple[Key, Found]]
Task = tuple[Event, Known]
"""What a copy gets of a transaction: its event, and what it would find of what it read before."""
Ran = tuple[Reads, Writes, list[Any]]
"""A record, as it travels."""


def watch(book: Book, copy: Any) -> None:
    """A copy knows nothing yet, so everything counts as changed."""
    book.watchers[copy] = dict.fromkeys(book.versions.all_keys())


def news(book: Book, copy: Any) -> Known:
    """What a copy does not know yet; from now on it does."""
    changed, book.watchers[copy] = book.watchers[copy], {}
    return [(key, book.versions.value(key, END)) for key in changed]


def tell(base: Base, changes: Iterable[tuple[Key, Found]]) -> None:
    """Bring a copy up to date."""
    for (name, key), found in changes:
        state = base.setdefault(name, {})
        state.pop(key, None) if not found else state.__setitem__(key, found)


def run_on(
    base: Base, execute: Execute, names: tuple[str, ...], tasks: Iterable[Task]
) -> list[Ran | None]:
    """Run transactions on a copy, which they do not change.

    None instead of a record: it failed, which has to be seen where it counts.
    """
    versions, ran = Versions(base), list[Ran | None]()
    for row, (event, known) in enumerate(tasks):
        before: dict[Key, Effect] = {
            key: [(SET, found[0])] if found else [(DELETE,)]
            for key, found in known
            if not versions.is_written(key)
        }
        versions.write((row, 0, 0), before)
        record = attempt(execute, event, At(versions, (row, 1, 0)), names)
        if record.error is not None:
            ran.append(None)
            continue
        versions.write((row, 1, 0), record.writes)
        ran.append((record.reads, record.writes, record.made))
    return ran
