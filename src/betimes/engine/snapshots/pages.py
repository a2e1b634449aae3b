"""Pages: pieces of a history without segments, which are written to checkpoints once.

A page has what lies from its start to before the start of the next one; the first also has what
lies before it. Whoever changes something makes its page forget where it was written. So do pages
whose borders move, and those beside them: what lies between two events may change its page.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from betimes.engine.news.outputs import Place
from betimes.model.volumes import Kept

LENGTH = 256
"""A page is full with this many events; late ones may make it longer."""


class Page:
    """Some events in a row, and what belongs to them."""

    __slots__ = ("kept", "size", "start")

    def __init__(self, start: Place, size: int = 0) -> None:
        self.start = start
        self.size = size
        self.kept: Kept | None = None


class Pages:
    """All pages of a history, in order."""

    def __init__(self, pages: list[Page] | None = None) -> None:
        self.all: list[Page] = pages or []

    def at(self, place: Place) -> int:
        """The number of the page that a place belongs to."""
        if place >= self.all[-1].start:
            return len(self.all) - 1
        return max(bisect_right(self.all, place, key=lambda page: page.start) - 1, 0)

    def of(self, place: Place) -> Page:
        """The page of a place, which changes."""
        page = self.all[self.at(place)]
        page.kept = None
        return page

    def touch(self, place: Place) -> None:
        """Something at a place changes, which may be left when its events are not."""
        if self.all:
            self.of(place)

    def add(self, place: Place, *, last: bool) -> None:
        """One more event; whether it is the last one."""
        if not self.all or (last and self.all[-1].size >= LENGTH):
            self.touch(place)
            self.all.append(Page(place))
        page = self.of(place)
        page.start = min(page.start, place)
        page.size += 1

    def remove(self, place: Place) -> None:
        """One event less."""
        at = self.at(place)
        self.of(place).size -= 1
        if not self.all[at].size:
            del self.all[at]
            for beside in self.all[max(at - 1, 0) : at + 1]:
                beside.kept = None

    def forget(self, count: int, first: Place | None) -> None:
        """The first events are forgotten; `first` is the first that remains."""
        while count and count >= self.all[0].size:
            count -= self.all.pop(0).size
        if self.all and first is not None:
            page = self.all[0]
            page.start, page.kept = first, None
            page.size -= count

    def borders(self) -> Iterator[tuple[Page, Place | None, Place | None]]:
        """Each page, where it begins, and where the next one does; None: there is no such place."""
        starts = [page.start for page in self.all[1:]]
        return zip(self.all, [None, *starts], [*starts, None], strict=False)
