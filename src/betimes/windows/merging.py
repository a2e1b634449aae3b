"""The merger: puts together what windows have made.

For each window it has what the window has made so far. Equal events that several windows of a key
make count once, if the operator says so: what counts is the earliest, by the place of its cause;
what one window makes twice counts twice. What is made at one cause has an order: first what windows
made of the event, then what they made because they ended with it, each by where windows begin.

So what is out is a function of what windows have made, not of when they did: the merger can be told
in any order. Its answer after a batch is the difference to what it answered before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from betimes.engine.news.outputs import Place
from betimes.model.change import content
from betimes.model.event import Event
from betimes.windows.messages import Item

Name = tuple[Any, ...]
"""What tells events apart that count: for those that count once, content and copy."""
Order = tuple[Place, int, Place, int]
"""Cause, phase, where the window begins, number: the order in which events count."""


class Made(NamedTuple):
    """What a window has made, as the merger knows it."""

    name: Name
    order: Order
    event: Event


class Window:
    """What one window has made."""

    __slots__ = ("first", "made")

    def __init__(self, first: Place) -> None:
        self.first = first
        self.made: list[Made] = []

    def items(self) -> list[Item]:
        """The same as an instance tells it."""
        return [(made.order[0], made.order[1], made.event) for made in self.made]


class KeyMerger:
    """What the windows of one key have made."""

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self.known: dict[int, Window] = {}
        """Windows by number."""
        self._makers: dict[Name, dict[int, Made]] = {}
        """By what is made: the windows that have made it."""
        self._counts: dict[Name, Made] = {}
        """By what is made: the one that counts."""
        self._at: dict[Place, dict[Name, Made]] = {}
        """By cause: what counts."""
        self._dirty: set[Name] = set()
        self.settled: Place = (-1, -1, b"")
        """What was caused up to here does not change any more."""

    def take(self, window: int, first: Place, kept: int, items: list[Item]) -> None:
        """Of what a window has made, the first `kept` stay; then follow these."""
        if not items and window not in self.known:
            return
        mine = self.known.setdefault(window, Window(first))
        if mine.first != first:
            mine.first, kept, items = first, 0, [*mine.items()[:kept], *items]
        old, mine.made = mine.made[kept:], mine.made[:kept]
        self._extend(window, mine, items)
        new = mine.made[kept:]
        same = 0
        for one, other in zip(old, new, strict=False):
            if not _same(one, other):
                break
            same += 1
        for made in old[same:]:
            self._makers[made.name].pop(window, None)
            self._dirty.add(made.name)
        for made in new[same:]:
            self._makers.setdefault(made.name, {})[window] = made
            self._dirty.add(made.name)

    def _extend(self, window: int, mine: Window, items: Iterable[Item]) -> None:
        copies: Counter[Name] = Counter()
        if self._once:
            copies.update(made.name[:-1] for made in mine.made)
        for cause, phase, event in items:
            number = len(mine.made)
            name: Name = (window, number)
            if self._once:
                what = content(event)
                name = (*what, copies[what])
                copies[what] += 1
            mine.made.append(Made(name, (cause, phase, mine.first, number), event))

    def changes(self) -> Iterator[tuple[Place, list[Event]]]:
        """The causes at which something has changed, with what counts there now, in order."""
        causes = set()
        for name in self._dirty:
            known = self._counts.get(name)
            if known is not None and known.order[0] <= self.settled:
                continue
            makers = self._makers.get(name)
            now = min(makers.values(), key=lambda made: made.order) if makers else None
            if not makers:
                self._makers.pop(name, None)
            if known is now or (known is not None and now is not None and _same(known, now)):
                continue
            if known is not None:
                causes.add(known.order[0])
                self._at[known.order[0]].pop(name)
                del self._counts[name]
            if now is not None:
                causes.add(now.order[0])
                self._at.setdefault(now.order[0], {})[name] = now
                self._counts[name] = now
        self._dirty.clear()
        for cause in sorted(causes):
            here = sorted(self._at[cause].values(), key=lambda made: made.order)
            if not here:
                del self._at[cause]
            yield cause, [made.event for made in here]

    def forget(self, settled: Place, windows: Iterable[int], earliest: int) -> None:
        """What was caused up to a place is settled; these windows are done with.

        No window that is left, or that begins later, contains a time before `earliest`.
        """
        self.settled = settled
        for window in windows:
            gone = self.known.pop(window, None)
            for made in () if gone is None else gone.made:
                makers = self._makers.get(made.name)
                if makers is not None:
                    makers.pop(window, None)
                    if not makers:
                        del self._makers[made.name]
        for cause in [cause for cause in self._at if cause <= settled]:
            del self._at[cause]
        for name in [n for n, made in self._counts.items() if made.order[0] <= settled]:
            # A window that is left may still make the same.
            if not self._once or name[1] < earliest:
                del self._counts[name]

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return not (self.known or self._counts)

    @property
    def windows(self) -> int:
        """How many windows it knows."""
        return len(self.known)

    @property
    def removed(self) -> int:
        """How many of the events that they have made do not count, because others are equal."""
        return sum(len(makers) - 1 for makers in self._makers.values() if makers)

    def state_of(self) -> tuple[Place, list[tuple[Name, Order]]]:
        """What the windows that are left cannot tell again."""
        old = [(n, made.order) for n, made in self._counts.items() if made.order[0] <= self.settled]
        return self.settled, old if self._once else []

    def resume(self, kept: tuple[Place, list[tuple[Name, Order]]]) -> None:
        """Resume from what `state_of` kept, before windows tell again what they have made."""
        self.settled, old = kept
        self._counts = {name: Made(name, order, _OLD) for name, order in old}


_OLD = Event("settled", 0)
"""Stands for an event that nobody will ask for again."""


def _same(one: Made, other: Made) -> bool:
    """Whether nothing has changed; 1, 1.0 and True are equal, but not the same."""
    if one.name != other.name or one.order != other.order:
        return False
    mine, yours = one.event, other.event
    return mine is yours or (mine == yours and content(mine) == content(yours))


class Merger:
    """What the windows of all keys have made."""

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self.keys: dict[Any, KeyMerger] = {}

    def key(self, key: Any) -> KeyMerger:
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = KeyMerger(once=self._once)
        return found
