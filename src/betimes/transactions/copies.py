"""Copies of a state somewhere else, on which transactions run ahead: guesses, never the truth.

A copy is told what has changed since it was last told. Transactions run on it one after the other,
so each sees what earlier ones have written there; what comes of them are records, which count where
the state is if their reads find the same there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.model.event import Event
from betimes.transactions.book import At, Book
from betimes.transactions.effects import Found, Key, Name
from betimes.transactions.tracked import Execute, Reads, View, Writes, attempt
from betimes.transactions.versions import Base, Versions

END: Place = (2**63, 0, 0)
Known = list[tuple[Key, Found]]
Task = tuple[Place, Event, Known]
"""What a copy gets of a transaction: its place, its event, and what it would find now of what it
read before."""
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
    versions: Versions, execute: Execute, names: tuple[str, ...], tasks: Iterable[Task]
) -> list[Ran | None]:
    """Run transactions on a copy, which then has what they wrote, too.

    None instead of a record: it failed, which has to be seen where it counts.
    """
    ran = list[Ran | None]()
    for place, event, known in tasks:
        view: View = At(versions, place)
        if known:
            mine = {key: found for key, found in known if not versions.is_written(key, place)}
            view = _Told(view, mine)
        record = attempt(execute, event, view, names)
        if record.error is not None:
            ran.append(None)
            continue
        versions.write(place, record.writes)
        ran.append((record.reads, record.writes, record.made))
    return ran


class _Told:
    """A view of a copy by someone who knows better about some keys."""

    def __init__(self, view: View, known: dict[Key, Found]) -> None:
        self._view = view
        self._known = known

    def value(self, key: Key) -> Found:
        found = self._known.get(key)
        return self._view.value(key) if found is None else found

    def has(self, key: Key) -> bool:
        found = self._known.get(key)
        return self._view.has(key) if found is None else bool(found)

    def keys(self, name: Name) -> list[Any]:
        return self._view.keys(name)
