"""What a window is: a number of events, a span of time, a session, or what conditions say.

These are options, checked when they are written down; `cutting.py` turns them into windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from betimes.model.duration import Duration, microseconds, readable
from betimes.model.errors import OptionError
from betimes.model.hints import known_options
from betimes.model.identity import fact
from betimes.patterns.conditions import Expression, condition

LIMIT = 100_000
"""The most events of a window that nothing else bounds, unless `limit` says otherwise."""
MOST = 10**12
OVERLAP = 100_000
"""The most windows of time that an event may belong to."""


@dataclass(frozen=True)
class CountWindow:
    """`size` events; every `slide` events, another window begins."""

    size: int
    slide: int

    before = 0

    @property
    def overlaps(self) -> bool:
        return self.slide < self.size

    @property
    def text(self) -> str:
        return f"{self.size} events every {self.slide}"

    def facts(self) -> dict[str, str]:
        return {"window": self.text}


@dataclass(frozen=True)
class TimeWindow:
    """From `offset + n * slide` on, `size` microseconds; the end is not part of it."""

    size: int
    slide: int
    offset: int = 0

    @property
    def before(self) -> int:
        """How long before an event a window may begin that begins with it."""
        return self.size

    @property
    def overlaps(self) -> bool:
        return self.slide < self.size

    @property
    def text(self) -> str:
        shifted = f", shifted by {readable(self.offset)}" if self.offset else ""
        return f"{readable(self.size)} every {readable(self.slide)}{shifted}"

    def facts(self) -> dict[str, str]:
        shifted = f" from {self.offset}" if self.offset else ""
        return {"window": f"{self.size} us every {self.slide}{shifted}"}


@dataclass(frozen=True)
class GapWindow:
    """A session: events that follow each other after less than `gap`."""

    gap: int
    limit: int = LIMIT
    before = 0
    overlaps = False

    @property
    def text(self) -> str:
        return f"until a gap of {readable(self.gap)}, at most {self.limit:,} events"

    def facts(self) -> dict[str, str]:
        return {"window": f"until a gap of {self.gap} us", "limit": str(self.limit)}


@dataclass(frozen=True)
class FreeWindow:
    """From an event at which `open` holds to one at which `close` holds, both included."""

    open: Any
    close: Any
    state: Any = None
    limit: int = LIMIT
    before = 0
    overlaps = True

    @property
    def text(self) -> str:
        """What it is, for people."""
        facts = self.facts()
        return f"from {facts['open']} to {facts['close']}, at most {self.limit:,} events"

    def facts(self) -> dict[str, str]:
        parts = {name: getattr(self, name) for name in ("open", "close", "state")}
        return {
            name: part.text if isinstance(part, Expression) else fact(part)
            for name, part in parts.items()
        } | {"limit": str(self.limit)}


Window = CountWindow | TimeWindow | GapWindow | FreeWindow


@known_options
def window(
    *,
    count: int | None = None,
    time: Duration | None = None,
    gap: Duration | None = None,
    open: str | Callable[..., bool] | None = None,  # noqa: A002
    close: str | Callable[..., bool] | None = None,
    slide: int | Duration | None = None,
    offset: Duration | None = None,
    state: Any = None,
    limit: int | None = None,
) -> Window:
    """What a window is, for `windowed`.

    Parameters
    ----------
    count, slide
        So many events; another window begins every `slide` events (by default, when one ends).
        What counts is the position in the ordered stream: a late event moves all later windows.
    time, slide, offset
        So much time; another window begins every `slide`. Windows are aligned to the epoch, or
        shifted by `offset`. An event at the end of a window belongs to the next one.
    gap
        A session: it ends when no event has come for this long.
    open, close, state
        From an event at which `open` holds to the first at which `close` holds; the same event may
        do both, and windows may overlap. Both are conditions as text, as in patterns, or functions:
        `open(event)` and `close(event, window)`, where `window` has `start`, `count` and `first`,
        its first event. With `state`, plain data or a function that makes some, both get a copy
        of it as the last argument, one per key, and may change it.
    limit
        The most events of a session or of a window with conditions, 100,000 unless you say
        otherwise: more is an error that names the window.

    >>> window(count=100, slide=20)
    CountWindow(size=100, slide=20)
    >>> window(time="10s", slide="2s")
    TimeWindow(size=10000000, slide=2000000, offset=0)
    >>> window(time="2s", slide="10s")
    Traceback (most recent call last):
    ...
    betimes.model.errors.OptionError: expected slide to be at most the size of the window, or \
events between two windows would be in none, got time='2s', slide='10s'
    """
    kinds = {"count": count, "time": time, "gap": gap, "open": open}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) != 1:
        raise OptionError(
            "expected a window to have exactly one of count, time, gap and open, got "
            + (", ".join(f"{name}={kinds[name]!r}" for name in given) or "none of them")
        )
    (kind,) = given
    options = {
        "slide": slide, "offset": offset, "close": close, "state": state, "limit": limit
    }  # fmt: skip
    known = {
        "count": ("slide",), "time": ("slide", "offset"), "gap": ("limit",),
        "open": ("close", "state", "limit"),
    }[kind]  # fmt: skip
    for name, value in options.items():
        if value is not None and name not in known:
            raise OptionError(
                f"a window with {kind}= has no {name}=, got {name}={value!r}; it has "
                f"{', '.join(known)}"
            )
    most = LIMIT if limit is None else _whole(limit, "limit")
    if count is not None:
        size = _whole(count, "count")
        step = size if slide is None else _whole(slide, "slide")
        return CountWindow(size, _within(step, size, "count", count, slide))
    if time is not None:
        size = _positive(time, "time")
        step = size if slide is None else _positive(slide, "slide")
        step = _within(step, size, "time", time, slide)
        if size // step > OVERLAP:
            raise OptionError(
                f"expected an event to belong to at most {OVERLAP:,} windows, got {size // step:,} "
                f"with time={time!r}, slide={slide!r}; let windows begin less often"
            )
        return TimeWindow(size, step, 0 if offset is None else microseconds(offset, "offset"))
    if gap is not None:
        return GapWindow(_positive(gap, "gap"), most)
    if close is None:
        raise OptionError("a window with open= never ends without close=; add it")
    return FreeWindow(_predicate(open, "open"), _predicate(close, "close"), state, most)


def _whole(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        if value <= MOST:
            return value
        raise OptionError(f"expected {name} to be at most {MOST:,} events, got {name}={value:,}")
    raise OptionError(f"expected {name} to be a number of events, 1 or more, got {name}={value!r}")


def _positive(value: Any, name: str) -> int:
    size = microseconds(value, name)
    if size == 0:
        raise OptionError(f"expected {name} to be longer than 0, got {name}={value!r}")
    return size


def _within(step: int, size: int, name: str, given: object, slide: object) -> int:
    if step <= size:
        return step
    raise OptionError(
        "expected slide to be at most the size of the window, or events between two windows would "
        f"be in none, got {name}={given!r}, slide={slide!r}"
    )


def _predicate(value: object, name: str) -> Expression | Callable[..., bool]:
    """A condition as text becomes a condition of patterns; a function stays what it is."""
    if isinstance(value, str):
        checked = condition(value, name)
        assert isinstance(checked, Expression)
        if checked.reads:
            raise OptionError(
                f"expected {name} to look at the columns of one event, got {name}={value!r}, which "
                f"asks for {sorted(checked.reads)}; use a function of (event, window)"
            )
        return checked
    if callable(value):
        return value
    raise OptionError(
        f"expected {name} to be a condition as text or a function, got {name}={value!r}"
    )
