"""Cutting the ordered events of one key into windows.

A cutter gets events in order and decides, once per event and window, which windows begin with an
event and which end with it. Windows that end because time has passed end at a *deadline*, before
any event of that time. A window is a run of events without holes: what lies between its first and
its last event belongs to it.

A cutter that goes back needs only its snapshot, which is plain data: it keeps no events, except the
first one of each window that a user's `close` may look at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from betimes.model.detector import DetectorError
from betimes.model.event import Event
from betimes.model.stored import Int
from betimes.patterns.conditions import Expression
from betimes.windows.shapes import CountWindow, FreeWindow, GapWindow, TimeWindow, Window

NO_GAP = "no gap has ended it"
END = 2**63 - 1
"""The deadline at which windows end that only the end of the stream can end."""


class Span(msgspec.Struct):
    """A window of one key, as far as it has been cut.

    >>> span = Span(0, start=5, end=9, count=3)
    >>> span.count, span.complete
    (3, True)
    """

    _number: int
    """Tells it from others, for cutters only: a late event may change the numbers of windows."""
    start: int
    """The time of its first event, or where a window of time begins."""
    end: int
    """The time of its last event so far, or where a window of time ends."""
    count: int = 0
    """How many events it has."""
    complete: bool = True
    """Whether it ended by itself, not because the stream did."""
    first: Event | None = None
    """Its first event."""


Kept = tuple[Int, list[tuple[Int, Int, Int, Int, bool, Event | None]], Any]
"""What a cutter has to remember: how many windows began, those that are open, and what else."""


class Cutter:
    """What all cutters share: the open windows, in the order of their numbers."""

    def __init__(self) -> None:
        self.open: dict[int, Span] = {}
        self.begun = 0

    @property
    def deadline(self) -> int | None:
        """When the next window ends if nothing else happens."""
        return END if self.open else None

    def due(self, ts: int) -> list[Span]:
        """The windows that end because time has come to the deadline `ts`; they are closed."""
        assert ts == END
        ended = list(self.open.values())
        for span in ended:
            span.complete = False
        self.open.clear()
        return ended

    def take(self, event: Event) -> tuple[list[Span], list[Span]]:
        """The windows that begin and those that end with an event; all open ones get it."""
        raise NotImplementedError

    def _begin(self, start: int, end: int, first: Event | None = None) -> Span:
        span = Span(self.begun, start, end, first=first)
        self.open[span._number] = span
        self.begun += 1
        return span

    def _close(self, spans: list[Span]) -> list[Span]:
        for span in spans:
            del self.open[span._number]
        return spans

    def snapshot(self) -> Kept:
        """Everything needed to go back to here."""
        return self.begun, [msgspec.structs.astuple(span) for span in self.open.values()], None

    def restore(self, kept: Kept) -> None:
        """Go back to a snapshot."""
        self.begun, spans, _ = kept
        self.open = {span[0]: Span(*span) for span in spans}


class CountCutter(Cutter):
    """Windows of a number of events."""

    def __init__(self, window: CountWindow) -> None:
        super().__init__()
        self._window = window
        self._until = 0
        """How many events until the next window begins."""

    def take(self, event: Event) -> tuple[list[Span], list[Span]]:
        begun = []
        if self._until == 0:
            begun.append(self._begin(event.ts, event.ts))
            self._until = self._window.slide
        self._until -= 1
        full = []
        for span in self.open.values():
            span.count += 1
            span.end = event.ts
            if span.count == self._window.size:
                full.append(span)
        return begun, self._close(full)

    def snapshot(self) -> Kept:
        begun, spans, _ = super().snapshot()
        return begun, spans, self._until

    def restore(self, kept: Kept) -> None:
        super().restore(kept)
        self._until = kept[2]


class TimeCutter(Cutter):
    """Windows of time. A window without events does not exist."""

    def __init__(self, window: TimeWindow) -> None:
        super().__init__()
        self._window = window

    @property
    def deadline(self) -> int | None:
        return next(iter(self.open.values())).end if self.open else None

    def due(self, ts: int) -> list[Span]:
        return self._close([span for span in self.open.values() if span.end == ts])

    def take(self, event: Event) -> tuple[list[Span], list[Span]]:
        window, since = self._window, event.ts - self._window.offset
        first, last = (since - window.size) // window.slide + 1, since // window.slide
        begun = []
        for number in range(first, last + 1):
            if number not in self.open:
                start = window.offset + number * window.slide
                self.open[number] = Span(number, start, start + window.size)
                begun.append(self.open[number])
        for span in self.open.values():
            span.count += 1
        return begun, []


class GapCutter(Cutter):
    """Sessions."""

    def __init__(self, window: GapWindow) -> None:
        super().__init__()
        self._window = window

    @property
    def deadline(self) -> int | None:
        for span in self.open.values():
            return span.end + self._window.gap
        return None

    def due(self, ts: int) -> list[Span]:  # noqa: ARG002 - there is one at most
        return self._close(list(self.open.values()))

    def take(self, event: Event) -> tuple[list[Span], list[Span]]:
        begun = [] if self.open else [self._begin(event.ts, event.ts)]
        for span in self.open.values():
            span.count += 1
            span.end = event.ts
            _check_limit(span, self._window.limit, NO_GAP)
        return begun, []


class FreeCutter(Cutter):
    """Windows from one condition to another."""

    def __init__(self, window: FreeWindow) -> None:
        super().__init__()
        self._window = window
        self._opens = _opener(window.open)
        self._closes = _closer(window.close)
        made = window.state() if callable(window.state) else copy.deepcopy(window.state)
        self._state: tuple[Any, ...] = () if window.state is None else (made,)

    def take(self, event: Event) -> tuple[list[Span], list[Span]]:
        begun = []
        if self._opens(event, *self._state):
            begun.append(self._begin(event.ts, event.ts, event))
        closed = []
        for span in self.open.values():
            span.count += 1
            span.end = event.ts
            _check_limit(span, self._window.limit, "close has not held")
            if self._closes(event, span, *self._state):
                closed.append(span)
        return begun, self._close(closed)

    def snapshot(self) -> Kept:
        begun, spans, _ = super().snapshot()
        return begun, spans, copy.deepcopy(self._state)

    def restore(self, kept: Kept) -> None:
        super().restore(kept)
        self._state = copy.deepcopy(kept[2])


def _check_limit(span: Span, limit: int, why: str) -> None:
    if span.count > limit:
        raise too_many(span.start, limit, why)


def too_many(start: int, limit: int, why: str) -> DetectorError:
    """A window has more events than it may have."""
    return DetectorError(
        f"the window that began at {start} has more than limit={limit} events: {why} since then; "
        "raise limit, or let it end earlier"
    )


def _opener(predicate: Expression | Callable[..., bool]) -> Callable[..., bool]:
    if isinstance(predicate, Expression):
        return lambda event, *_state: predicate.holds(event, {})
    return predicate


def _closer(predicate: Expression | Callable[..., bool]) -> Callable[..., bool]:
    if isinstance(predicate, Expression):
        return lambda event, _span, *_state: predicate.holds(event, {})
    return predicate


def cutter(window: Window) -> Cutter:
    """What cuts the events of one key into such windows."""
    match window:
        case CountWindow():
            return CountCutter(window)
        case TimeWindow():
            return TimeCutter(window)
        case GapWindow():
            return GapCutter(window)
        case FreeWindow():
            return FreeCutter(window)
