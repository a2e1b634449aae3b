"""Schedules: which instance gets a window.

A schedule may look at the window's number among those of its key and at how many open windows each
instance has. Both are part of what a splitter goes back to, so a schedule has no state of its own,
and a replay gives a window to the instance that it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from betimes.model.errors import OptionError
from betimes.model.hints import did_you_mean
from betimes.windows.shapes import CountWindow, TimeWindow, Window

Schedule = Callable[[int, Sequence[int]], int]
"""From a window's number and the number of open windows of each instance, to an instance."""

SCHEDULES = ("round_robin", "least_loaded", "locality")
_TOGETHER = 4
"""Windows whose overlap is not known beforehand are given out in groups of this many."""


def round_robin(number: int, open_: Sequence[int]) -> int:
    """One after the other."""
    return number % len(open_)


def least_loaded(_number: int, open_: Sequence[int]) -> int:
    """The one with the fewest open windows."""
    return min(range(len(open_)), key=open_.__getitem__)


def locality(window: Window) -> Schedule:
    """Windows that overlap go to the same instance, so that an event goes to few of them."""
    together = _TOGETHER
    if isinstance(window, CountWindow | TimeWindow):
        together = -(-window.size // window.slide)

    def assign(number: int, open_: Sequence[int]) -> int:
        return number // together % len(open_)

    return assign


def parse_schedule(value: Any, window: Window) -> Schedule:
    """A schedule by its name, or a user's own function of the same arguments."""
    if value == "locality":
        return locality(window)
    if value in ("round_robin", "least_loaded"):
        return round_robin if value == "round_robin" else least_loaded
    if callable(value):
        return _checked(value)
    raise OptionError(
        f"expected schedule to be one of {', '.join(SCHEDULES)}, or a function of a window's "
        f"number and the open windows of each instance, got schedule={value!r}"
        + did_you_mean(value, SCHEDULES)
    )


def _checked(schedule: Schedule) -> Schedule:
    def assign(number: int, open_: Sequence[int]) -> int:
        instance = schedule(number, open_)
        if not isinstance(instance, int) or not 0 <= instance < len(open_):
            raise OptionError(
                f"expected the schedule to name an instance from 0 to {len(open_) - 1}, got "
                f"{instance!r} for window {number}"
            )
        return instance

    return assign
