"""What the tests of windows run, and the truth: sort, cut, run each window alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from betimes.model import Event
from betimes.model.change import content
from betimes.windows import aggregate, window
from betimes.windows.cutting import Span
from betimes.windows.shapes import CountWindow, FreeWindow, GapWindow, TimeWindow, Window

Content = tuple[str, int, str]


# Operators


class Steps:
    """Makes an event where v falls, dated there, and one at the end."""

    def __init__(self) -> None:
        self.last = 0
        self.total = 0

    def on_event(self, event: Event) -> Event | None:
        fell, self.last = event["v"] < self.last, event["v"]
        self.total = (3 * self.total + event["v"]) % 7
        return Event("made", event.ts, {"k": event["k"], "v": self.last}) if fell else None

    def on_close(self, span: Span) -> Iterator[Event]:
        yield Event("made", span.end, {"k": span.count, "v": self.total})


class Quiet:
    """Makes the same event several times, and nothing at the end."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_event(self, event: Event) -> list[Event]:
        self.seen = [*self.seen[-2:], event["v"]]
        return [Event("made", event.ts, {"k": 0, "v": 1})] * (sum(self.seen) % 3)


def spread(table: pa.Table) -> dict[str, Any]:
    """A function of a whole window."""
    v: list[Any] = table.column("v").to_pylist()
    return {"spread": max(v) - min(v), "order": v}


def each(table: pa.Table, span: Span) -> list[dict[str, Any]]:
    """A function that dates its rows itself."""
    rows = table.to_pylist()
    return [{"ts": row["ts"], "share": span.count} for row in rows if row["v"] == 3]


TOTALS = aggregate(
    mean="avg(v)", n="count()", total="sum(2 * v)", low="min(v)", high="max(v)", begin="first(v)",
    end="last(v)", half="quantile(v, 0.5)",
)  # fmt: skip


def totals(events: list[Event]) -> dict[str, Any]:
    """The same, from a list of events."""
    v = [event["v"] for event in events]
    ordered, at = sorted(v), 0.5 * (len(v) - 1)
    low, high = ordered[int(at)], ordered[min(int(at) + 1, len(v) - 1)]
    return {
        "mean": sum(v) / len(v), "n": len(v), "total": 2 * sum(v), "low": min(v), "high": max(v),
        "begin": v[0], "end": v[-1], "half": low + (high - low) * (at - int(at)),
    }  # fmt: skip


OPERATORS: dict[str, Any] = {
    "steps": Steps, "quiet": Quiet, "spread": spread, "each": each, "totals": TOTALS,
}  # fmt: skip


# Windows


def rises(event: Event) -> bool:
    return bool(event["v"] == 0)


def enough(event: Event, span: Any) -> bool:
    return bool(event["v"] == 3 or span.count == 5)


def third(event: Event, state: list[int]) -> bool:
    state[0] += 1
    return state[0] % 3 == 1 and event["v"] < 3


def fifth(_event: Event, span: Any, state: list[int]) -> bool:
    return state[0] % 5 == 0 or span.first["v"] == 2


WINDOWS: dict[str, Window] = {
    "count": window(count=4, slide=2),
    "count, odd": window(count=5, slide=3),
    "count, tumbling": window(count=3),
    "time": window(time=10, slide=5),
    "time, odd": window(time=9, slide=4, offset=3),
    "time, tumbling": window(time=7),
    "gap": window(gap=3),
    "free": window(open=rises, close=enough),
    "free, text": window(open="v == 0", close="v == 3"),
    "free, state": window(open=third, close=fifth, state=[0]),
}


@dataclass
class Alone:
    """A window, cut by looking at all events at once."""

    start: int
    end: int
    events: list[Event]
    complete: bool = True

    @property
    def span(self) -> Span:
        first = self.events[0]
        return Span(0, self.start, self.end, len(self.events), self.complete, first)


def alone(shape: Window, events: list[Event]) -> list[Alone]:
    """The windows of one key, from its events in order."""
    match shape:
        case CountWindow(size, slide):
            parts = [events[low : low + size] for low in range(0, len(events), slide)]
            return [_of(part, complete=len(part) == size) for part in parts]
        case TimeWindow(size, slide, offset):
            numbers = range(-(size // slide) - 2, 2000)
            starts = [offset + number * slide for number in numbers]
            found = [(s, [e for e in events if s <= e.ts < s + size]) for s in starts]
            return [Alone(s, s + size, part) for s, part in found if part]
        case GapWindow(gap):
            parts = []
            for event in events:
                if not parts or event.ts - parts[-1][-1].ts >= gap:
                    parts.append([])
                parts[-1].append(event)
            return [_of(part) for part in parts]
        case FreeWindow():
            return list(_free(shape, events))


def _of(events: list[Event], *, complete: bool = True) -> Alone:
    return Alone(events[0].ts, events[-1].ts, events, complete)


def _free(shape: FreeWindow, events: list[Event]) -> Iterator[Alone]:
    """Conditions with state see all events and all windows, so this cuts them side by side."""
    state = () if shape.state is None else ([*shape.state],)
    open_: list[Alone] = []
    for event in events:
        if _holds(shape.open, event, state):
            open_.append(_of([event], complete=False))
            open_[-1].events = []
        for mine in list(open_):
            mine.events.append(event)
            mine.end = event.ts
            if _holds(shape.close, event, (mine.span, *state)):
                mine.complete = True
                open_.remove(mine)
                yield mine
    yield from open_


def _holds(condition: Any, event: Event, more: tuple[Any, ...]) -> bool:
    if hasattr(condition, "holds"):
        return bool(condition.holds(event, {}))
    return bool(condition(event, *more))


# The truth


def truth(
    shape: Window, operator: Any, events: Iterable[Event], by: str | None = None
) -> Counter[Content]:
    """Sort, cut, run each window alone; equal events of overlapping windows count once."""
    keys: dict[Any, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.ts):
        keys.setdefault(event[by] if by else None, []).append(event)
    found: Counter[Content] = Counter()
    for key, mine in keys.items():
        every = [Counter(_made(operator, w, by, key)) for w in alone(shape, mine)]
        join: Callable[..., Counter[Content]] = Counter.__add__
        if isinstance(operator, type) and shape.overlaps:
            join = Counter.__or__
        made: Counter[Content] = Counter()
        for one in every:
            made = join(made, one)
        found += made
    return found


def _made(operator: Any, mine: Alone, by: str | None, key: Any) -> list[Content]:
    if isinstance(operator, type):
        running, made = operator(), list[Event]()
        for event in mine.events:
            made += _listed(running.on_event(event))
        made += _listed(running.on_close(mine.span)) if hasattr(running, "on_close") else []
        return [content(event) for event in made]
    if operator is TOTALS:
        rows = [totals(mine.events)]
    elif operator is each:
        ts = [event.ts for event in mine.events if event["v"] == 3]
        rows = [{"ts": time, "share": len(mine.events)} for time in ts]
    else:
        v = [event["v"] for event in mine.events]
        rows = [{"spread": max(v) - min(v), "order": v}]
    about = {
        "window.start": mine.start, "window.end": mine.end, "window.count": len(mine.events),
        "window.complete": mine.complete,
    }  # fmt: skip
    named = {by: key} if by else {}
    return [content(Event("made", row.pop("ts", mine.end), named | row | about)) for row in rows]


def _listed(result: Any) -> list[Event]:
    if result is None:
        return []
    return [result] if isinstance(result, Event) else list(result)


PAYLOADS = st.fixed_dictionaries({"k": st.integers(0, 2), "v": st.integers(0, 3)})
