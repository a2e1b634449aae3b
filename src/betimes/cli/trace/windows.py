"""`betimes trace --windows`: a splitter behind the unit, what it sends, and its windows."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import msgspec

from betimes.cli.trace.arrivals import parse
from betimes.cli.trace.rows import Row, Traced
from betimes.engine.news.outputs import Place
from betimes.engine.snapshots.spacing import EveryEvents
from betimes.model import OptionError
from betimes.windows import window
from betimes.windows.cutting import END as END_OF_TIME
from betimes.windows.messages import ADD, END, EVENT, OPEN, Message
from betimes.windows.schedules import round_robin
from betimes.windows.splitter import Splitter
from betimes.windows.splitting import Cut, Entry

_EVERY = 8
"""Events between two snapshots of the splitter."""


class WindowRow(Row, frozen=True):
    """A row with what the splitter does (`--windows`)."""

    sent: dict[str, list[str]]
    """What it sends, by instance."""
    windows: list[str]
    """Its windows: number, instance, whether it is open, and the events, the newest first."""


class Tracer:
    """A splitter with instances that only listen."""

    def __init__(self, shape: str, instances: int) -> None:
        if not 1 <= instances <= 99:
            raise OptionError(f"expected --instances to be from 1 to 99, got {instances}")
        self._splitter = Splitter(
            window(**_options(shape)), instances, round_robin, EveryEvents(_EVERY),
            time=lambda: 0.0, fail=_fail, mend=lambda _key, _place: None,
        )  # fmt: skip
        self._key = self._splitter.key(None)
        self._arrived: defaultdict[str, deque[int]] = defaultdict(deque)
        """The numbers of events that have arrived and were not handed on, by name."""
        self._count = 0

    def follow(self, traced: Traced) -> Traced:
        """Add to a row what the splitter makes of it."""
        row = traced.row
        if row.event is not None:
            self._arrived[row.event].append(self._count)
            self._count += 1
        entries = []
        for event in [*row.replayed, *row.released]:
            if self._arrived[event]:
                (parsed,) = parse([event])
                place = (parsed.ts, 0, self._arrived[event].popleft())
                entries.append(Entry(place, parsed, 0))
        if entries:
            self._key.put(sorted(entries, key=lambda entry: entry.place))
        self._key.advance(END_OF_TIME if row.event is None else -1, -1)
        self._splitter.tell(self._key)
        self._key.rest()
        sent = {
            str(number): [_short(message) for message in parcel.messages]
            for number, parcel in self._splitter.parcels()
        }
        windows = [self._shown(cut) for cut in self._key.cuts]
        more = WindowRow(**msgspec.structs.asdict(row), sent=sent, windows=windows)
        return msgspec.structs.replace(traced, row=more)

    def _shown(self, cut: Cut) -> str:
        last: Place = (END_OF_TIME, 0, 0) if cut.closing is None else cut.closing.last
        inside = [str(e.place[0]) for e in self._key.entries if cut.first <= e.place <= last]
        state = "" if cut.closing is None else " closed"
        return f"{cut.id}@{cut.instance}{state}: {' '.join(reversed(inside))}"


def _options(shape: str) -> dict[str, Any]:
    """`count=4,slide=2` as options of `window`; plain digits are numbers."""
    options = {}
    for part in shape.split(","):
        name, _, value = part.partition("=")
        if not (name.strip() and value.strip()):
            raise OptionError(
                "expected --windows to be a window such as count=4,slide=2 or time=10,slide=5 or "
                f"gap=3, got {shape!r}"
            )
        options[name.strip()] = int(value) if value.strip().isdecimal() else value.strip()
    return options


def _fail(_key: Any, _place: Place, _event: Any, error: Exception) -> None:
    raise error


def _short(message: Message) -> str:
    """A message in a few words."""
    kind = message[0]
    if kind == END:
        return str(kind)
    if kind == EVENT:
        return f"{kind} {message[3][0]}"
    if kind == OPEN:
        return f"{kind} {message[2]} at {message[4][0]}"
    if kind == ADD:
        return f"{kind} {message[3][0]} to {message[2]}"
    return f"{kind} {message[2]}"
