"""Running transactions one after the other, in order: the executor that never runs one in vain."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.transactions.book import Book, Entry
from betimes.transactions.tracked import Execute, attempt


def run(
    book: Book, execute: Execute, names: tuple[str, ...] = (), most: int | None = None
) -> Iterator[Entry]:
    """Run what waits, at most so many; yields each transaction after it has run."""
    count = 0
    while count != most and (entry := book.first_waiting()) is not None:
        book.done(entry, attempt(execute, entry.event, book.view(entry), names), exact=True)
        yield entry
        count += 1
    book.lost.clear()
