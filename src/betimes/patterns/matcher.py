"""The general matcher: all runs of a pattern's automaton, event by event.

**Terms.** A *run* waits in a state of the automaton (see `automaton`). It is identified by its
*start*, the first event it has bound: the time of that event, and how many events of that time were
bound before it. A run ends when its window ends. In a pending state it is then a match, otherwise
it has *timed out*. A match that must wait for runs that started before it is *held*.

**An event** first advances the time. Runs that time out by then are reported in the order in which
they do, so it makes no difference whether time advances in small or large steps. Then each run does
what the automaton says. The branches of a run replace it: first those that take the event, then
those that ignore it, then those that leave. Runs that start with the event come last. So runs are
always in the order of their starts, and of two with the same start, the one that took what it could
comes first.

**Skipping.** Without a skip strategy, a match is reported when it is complete. With one, it is held
while an earlier run is open, because that run could still become a match that removes it. When it
is reported, the strategy decides which runs and held matches are removed.

**Invariant.** `state` is everything: plain data that is never changed, only replaced. So taking it
costs nothing, and after putting it back the matcher continues exactly from there.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import msgspec

from betimes.model.event import Event
from betimes.patterns.asking import Asking, Fate
from betimes.patterns.automaton import FINAL, START, automaton
from betimes.patterns.bindings import EMPTY, Row, bind, bindings
from betimes.patterns.steps import PatternError, Spec

Start = tuple[int, int]
"""The time of a run's first event, and how many of that time were bound before it."""
Run = tuple[int, Start, int, Row]
"""The state in which it waits, its start, the time of the event bound last, and what is bound."""
Held = tuple[Start, int, Row]
"""The start of a match, its time, and what is bound."""
Kind = Literal["match", "timeout", "overflow"]
END = 2**63 - 1
"""A time at which every window has ended."""


class Match(msgspec.Struct, frozen=True):
    """Bound events, each with the name of its step, in the order in which they were bound."""

    bound: tuple[tuple[str, Event], ...]
    ts: int
    """The time of the last event; if the end of a window decided, that instant."""
    kind: Kind = "match"


class Matcher:
    """Finds the matches of a pattern in events that arrive in order of time.

    >>> from betimes.patterns.steps import Python, Step
    >>> is_a, is_b = (Python(lambda e, t=type: e.type == t, False) for type in "AB")
    >>> steps = Step("begin", "a", (("a", is_a),)), Step("followed_by", "b", (("b", is_b),))
    >>> matcher = Matcher(Spec(steps, within=5), limit=100)
    >>> matcher.on_event(Event("A", 1)), matcher.on_event(Event("C", 2))
    ([], [])
    >>> [name for name, _ in matcher.on_event(Event("B", 3))[0].bound]
    ['a', 'b']
    """

    def __init__(
        self,
        spec: Spec,
        *,
        limit: int,
        overflow: Literal["error", "side"] = "error",
        timeouts: bool = False,
    ) -> None:
        self._automaton = automaton(spec)
        self._only = spec.only
        self._skip = None if spec.skip == "none" else _Skip(spec)
        self._limit = limit
        self._overflow = overflow
        self._timeouts = timeouts
        self._asking = Asking(self._automaton)
        states = self._automaton.states
        self._windows = any(state.window is not None for state in states)
        self._pending = frozenset(number for number, state in enumerate(states) if state.pending)
        self._marked: Start | None = None
        """The last bound event; the next one of the same time continues its count."""
        self._runs: tuple[Run, ...] = ()
        self._held: tuple[Held, ...] = ()

    @property
    def state(self) -> Any:
        """The whole state of the matcher, as immutable data."""
        return self._marked, self._runs, self._held

    @state.setter
    def state(self, state: Any) -> None:
        self._marked, self._runs, self._held = state

    @property
    def deadline(self) -> int | None:
        """When `on_time` has something to report, if no event arrives before; None if never."""
        if not self._runs:
            return None
        if self._held:
            end = self._next_end()
            return END if end is None else end
        if self._automaton.within is None and not self._windows:
            return None
        if self._timeouts:
            return self._next_end()
        if not self._pending:
            return None
        ends = [self._end(run) for run in self._runs if run[0] in self._pending]
        return min((end for end in ends if end is not None), default=None)

    def on_time(self, ts: int) -> list[Match]:
        """What times out by a time, and what can be reported because of that."""
        found: list[Match] = []
        if self._held or self._timeouts or self._pending or self._windows:
            while (end := self._next_end()) is not None and end <= ts:
                self._expire(end, found)
        else:
            self._drop(ts)
        if ts >= END and self._held:
            self._release([], [], found)  # no open run can become a match any more
        self._forget()
        return found

    def on_event(self, event: Event) -> list[Match]:
        """What times out by the time of the event, then what the event completes."""
        before = self.state
        found = self.on_time(event.ts) if self._runs else []
        if self._only is not None and not self._only.holds(event, {}):
            return found
        moved = self._moved(event, found if self._timeouts else [])
        if moved is None:
            return found
        self._release(*moved, found)
        if len(self._runs) + len(self._held) > self._limit:
            self._cut(before, found)
        self._forget()
        return found

    def _forget(self) -> None:
        """Return to the initial state when nothing is open."""
        if not self._runs and not self._held:
            self._marked = None

    def _moved(self, event: Event, over: list[Match]) -> tuple[list[Run], list[Held]] | None:
        """All runs after an event, and those that it completes; None if nothing moves.

        Runs that leave for a state whose window has ended are added to `over`.
        """
        asking, ts, marked = self._asking, event.ts, self._marked
        asking.about(event)
        count = marked[1] + 1 if marked is not None and marked[0] == ts else 0
        runs: list[Run] = []
        done: list[Held] = []
        moves = bound = False
        for run in self._runs:
            fate = asking.fate(run[0], run[3])
            if fate.stays:
                runs.append(run)
            else:
                moves = True
                bound |= _branch(fate, run, event, count, runs, done)
                if self._windows:
                    over += _too_late(fate, run, event)
        fate = asking.fate(START, EMPTY)
        if fate.branches:
            bound |= _branch(fate, (START, (ts, count), ts, EMPTY), event, count, runs, done)
        elif not moves:
            return None
        if bound:
            self._marked = ts, count
        return runs, done

    def _release(self, runs: list[Run], done: list[Held], found: list[Match]) -> None:
        """Report complete matches that need not wait; hold the others."""
        if self._skip is None:
            self._runs = tuple(runs)
            found += [_match(row, ts) for _, ts, row in done]
            return
        held = sorted((*self._held, *done), key=_start) if done else list(self._held)
        while held and not (runs and runs[0][1] < held[0][0]):
            _, ts, row = held.pop(0)
            found.append(_match(row, ts))
            until = self._skip.until(row)
            if until is not None:
                runs = [run for run in runs if run[1] >= until]
                held = [each for each in held if each[0] >= until]
        self._runs, self._held = tuple(runs), tuple(held)

    def _end(self, run: Run) -> int | None:
        """When the run's window ends."""
        within = self._automaton.within
        end = None if within is None else run[1][0] + within
        window = self._automaton.states[run[0]].window
        if window is None or (end is not None and end <= run[2] + window):
            return end
        return run[2] + window

    def _next_end(self) -> int | None:
        if self._windows:
            ends = [self._end(run) for run in self._runs]
            return min((end for end in ends if end is not None), default=None)
        # All windows have the same length, and the first run started first.
        return self._end(self._runs[0]) if self._runs else None

    def _drop(self, ts: int) -> None:
        """Drop runs that have timed out, without reporting them."""
        if self._automaton.within is not None and self._runs:
            since = ts - self._automaton.within
            if self._runs[0][1][0] <= since:
                self._runs = tuple(run for run in self._runs if run[1][0] > since)

    def _expire(self, at: int, found: list[Match]) -> None:
        """End the runs whose windows end at an instant."""
        runs: list[Run] = []
        done: list[Held] = []
        for run in self._runs:
            state, start, last, row = run
            end, here = self._end(run), self._automaton.states[state]
            within = self._automaton.within
            if end is None or end > at:
                runs.append(run)
            elif here.pending:
                done.append((start, at, row))
            else:
                if here.late is not None and (within is None or start[0] + within > at):
                    runs.append((here.late, start, last, row))
                if self._timeouts:
                    found.append(_match(row, at, "timeout"))
        self._release(runs, done, found)

    def _cut(self, before: Any, found: list[Match]) -> None:
        """Report that too many runs are open."""
        if self._overflow == "error":
            steps = Counter(self._automaton.states[run[0]].step for run in self._runs)
            open_, held = len(self._runs), len(self._held)
            self.state = before
            raise PatternError(
                f"the pattern has {open_} open partial matches and {held} matches that wait for "
                f"them, more than limit={self._limit}; {steps.most_common(1)[0][1]} wait at step "
                f"{steps.most_common(1)[0][0]!r}. Bound them with within=, or with until() if it "
                "is a loop; let matches end more of them with skip='past_last'; or raise limit="
            )
        while len(self._runs) + len(self._held) > self._limit:
            _, _, last, row = self._runs[0]
            found.append(_match(row, last, "overflow"))
            self._release(list(self._runs[1:]), [], found)


def _branch(
    fate: Fate, run: Run, event: Event, count: int, runs: list[Run], done: list[Held]
) -> bool:
    """Add the branches of a run; return whether one of them has bound the event."""
    _, start, last, row = run
    bound = False
    for target, name, ends, pends, within in fate.branches:
        if within is not None and event.ts - last >= within:
            continue
        if name is None:
            if target == FINAL:
                done.append((start, last, row))
            elif not fate.stops:
                runs.append((target, start, last, row))
            continue
        bound = True
        longer = bind(row, (name, event, count))
        if ends or target == FINAL:
            done.append((start, event.ts, longer))
        if not fate.stops and target != FINAL:
            runs.append((target, start, event.ts, longer))
            if pends is not None:
                runs.append((pends, start, event.ts, longer))
    return bound


def _too_late(fate: Fate, run: Run, event: Event) -> list[Match]:
    """The branches of a run for which the event came too late."""
    _, _, last, row = run
    windows = {each.within for each in fate.branches if each.within is not None}
    ended = sorted(last + window for window in windows if event.ts - last >= window)
    return [] if fate.stops else [_match(row, at, "timeout") for at in ended]


def _start(held: Held) -> Start:
    return held[0]


def _match(row: Row, ts: int, kind: Kind = "match") -> Match:
    return Match(tuple((name, event) for name, event, _ in bindings(row)), ts, kind)


class _Skip:
    """A skip strategy: which runs are removed after a match, by their starts."""

    def __init__(self, spec: Spec) -> None:
        self._strategy, _, self._step = spec.skip.partition(":")
        self._strict = spec.skip_miss == "error"

    def until(self, row: Row) -> Start | None:
        """The first start that is kept; None if all are."""
        bound = [(name, (event.ts, count)) for name, event, count in bindings(row)]
        if self._strategy == "to_next":
            return _after(bound[0][1])
        if self._strategy == "past_last":
            return _after(bound[-1][1])
        there = [start for name, start in bound if name == self._step]
        if self._strict and (not there or there[self._index] == bound[0][1]):
            what = "is the first event of" if there else "has no event in"
            raise PatternError(
                f"cannot skip to {self._step!r}, which {what} the match {_match(row, 0).bound}; "
                "skip to a step that is in every match and not its first, or pass miss='ignore'"
            )
        return there[self._index] if there else None

    @property
    def _index(self) -> int:
        return 0 if self._strategy == "to_first" else -1


def _after(start: Start) -> Start:
    return start[0], start[1] + 1
