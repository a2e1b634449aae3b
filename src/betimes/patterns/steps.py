"""The model of a pattern: steps with conditions. Both front ends build it, both matchers read it.

A pattern is a sequence of steps. Each step says how it follows the one before (`op`), which events
it takes (`takes`), how many of them (`least`, `most`), and how they follow each other (`inner`). A
step may be a group, which contains steps and repeats as a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from betimes.model.errors import BetimesError
from betimes.model.event import Event

Op = Literal["begin", "next", "followed_by", "followed_by_any", "not_next", "not_followed_by"]
Inner = Literal["relaxed", "strict", "combinations"]
Bound = Mapping[str, Sequence[Event]]
"""The events bound so far in a run, by step name, in order; names without events are missing."""


class PatternError(BetimesError, ValueError):
    """A pattern is invalid, or exceeded its limit. Says what is wrong, where, and what to do."""


class Condition(Protocol):
    """Decides whether a step takes an event. It must depend only on its arguments."""

    @property
    def text(self) -> str:
        """The condition as text, for `explain()` and messages."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """The names of the steps whose bound events it reads."""
        ...

    def holds(self, event: Event, bound: Bound) -> bool: ...


@dataclass(frozen=True)
class Python:
    """A condition in Python: `f(event)`, or `f(event, bound)` if it reads earlier steps."""

    function: Callable[..., object]
    looks_back: bool

    @property
    def text(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"*"} if self.looks_back else ())

    def holds(self, event: Event, bound: Bound) -> bool:
        return bool(self.function(event, bound) if self.looks_back else self.function(event))


@dataclass(frozen=True)
class Step:
    """One step: the alternatives by which it binds an event or, if it is a group, its steps."""

    op: Op
    name: str
    takes: tuple[tuple[str, Condition | None], ...] = ()
    """Alternatives: the first that holds binds the event under its name. None always holds."""
    group: tuple[Step, ...] = ()
    least: int = 1
    most: int | None = 1
    optional: bool = False
    greedy: bool = False
    inner: Inner = "relaxed"
    until: Condition | None = None
    within: int | None = None
    """Microseconds since the event bound before it."""
    loop_within: int | None = None
    """Microseconds between the events of the loop."""

    @property
    def negated(self) -> bool:
        return self.op in ("not_next", "not_followed_by")

    @property
    def repeated(self) -> bool:
        """Whether it may bind several events, so that its columns become lists."""
        return self.most != 1


@dataclass(frozen=True)
class Spec:
    """A whole pattern, as both front ends pass it to the matchers."""

    steps: tuple[Step, ...]
    within: int | None = None
    """Microseconds from the first to the last event, exclusive."""
    skip: str = "none"
    """Which other runs a match ends: none, to_next, past_last, to_first:A, to_last:A."""
    skip_miss: Literal["ignore", "error"] = "ignore"
    """What to do if nothing is bound to the step that `skip` names."""
    only: Condition | None = None
    """The pattern ignores events that do not meet this condition."""
