"""How busy the loop is that an engine runs in, and what each detector contributes to it.

What limits speculation is not the time that detectors take but whether anything is left of the time
there is. So the *busy factor* is that of the whole loop: the share of a span that was not idle.
Feeds that follow each other without a pause make 1, whatever the time between them was spent on.

Idle is the time between two calls of an engine, with three exceptions:

* Gaps of less than `SHORT` are no pauses: nothing can sleep for so short a time, and a loop that
  takes one event at a time has nothing but such gaps. Calls that are over before anybody looks at a
  clock are only counted (`passed`): they cut a gap into as many shorter ones.
* What the thread computes in a gap (reading a source, writing to a sink) is work. If it has not
  waited for anything, all of the gap was work, even if other processes had the processor meanwhile.
* What the caller does inside `with meter:` is work, even if it only waits, say for a disk.

Several engines that take turns in one thread share a meter: each then sees the load of all.

A clock that somebody sets back would stop the control loop until it has caught up. So a meter goes
on from where it was, and everything that is compared with its time is measured by its time.
"""

from __future__ import annotations

import sys
import time as wall
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident

from betimes.engine.stats import StageCounts
from betimes.model.errors import OptionError

if sys.platform == "linux":
    import resource

SHORT = 50e-6
"""Seconds. A shorter time between two calls is no pause."""

STEADY = (wall.perf_counter, wall.monotonic)
"""Clocks of this machine that are never set back."""

Clock = Callable[[], float]
Effort = Callable[[], tuple[float, int | None]]


def of_thread() -> tuple[float, int | None]:
    """How long this thread has computed, and how often it has waited, if the system knows that."""
    if sys.platform != "linux":
        return wall.thread_time(), None
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_utime + usage.ru_stime, usage.ru_nvcsw


def onward(clock: Clock) -> Clock:
    """A clock that is never set back: it goes on from where it was."""
    if clock in STEADY:
        return clock
    last, ahead = clock(), 0.0

    def time() -> float:
        nonlocal last, ahead
        now = clock()
        ahead += max(0.0, last - now)
        last = now
        return now + ahead

    return time


class LoadMeter:
    """Tells how long a loop was idle.

    Parameters
    ----------
    time : time.perf_counter
        The wall clock, in seconds.
    effort : None
        Tells how long the calling thread has computed, and how often it has waited. The thread
        tells it itself if `time` is a clock of this machine, and not simulated.

    >>> clock = iter([0.0, 0.0, 3.0, 4.0, 4.0]).__next__
    >>> meter = LoadMeter(clock)
    >>> with meter:
    ...     pass
    >>> meter.idle, meter.time()
    (3.0, 4.0)
    """

    def __init__(
        self,
        time: Clock = wall.perf_counter,
        *,
        effort: Effort | None = None,
    ) -> None:
        if not callable(time):
            raise OptionError(
                f"expected a clock, a function that returns seconds, got time={time!r}"
            )
        self.clock = time
        self.time = onward(time)
        self.idle = 0.0
        """Seconds without work so far."""
        self.passed = 0
        """Calls since the last work that were too short to be measured."""
        self._effort = of_thread if effort is None and time in (*STEADY, wall.time) else effort
        self._depth = 0
        self._since = self.time()
        """When the last work ended."""
        self.paused = self._since
        """When it was idle last."""
        self._before: tuple[int, tuple[float, int | None]] | None = None
        """The thread that did it, and its effort by then."""
        self._pauses = False
        """Whether there was a pause before the last work: then another one is likely."""

    @classmethod
    def of(cls, time: Clock, load: LoadMeter | None) -> LoadMeter:
        """The meter of an engine: its own, or the one that it shares."""
        if load is None:
            return cls(time)
        if not isinstance(load, LoadMeter):
            raise OptionError(f"expected load to be a LoadMeter, got load={load!r}")
        if time not in (wall.perf_counter, load.clock):
            raise OptionError(
                f"expected one clock, got time={time!r} and a load= that has another; "
                "give it to the LoadMeter alone"
            )
        return load

    def __enter__(self) -> LoadMeter:
        if self._depth == 0:
            gap = self.time() - self._since
            self._pauses = gap >= SHORT
            if gap >= SHORT * (1 + self.passed) and (idle := self._idle_in(gap)):
                self.idle += idle
                self.paused = self._since + gap
            self.passed = 0
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._since = self.time()
            self._before = None
            if self._pauses and self._effort is not None:
                self._before = get_ident(), self._effort()

    def _idle_in(self, gap: float) -> float:
        """How much of a gap was idle."""
        if self._before is None or self._effort is None:
            return gap
        thread, (computed, waited) = self._before
        if thread != get_ident():
            return gap
        computes, waits = self._effort()
        if waits is not None and waits == waited:
            return 0.0
        return max(0.0, gap - (computes - computed))


@dataclass(frozen=True)
class Span:
    """A stretch of time, and how busy the loop was in it."""

    seconds: float = 0.0
    busy_factor: float = 0.0


class Spans:
    """Cuts the time of a meter into spans.

    A span is over after a given time. It is over sooner if it has no pause, and there was none for
    that long: an overload that begins within a span is then known before the next one is over.
    """

    def __init__(self, meter: LoadMeter) -> None:
        self._meter = meter
        self._began, self._idle = meter.time(), meter.idle
        self._cut = self._began
        """When the last span ended that was over sooner."""
        self.last = Span()

    def next(self, least: float) -> Span | None:
        """The span that ends now, if it is over; usually, it takes at least this many seconds."""
        now, paused = self._meter.time(), self._meter.paused
        seconds = now - self._began
        if seconds < least:
            if not seconds or paused > self._began or now - max(paused, self._cut) < least:
                return None
            self._cut = now
        idle = self._meter.idle - self._idle
        self._began, self._idle = now, self._meter.idle
        self.last = Span(seconds, min(max(1.0 - idle / seconds, 0.0), 1.0))
        return self.last


@dataclass(frozen=True)
class Load:
    """What a stage did in the last span."""

    busy: float
    replaying: float
    released: int
    slack: int

    def __add__(self, other: Load) -> Load:
        """The load of two stages of one detector, for different keys."""
        return Load(
            self.busy + other.busy,
            self.replaying + other.replaying,
            self.released + other.released,
            max(self.slack, other.slack),
        )


class StageMeter:
    """Measures what a stage does between two readings."""

    def __init__(self, counts: StageCounts) -> None:
        self._counts = counts
        self._before = (0.0, 0.0, 0)
        self.last: Load | None = None

    def read(self, slack: int) -> Load:
        counts, before = self._counts, self._before
        self._before = (counts.busy, counts.replaying, counts.handled)
        self.last = Load(
            busy=counts.busy - before[0],
            replaying=counts.replaying - before[1],
            released=counts.handled - before[2],
            slack=slack,
        )
        return self.last
