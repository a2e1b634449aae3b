"""The pattern: what to look for, whose events to look at, and what to publish.

A pattern is configuration. It makes detectors, one for each key if it has a `by`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from betimes.model.duration import Duration, readable
from betimes.patterns.compiled import why_not
from betimes.patterns.conditions import types_for
from betimes.patterns.detector import PatternDetector
from betimes.patterns.growth import PatternWarning, grows
from betimes.patterns.matcher import Matcher
from betimes.patterns.payloads import Shape, everything, selected
from betimes.patterns.steps import Condition, Op, PatternError, Spec, Step
from betimes.patterns.text import parse_text
from betimes.patterns.wellformed import check, every
from betimes.patterns.where import check_conditions, step_names

Overflow = Literal["error", "side"]
OVERFLOW = "overflow"
"""The type of what is published when a pattern grew beyond its limit and `overflow="side"`."""
LIMIT = 100_000
"""Open partial matches of one key. Whoever needs more has a pattern that never closes."""
_SAID: dict[Op, str] = {
    "begin": "first",
    "next": "directly",
    "followed_by": "then",
    "followed_by_any": "then any",
    "not_next": "directly no",
    "not_followed_by": "no",
}


@dataclass(frozen=True)
class Pattern:
    """A pattern, ready to be added to a hierarchy; `pattern()` and the builder make them.

    >>> hits = pattern("A !B C", by="player", within="2s", emits="hit")
    >>> hits.inputs, hits.outputs
    (('A', 'B', 'C'), ('hit',))
    """

    spec: Spec
    emits: str | None = None
    """The type of the events that are published, one a match."""
    by: str | None = None
    """The payload column by which events are told apart; each key has matches of its own."""
    on: tuple[str, ...] | None = None
    """The types that are looked at, if not those that the conditions name."""
    name: str | None = None
    select: Mapping[str, str] | None = None
    """The payload: columns and what they hold. Without it, all columns of all bound events."""
    timeouts: str | None = None
    """The type under which partial matches that ran out of time are published, if at all."""
    limit: int = LIMIT
    overflow: Overflow = "error"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The types of events that it looks at; `*` is every type.

        They are those that its conditions name. It needs to see every event if a condition does
        not say, or if it asks for the very next event.
        """
        if self.on is not None:
            return self.on
        known = [
            types for types in (_types(self.spec), types_for(self.spec.only)) if types is not None
        ]
        if known:
            return tuple(sorted(frozenset.intersection(*known)))
        # Every input event, and of what other detectors publish that which is named.
        return ("*", *sorted(_named(self.spec)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The types of events that it publishes."""
        side = OVERFLOW if self.overflow == "side" else None
        return tuple(type for type in (self.emits, self.timeouts, side) if type is not None)

    def make(self) -> PatternDetector:
        """A new detector, which has seen nothing yet.

        >>> from betimes.model import Event
        >>> detector = pattern("A C", emits="hit", select={"rise": "C.v - A.v"}).make()
        >>> detector.on_event(Event("A", 1, {"v": 5}))
        >>> detector.on_event(Event("C", 2, {"v": 7}))
        [Event(type='hit', ts=2, payload={'rise': 2})]
        """
        self.check()
        if self.emits is None:
            raise PatternError("expected a type of event to publish, as in emits='hit', got none")
        return PatternDetector(self._matcher(), self.shapes())

    def check(self) -> None:
        """Raise if the pattern, or its options, make no sense."""
        check(self.spec)
        check_conditions(self.spec.steps)
        if len(set(self.outputs)) < len(self.outputs):
            raise PatternError(
                f"expected different types for what is published, got {list(self.outputs)}"
            )
        if self.timeouts is not None and not _ends(self.spec):
            raise PatternError(
                f"expected within, such as within='2s', got timeouts={self.timeouts!r} without it: "
                "a partial match that may take for ever does not run out of time"
            )
        if not self.inputs:
            raise PatternError(
                "expected conditions that some type of event can fulfil, got steps that only "
                f"take {sorted(_types(self.spec) or ())} and where={_text(self.spec.only)!r}"
            )
        if type(self.limit) is not int or self.limit < 1:
            raise PatternError(
                f"expected limit to be a number of partial matches, got limit={self.limit!r}"
            )
        if self.overflow not in ("error", "side"):
            raise PatternError(
                f"expected overflow to be 'error' or 'side', got overflow={self.overflow!r}"
            )
        self.shapes()

    def warn_of_growth(self) -> None:
        """Warn if its partial matches could become more and more."""
        if self.bounded:
            return
        for reason in grows(self.spec):
            warnings.warn(
                f"pattern {self.name or self.emits!r}: {reason}; until then at most limit="
                f"{self.limit:,} partial matches of a key are kept",
                PatternWarning,
                stacklevel=4,
            )

    def explain(self) -> str:
        """What it looks for, in words, and which matcher does it.

        >>> print(pattern("A !B C+", by="player", within="2s", emits="hit").explain())
        hit: A, B, C -> hit, by player
          first  A   type == 'A'
          no     !B  type == 'B'
          then   C+  type == 'C'
        within 2 s, skip past_last
        matcher: general, event by event, because C is optional or repeated
        """
        keyed = f", by {self.by}" if self.by else ""
        wired = f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}{keyed}"
        lines = [f"{self.name or self.emits}: {wired}"]
        rows = list(_rows(self.spec.steps))
        said, named = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines += [f"  {row[0]:{said}}  {row[1]:{named}}  {row[2]}".rstrip() for row in rows]
        if self.spec.only is not None:
            lines.append(f"only events with {self.spec.only.text}")
        within = f"within {readable(self.spec.within)}, " if self.spec.within else ""
        lines.append(f"{within}skip {self.spec.skip}")
        lines.append(f"matcher: {self._why()}")
        return "\n".join(lines)

    @property
    def bounded(self) -> bool:
        """Whether it runs compiled with never more partial matches of a key than it has steps."""
        return self.why_general() is None and not any(
            condition is not None and condition.reads
            for step in self.spec.steps
            for _, condition in step.takes
        )

    def why_general(self) -> str | None:
        """Why the pattern cannot run compiled, over columns; None if it can."""
        if self.timeouts is not None:
            return f"it publishes what timed out, as {self.timeouts!r}"
        if self.overflow == "side":
            return "it publishes what overflows"
        return why_not(self.spec)

    def _matcher(self) -> Matcher:
        timeouts = self.timeouts is not None
        return Matcher(self.spec, limit=self.limit, overflow=self.overflow, timeouts=timeouts)

    def _why(self) -> str:
        """Which matcher runs it, and why."""
        why = self.why_general()
        if why is None:
            return "compiled, over columns, where it reads input events"
        return f"general, event by event, because {why}"

    def shapes(self) -> dict[str, tuple[str, Shape]]:
        """For each kind of match that is published, its type and what makes its payload."""
        found = step_names(self.spec.steps)
        whole = everything(found)
        shape = whole if self.select is None else selected(self.select, found)
        types = {"match": (self.emits, shape), "timeout": (self.timeouts, shape)}
        if self.overflow == "side":
            types["overflow"] = (OVERFLOW, whole)
        return {kind: (type, shape) for kind, (type, shape) in types.items() if type is not None}


def pattern(
    text: str,
    *,
    emits: str | None = None,
    by: str | None = None,
    within: Duration | None = None,
    define: Mapping[str, object] | None = None,
    where: object = None,
    skip: str = "past_last",
    select: Mapping[str, str] | None = None,
    timeouts: str | None = None,
    on: str | Sequence[str] | None = None,
    name: str | None = None,
    limit: int = LIMIT,
    overflow: Overflow = "error",
) -> Pattern:
    """A pattern from its text.

    >>> rising = pattern(
    ...     "A B+ C",
    ...     define={"A": "type == 'tick'", "B": "type == 'tick' and v > A.v", "C": "type == 'end'"},
    ...     where="player == 'P7' and avg(B.v) > 5",
    ...     emits="rise",
    ... )
    """
    pattern = Pattern(
        parse_text(text, define, where, within, skip),
        emits=_name(emits, "emits"),
        by=_name(by, "by"),
        on=_names(on),
        name=_name(name, "name"),
        select=select,
        timeouts=_name(timeouts, "timeouts"),
        limit=limit,
        overflow=overflow,
    )
    pattern.check()
    return pattern


def _name(value: str | None, option: str) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise PatternError(f"expected {option} to be a name, got {option}={value!r}")


def _names(on: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if on is None:
        return None
    names = (on,) if isinstance(on, str) else tuple(on)
    if not names or not all(isinstance(each, str) and each for each in names):
        raise PatternError(f"expected on to be one or more types of events, got on={on!r}")
    return names


def _ends(spec: Spec) -> bool:
    windows = (each for step in every(spec.steps) for each in (step.within, step.loop_within))
    return spec.within is not None or any(window is not None for window in windows)


def _named(spec: Spec) -> set[str]:
    """The types that its steps name."""
    conditions = [condition for step in every(spec.steps) for _, condition in step.takes]
    return {type for condition in conditions for type in types_for(condition) or ()}


def _types(spec: Spec) -> frozenset[str] | None:
    """The types that its steps can take; None if all must be seen."""
    types: set[str] = set()
    for step in every(spec.steps):
        conditions = [condition for _, condition in step.takes]
        if step.until is not None:
            conditions.append(step.until)
        each = [types_for(condition) for condition in conditions]
        if step.op in ("next", "not_next") or step.inner == "strict" or None in each:
            return None
        types.update(*(known for known in each if known is not None))
    return frozenset(types)


def _rows(steps: Iterable[Step], indent: str = "") -> Iterator[tuple[str, str, str]]:
    """For each step how it follows, its name, and its condition."""
    for step in steps:
        times = _times(step)
        name = f"({step.name}){times}" if times and len(step.takes) > 1 else step.name + times
        if step.group:
            yield indent + _SAID[step.op], name, ""
            yield from _rows(step.group, indent + "  ")
            continue
        said = [_text(condition) for _, condition in step.takes]
        until = f", until {step.until.text}" if step.until else ""
        window = f", within {readable(step.within)}" if step.within else ""
        yield indent + _SAID[step.op], name, " | ".join(said) + until + window


def _times(step: Step) -> str:
    """How often, as it is written in a pattern."""
    least = 0 if step.optional and step.least == 1 else step.least
    short = {(1, 1): "", (0, 1): "?", (1, None): "+", (0, None): "*"}.get((least, step.most))
    if short is not None:
        return short
    if least == step.most:
        times = f"{{{least}}}"
    else:
        times = f"{{{least},{'' if step.most is None else step.most}}}"
    return times + ("?" if step.optional and least else "")


def _text(condition: Condition | None) -> str:
    return "any event" if condition is None else condition.text
