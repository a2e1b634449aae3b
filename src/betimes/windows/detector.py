"""Windows as a detector: one object per key that cuts and runs them in order.

This is the definition of what windows find. It knows nothing about disorder: like any detector with
deadlines it gets events in order, and the engine saves it, goes back and replays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from betimes.model.change import content
from betimes.model.event import Event
from betimes.windows.cutting import Span, cutter
from betimes.windows.operators import Operator
from betimes.windows.shapes import Window

Content = tuple[str, int, str]


class WindowDetector:
    """The windows of one key."""

    def __init__(self, window: Window, operator: Operator) -> None:
        self._window = window
        self._cutter = cutter(window)
        self._operator = operator
        self._states: dict[int, Any] = {}
        """The states of the open windows, by number."""
        self._once = Once() if operator.once and window.overlaps else None

    @property
    def deadline(self) -> int | None:
        return self._cutter.deadline

    def on_event(self, event: Event) -> list[Event]:
        made: list[Event] = []
        # Those that end with this event are no longer open, but have to take it.
        begun, ended = self._cutter.take(event)
        spans = {span._number: span for span in ended} | self._cutter.open
        for span in begun:
            span.first = event
            self._states[span._number] = self._operator.begin()
        for number, state in self._states.items():
            made += self._new(number, self._operator.take(state, event, spans[number]))
        for span in ended:
            made += self._close(span)
        if ended:
            self._tidy(event.ts)
        return made

    def on_time(self, ts: int) -> list[Event]:
        ended = self._cutter.due(ts)
        made = [event for span in ended for event in self._close(span)]
        self._tidy(ts)
        return made

    def _close(self, span: Span) -> list[Event]:
        made = self._operator.close(self._states.pop(span._number), span)
        return self._new(span._number, made)

    def _new(self, window: int, made: Iterable[Event]) -> list[Event]:
        """What no other window has made."""
        if self._once is None:
            return list(made)
        return [event for event in made if self._once.is_new(window, event)]

    def _tidy(self, ts: int) -> None:
        if self._once is not None:
            starts = [span.start for span in self._cutter.open.values()]
            self._once.forget(min([ts - self._window.before, *starts]), self._states.keys())

    def snapshot(self) -> tuple[Any, ...]:
        save = self._operator.save
        states = [(number, save(state)) for number, state in self._states.items()]
        return self._cutter.snapshot(), states, None if self._once is None else self._once.save()

    def restore(self, saved: tuple[Any, ...]) -> None:
        kept, states, once = saved
        self._cutter.restore(kept)
        self._states = {number: self._operator.load(state) for number, state in states}
        if self._once is not None:
            self._once.load(once)


class Once:
    """Equal events that overlapping windows make count once.

    What one window makes twice counts twice. An event lies within the window that made it, so once
    all open windows begin after an event, no window can make it again.
    """

    def __init__(self) -> None:
        self._made: dict[int, dict[Content, int]] = {}
        """How often each open window has made what."""
        self._known: dict[Content, int] = {}
        """The most that any window has made it."""

    def is_new(self, window: int, event: Event) -> bool:
        """A window has made an event: whether it is more than what others have made."""
        what = content(event)
        mine = self._made.setdefault(window, {})
        mine[what] = count = mine.get(what, 0) + 1
        if count <= self._known.get(what, 0):
            return False
        self._known[what] = count
        return True

    def forget(self, before: int, open_: Iterable[int]) -> None:
        """No window begins before this time any more; these are open."""
        self._known = {what: n for what, n in self._known.items() if what[1] >= before}
        self._made = {number: self._made[number] for number in open_ if number in self._made}

    def save(self) -> tuple[Any, ...]:
        return {number: dict(mine) for number, mine in self._made.items()}, dict(self._known)

    def load(self, saved: tuple[Any, ...]) -> None:
        made, known = saved
        self._made = {number: dict(mine) for number, mine in made.items()}
        self._known = dict(known)
