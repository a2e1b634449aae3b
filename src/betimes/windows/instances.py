"""An instance: runs the operator over the windows that it was given.

It keeps the events of each key once, in order; a window is a range of them. For each window it
knows how many events the operator has handled, and snapshots of the operator's state. What arrives
late is put in its place: if the window has not come that far, nothing else happens; otherwise this
window, and no other, goes back to its last snapshot before that place.

While the splitter goes back, nothing is handled: after the first urgent message, an instance takes
note of what it hears, and goes on at END. So a window that changes several times goes back once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from betimes.engine.news.outputs import TIME, Place
from betimes.engine.snapshots.spacing import Costs, SnapshotModel
from betimes.model.event import Event
from betimes.windows.cutting import Span
from betimes.windows.messages import (
    ADD,
    CLOSE,
    DEL,
    END,
    EVENT,
    FAILED,
    FORGET,
    GONE,
    MADE,
    NOTCLOSE,
    OPEN,
    Closing,
    Item,
    Message,
    Parcel,
)  # fmt: skip
from betimes.windows.operators import Operator


class Events:
    """The events of one key, in order."""

    __slots__ = ("closed_to", "events", "open", "places", "revisions", "runs")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.events: list[Event] = []
        self.revisions: dict[Place, int] = {}
        """The newest revision of events that were taken back, or came again."""
        self.runs: dict[int, Run] = {}
        """The windows of this key."""
        self.open: dict[int, Run] = {}
        """Those of them whose end is not known."""
        self.closed_to: Place = (-1, 0, 0)
        """No other window reaches beyond this place."""

    def add(self, window: int, run: Run) -> None:
        """A window was opened, or its end has changed."""
        self.runs[window] = run
        if run.closing is None:
            self.open[window] = run
        else:
            self.open.pop(window, None)
            self.closed_to = max(self.closed_to, run.closing.last)

    def remove(self, window: int) -> None:
        """A window is deleted or forgotten."""
        self.runs.pop(window, None)
        self.open.pop(window, None)

    def around(self, place: Place) -> Iterable[tuple[int, Run]]:
        """The windows in which a place may lie."""
        return (self.open if place > self.closed_to else self.runs).items()


class Run:
    """A window at an instance."""

    __slots__ = (
        "closed", "closing", "done", "end", "ended", "first", "items", "key", "opened", "placed",
        "saves", "sent", "start", "state", "stuck",
    )  # fmt: skip

    def __init__(self) -> None:
        self.opened = False
        """Whether OPEN has come; an urgent message may have overtaken it."""
        self.key: Any = None
        self.first: Place = (0, 0, 0)
        self.start = 0
        self.end: int | None = None
        self.placed = self.ended = -1
        """The revisions of where it begins and ends."""
        self.closing: Closing | None = None
        self.state: Any = None
        self.done = 0
        """How many events the operator has handled."""
        self.closed = False
        """Whether the operator has heard of its end."""
        self.stuck: tuple[Place, str] | None = None
        """Where the operator fails, and how, if it does so at its next event."""
        self.saves: list[tuple[int, Any]] = []
        self.items: list[tuple[int, Item]] = []
        """What it has made, with the number of events from which it was made."""
        self.sent = 0
        """How many items the merger has; -1 if nobody knows."""


class Instance:
    """Runs windows; `receive` takes parcels and returns messages for the merger."""

    def __init__(
        self,
        operator: Operator,
        spacing: SnapshotModel,
        *,
        time: Callable[[], float],
        check: Callable[[Iterable[Event]], None] = lambda _made: None,
    ) -> None:
        self._operator = operator
        self._spacing = spacing
        self._costs = Costs(apart=True)
        self._time = time
        self._check = check
        """Refuses what the operator must not make."""
        self._keys: dict[Any, Events] = {}
        self._runs: dict[int, Run] = {}
        self._deleted: dict[int, int] = {}
        """Windows that were deleted, until nothing about them can be in transit."""
        self._waiting: dict[int, Run] = {}
        """Windows that have something to do."""
        self._failing: dict[int, Run] = {}
        """Windows whose operator fails, or did."""
        self._told: list[Message] = []
        self._urgent = False
        """Whether it hears about the past."""
        self.counts: Counter[str] = Counter()

    def receive(self, parcel: Parcel) -> list[Message]:
        """Take note of messages; then, unless more are to come, run what has changed."""
        self._urgent, disturbed = parcel.urgent, self.counts["recoveries"]
        for message in parcel.messages:
            self._handlers[message[0]](self, *message[1:])
        # Urgent parcels end with END, so there is always something to go on with.
        touched = len(self._waiting)
        for window, run in self._waiting.items():
            self._advance(window, run)
        self._waiting.clear()
        if touched:
            self._costs.note_batch(self.counts["recoveries"] - disturbed, 0, touched)
        told, self._told = self._told, []
        return told

    def tell_again(self) -> None:
        """It has taken the place of another: nobody knows what it has made."""
        for run in self._runs.values():
            run.sent, run.stuck = -1, None
        self._waiting.update(self._runs)

    def stuck(self) -> list[tuple[Any, Place, str]]:
        """Where the operator fails: keys, places, and how."""
        runs = self._runs
        self._failing = {w: r for w, r in self._failing.items() if r.stuck and runs.get(w) is r}
        return [(run.key, *run.stuck) for run in self._failing.values() if run.stuck is not None]

    def stuck_at_ends(self) -> list[tuple[Any, Place, str]]:
        """Where time has ended a window, and the operator fails: no event can be left out."""
        return [where for where in self.stuck() if where[1][1] == TIME] if self._failing else []

    def everything(self) -> list[Message]:
        """All that it knows, as messages to one in its place."""
        found: list[Message] = [
            (EVENT, 0, key, place, event)
            for key, mine in self._keys.items()
            for place, event in zip(mine.places, mine.events, strict=True)
        ]
        for window, run in self._runs.items():
            found.append((OPEN, run.placed, window, run.key, run.first, (run.start, run.end)))
            if run.closing is not None:
                found.append((CLOSE, run.ended, window, tuple(run.closing)))
        return found

    # Messages

    def _event(self, revision: int, key: Any, place: Place, event: Event) -> None:
        mine = self._keys.setdefault(key, Events())
        if mine.revisions.get(place, -1) > revision:
            return  # it was taken back in the meantime
        at = len(mine.places)
        if at and mine.places[-1] >= place:
            at = bisect_left(mine.places, place)
            if mine.places[at] == place:
                return  # told again, to one that took another's place
        mine.places.insert(at, place)
        mine.events.insert(at, event)
        self.counts["events"] += 1
        self._disturb(mine, place, at)

    def _gone(self, revision: int, key: Any, place: Place) -> None:
        mine = self._keys.setdefault(key, Events())
        mine.revisions[place] = revision
        at = bisect_left(mine.places, place)
        if at < len(mine.places) and mine.places[at] == place:
            self._disturb(mine, place, at)
            del mine.places[at], mine.events[at]

    def _open(
        self, revision: int, window: int, key: Any, first: Place, bounds: tuple[int, int | None]
    ) -> None:
        run = self._run(window)
        if run is None:
            return
        run.opened, run.key = True, key
        run.end = bounds[1]
        if revision > run.placed:
            run.placed, run.first, run.start = revision, first, bounds[0]
        self._keys.setdefault(key, Events()).add(window, run)
        self._waiting[window] = run

    def _add(self, revision: int, window: int, first: Place, start: int) -> None:
        run = self._run(window)
        if run is not None and revision > run.placed:
            run.placed, run.first, run.start = revision, first, start
            self._go_back(run, 0)
            self._waiting[window] = run

    def _close(self, revision: int, window: int, closing: Any) -> None:
        self._set_end(revision, window, Closing(*closing))

    def _notclose(self, revision: int, window: int) -> None:
        self._set_end(revision, window, None)

    def _set_end(self, revision: int, window: int, closing: Closing | None) -> None:
        run = self._run(window)
        if run is None or revision <= run.ended:
            return
        run.ended, run.closing = revision, closing
        mine = self._keys.get(run.key)
        if run.opened and mine is not None:
            mine.add(window, run)
            count = self._range(mine, run)[1]
            self._go_back(run, min(run.done, count))
        self._waiting[window] = run

    def _del(self, revision: int, window: int, key: Any, first: Place) -> None:
        self._deleted[window] = revision
        run = self._runs.pop(window, None)
        self._waiting.pop(window, None)
        if run is not None and run.opened:
            self._keys[key].remove(window)
        # Also if it knows nothing about it: the one before it may have made something.
        self._told.append((MADE, window, key, first, 0, []))

    def _end(self) -> None:
        """Everything has been said."""

    def _forget(self, revision: int, key: Any, before: Place, windows: list[int]) -> None:
        mine = self._keys.setdefault(key, Events())
        for window in windows:
            self._runs.pop(window, None)
            mine.remove(window)
            self._waiting.pop(window, None)
        low = bisect_left(mine.places, before)
        del mine.places[:low], mine.events[:low]
        mine.revisions = {place: r for place, r in mine.revisions.items() if place >= before}
        if not (mine.places or mine.runs or mine.revisions):
            del self._keys[key]
        # What DEL may have overtaken was sent before this.
        self._deleted = {w: r for w, r in self._deleted.items() if r > revision}

    _handlers: dict[str, Callable[..., None]] = {  # noqa: RUF012 - a table of methods
        EVENT: _event, GONE: _gone, OPEN: _open, ADD: _add, CLOSE: _close, NOTCLOSE: _notclose,
        DEL: _del, END: _end, FORGET: _forget,
    }  # fmt: skip

    def _run(self, window: int) -> Run | None:
        """A window; None if it was deleted: DEL has overtaken what is said about it."""
        run = self._runs.get(window)
        if run is None and window not in self._deleted:
            run = self._runs[window] = Run()
        return run

    # Going back

    def _disturb(self, mine: Events, place: Place, at: int) -> None:
        """An event comes or goes at a place: the windows that have handled it go back."""
        for window, run in mine.around(place):
            if run.first <= place and (run.closing is None or place <= run.closing.last):
                rank = at - bisect_left(mine.places, run.first)
                self._go_back(run, rank)
                self._waiting[window] = run

    def _go_back(self, run: Run, count: int) -> None:
        """Only the first `count` events that a window has handled are still right."""
        if run.closed or count < run.done or run.stuck:
            run.stuck = None
            if run.closed:
                run.closed = False
                self._undo(run, min(count, run.done))
            elif count < run.done:
                self._undo(run, count)
        elif run.done and self._urgent:
            self.counts["avoided"] += 1

    def _undo(self, run: Run, count: int) -> None:
        while run.saves and run.saves[-1][0] > count:
            run.saves.pop()
        if run.saves:
            run.done, saved = run.saves[-1]
            run.state = self._operator.load(saved)
        else:
            run.done, run.state = 0, None
        keep = len(run.items)
        while keep and (run.items[keep - 1][0] > run.done or run.items[keep - 1][1][1] == 1):
            keep -= 1
        del run.items[keep:]
        self.counts["recoveries"] += 1

    def _range(self, mine: Events, run: Run) -> tuple[int, int]:
        """Where the events of a window begin, and how many there are."""
        low = bisect_left(mine.places, run.first)
        high = len(mine.places)
        if run.closing is not None:
            high = bisect_right(mine.places, run.closing.last)
        elif run.end is not None:
            high = bisect_left(mine.places, (run.end, TIME, b""))
        return low, max(high - low, 0)

    # Forward

    def _advance(self, window: int, run: Run) -> None:
        """Hand a window the events that it has not handled, and tell what has changed."""
        if not run.opened or run.stuck:
            return
        mine, operator, kept = self._keys[run.key], self._operator, len(run.items)
        kept = max(min(kept, run.sent), 0)
        low, count = self._range(mine, run)
        began, todo = self._time(), count - run.done
        span = Span(window, run.start, run.start if run.end is None else run.end, run.done)
        if count:
            span.first = mine.events[low]
        place: Place = run.first
        try:
            if run.done < count and run.state is None:
                run.state = operator.begin()
            while run.done < count:
                self._save_if_due(run)
                event, place = mine.events[low + run.done], mine.places[low + run.done]
                span.count = run.done + 1
                if run.end is None:
                    span.end = event.ts
                made = list(operator.take(run.state, event, span))
                if made:
                    self._check(made)
                    run.items += [(run.done + 1, (place, 0, each)) for each in made]
                run.done += 1
            closing = run.closing
            if closing is not None and not run.closed and run.done == closing.size:
                place = closing.cause
                self._end_window(run, span, closing)
        except Exception as error:  # noqa: BLE001 - a user's operator may raise anything
            self._undo(run, run.done)
            run.stuck = place, f"{type(error).__name__}: {error}"
            self._failing[window] = run
            self._told.append((FAILED, run.key, *run.stuck))
        if todo > 0:
            self._costs.note_run(self._time() - began, todo, 0)
        kept = min(kept, len(run.items))
        if kept != run.sent or len(run.items) > kept:
            items = [item for _, item in run.items[kept:]]
            self._told.append((MADE, window, run.key, run.first, kept, items))
        run.sent = len(run.items)

    def _save_if_due(self, run: Run) -> None:
        last = run.saves[-1][0] if run.saves else 0
        if run.done - last >= self._spacing.length(self._costs, speculative=True):
            self._save(run)

    def _save(self, run: Run) -> None:
        began = self._time()
        run.saves.append((run.done, self._operator.save(run.state)))
        self._costs.note_snapshot(self._time() - began)
        self.counts["snapshots"] += 1

    def _end_window(self, run: Run, span: Span, closing: Closing) -> None:
        """Tell the operator that its window has ended; that may turn out wrong."""
        if not run.saves or run.saves[-1][0] != run.done:
            self._save(run)
        span.count, span.end, span.complete = closing.size, closing.end, closing.complete
        made = list(self._operator.close(run.state, span))
        if made:
            self._check(made)
            run.items += [(run.done, (closing.cause, 1, each)) for each in made]
        run.closed = True
        run.state = None
