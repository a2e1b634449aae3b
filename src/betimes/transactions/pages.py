"""The pages of a book: pieces of its history that are written to checkpoints once.

A page has the transactions from its start to before the start of the next one. Whoever changes a
transaction makes its page forget where it was written.
"""

from __future__ import annotations

from bisect import bisect_right

from betimes.engine.news.outputs import Place
from betimes.model.volumes import Kept

LENGTH = 256
"""A page is full with this many transactions; late ones may make it longer."""


class Page:
    """Some transactions in a row."""

    __slots__ = ("kept", "size", "start")

    def __init__(self, start: Place, size: int = 0) -> None:
        self.start = start
        self.size = size
        self.kept: Kept | None = None


class Pages:
    """All pages of a book, in order."""

    def __init__(self, pages: list[Page] | None = None) -> None:
        self.all: list[Page] = pages or []

    def of(self, place: Place) -> Page:
        """The page of a place, which changes."""
        page = self.all[-1]
        if place < page.start:
            at = bisect_right(self.all, place, key=lambda page: page.start) - 1
            page = self.all[max(at, 0)]
        page.kept = None
        return page

    def add(self, place: Place, *, last: bool) -> None:
        """One more transaction; whether it is the last one."""
        if not self.all or (last and self.all[-1].size >= LENGTH):
            self.all.append(Page(place))
        page = self.of(place)
        page.start = min(page.start, place)
        page.size += 1

    def remove(self, place: Place) -> None:
        """One transaction less."""
        page = self.of(place)
        page.size -= 1
        if not page.size:
            self.all.remove(page)

    def forget(self, count: int, first: Place | None) -> None:
        """The first transactions are forgotten; `first` is the first that remains."""
        while count and count >= self.all[0].size:
            count -= self.all.pop(0).size
        if count and first is not None:
            page = self.all[0]
            page.start, page.kept = first, None
            page.size -= count
