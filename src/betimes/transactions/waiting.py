"""The transactions that have to be run, in order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.transactions.book import Entry

_PLACE = attrgetter("place")
_TRIM = 1024
"""This many places that are done with, and more than are left, are worth a new list."""


class Waiting:
    """A list by place. One that no longer waits stays in it until it comes to the front.

    New transactions mostly come last and the first ones are done first, so almost everything
    happens at the two ends; only those that have to run again are put in the middle.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._front = 0
        """Before this one, none waits."""

    def put(self, entry: Entry) -> None:
        """One that waits."""
        if entry.listed:
            return
        entry.listed = True
        entries = self._entries
        if not entries or entries[-1].place < entry.place:
            entries.append(entry)
        else:
            insort(entries, entry, lo=self._front, key=_PLACE)

    def first(self) -> Entry | None:
        """The first one."""
        entries, front, end = self._entries, self._front, len(self._entries)
        while front < end and not entries[front].waits:
            entries[front].listed = False
            front += 1
        if front > _TRIM and 2 * front > end:
            del entries[:front]
            front = 0
        self._front = front
        return entries[front] if front < len(entries) else None

    def __len__(self) -> int:
        """How many there are, at most."""
        return len(self._entries) - self._front

    def __iter__(self) -> Iterator[Entry]:
        """All of them; nobody may be put here meanwhile."""
        entries = self._entries
        for at in range(self._front, len(entries)):
            if entries[at].waits:
                yield entries[at]
