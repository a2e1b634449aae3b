"""The pattern: what to look for, in which events, and what to publish.

A pattern is configuration. It makes detectors, one per key if it has a `by`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from betimes.model.duration import Duration, exact, readable
from betimes.model.hints import known_options
from betimes.model.identity import fact
from betimes.patterns.compiled import why_not
from betimes.patterns.conditions import TypeIs, types_for
from betimes.patterns.detector import PatternDetector
from betimes.patterns.growth import PatternWarning, grows
from betimes.patterns.matcher import Matcher
from betimes.patterns.oneline import options_of, text_of, window_of
from betimes.patterns.payloads import Shape, everything, plain_columns, selected
from betimes.patterns.steps import Condition, Op, PatternError, Spec, Step
from betimes.patterns.text import parse_text
from betimes.patterns.wellformed import check, every
from betimes.patterns.where import check_conditions, step_names

Overflow = Literal["error", "side"]
OVERFLOW = "overflow"
"""The type of the events published when a pattern exceeds its limit and `overflow="side"`."""
LIMIT = 100_000
"""Open partial matches per key. A pattern that needs more probably never closes them."""
_SAID: dict[Op, str] = {
    "begin": "first",
    "next": "directly",
    "followed_by": "then",
    "followed_by_any": "then any",
    "not_next": "directly no",
    "not_followed_by": "no",
}


@known_options
@dataclass(frozen=True)
class Pattern:
    """A pattern, ready to be added to a hierarchy; `pattern()` and the builder make them.

    >>> hits = pattern("A !B C", by="player", within="2s", emits="hit")
    >>> hits.inputs, hits.outputs
    (('A', 'B', 'C'), ('hit',))
    >>> hits
    Pattern('A !B C', emits='hit', by='player', within='2 s')
    """

    spec: Spec
    emits: str | None = None
    """The type of the events that it publishes, one per match."""
    by: str | None = None
    """The payload column that holds the key; each key is matched separately."""
    on: tuple[str, ...] | None = None
    """The types that it reads; by default those that its conditions name."""
    name: str | None = None
    select: Mapping[str, str] | None = None
    """The payload, as columns and expressions; by default all columns of all bound events."""
    timeouts: str | None = None
    """The type under which it publishes partial matches that ran out of time, if any."""
    limit: int = LIMIT
    overflow: Overflow = "error"

    def __repr__(self) -> str:
        own: dict[str, tuple[object, object]] = {
            "emits": (self.emits, None),
            "by": (self.by, None),
            "on": (self.on, None),
            "name": (self.name, None),
            "select": (self.select, None),
            "timeouts": (self.timeouts, None),
            "limit": (self.limit, LIMIT),
            "overflow": (self.overflow, "error"),
        }
        options = [f"{name}={value!r}" for name, (value, usual) in own.items() if value != usual]
        said = [repr(text_of(self.spec.steps)), *options_of(self.spec), *options]
        return f"{type(self).__name__}({', '.join([*said, *window_of(self.spec)])})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The types of events that it reads; `*` is every type.

        By default these are the types that its conditions name. It has to see every event if a
        condition names no type, or if a step takes the very next event.
        """
        if self.on is not None:
            return self.on
        known = [
            types for types in (_types(self.spec), types_for(self.spec.only)) if types is not None
        ]
        if known:
            return tuple(sorted(frozenset.intersection(*known)))
        # Every input event, and those types of other detectors that the pattern names.
        return ("*", *sorted(_named(self.spec)))

    @property
    def bystanders(self) -> frozenset[str]:
        """The types that it reads although no step can take them; such events need no key."""
        taken = _taken(self.spec)
        return frozenset() if taken is None or self.on is None else frozenset(self.on) - taken

    @property
    def outputs(self) -> tuple[str, ...]:
        """The types of events that it publishes."""
        side = OVERFLOW if self.overflow == "side" else None
        return tuple(type for type in (self.emits, self.timeouts, side) if type is not None)

    def make(self) -> PatternDetector:
        """Make a new detector, which has seen no events yet.

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
        """Raise a `PatternError` if the pattern or one of its options is invalid."""
        check(self.spec)
        check_conditions(self.spec.steps)
        if len(set(self.outputs)) < len(self.outputs):
            raise PatternError(
                "expected different types for emits, timeouts and overflow, got "
                f"{list(self.outputs)}"
            )
        if self.timeouts is not None and not _ends(self.spec):
            raise PatternError(
                f"expected within, such as within='2s', got timeouts={self.timeouts!r} without it: "
                "a partial match without a window never runs out of time"
            )
        if not self.inputs:
            raise PatternError(
                "expected conditions that some type of event can meet, got steps that only take "
                f"{sorted(_types(self.spec) or ())} and where={_text(self.spec.only)!r}"
            )
        if type(self.limit) is not int or self.limit < 1:
            raise PatternError(
                "expected limit to be the number of partial matches per key, 1 or more, got "
                f"limit={self.limit!r}"
            )
        if self.overflow not in ("error", "side"):
            raise PatternError(
                f"expected overflow to be 'error' or 'side', got overflow={self.overflow!r}"
            )
        self.shapes()

    def warn_of_growth(self) -> None:
        """Warn if the number of its partial matches could grow without bound."""
        if self.bounded:
            return
        for reason in grows(self.spec):
            warnings.warn(
                f"pattern {self.name or self.emits!r}: {reason}; otherwise up to "
                f"limit={self.limit:,} partial matches per key are kept",
                PatternWarning,
                stacklevel=6,
            )

    def explain(self) -> str:
        """Describe what it looks for, and which matcher runs it.

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

    def facts(self) -> dict[str, str]:
        """Every option in words, such that two patterns that differ have facts that differ."""
        spec = self.spec
        return {
            "pattern": text_of(spec.steps),
            "define": "; ".join(_defined(spec)) or "not given",
            "steps": "; ".join(_more(spec.steps)) or "not given",
            "within": "not given" if spec.within is None else exact(spec.within),
            "skip": spec.skip if spec.skip_miss == "ignore" else f"{spec.skip} or error",
            "where": "not given" if spec.only is None else spec.only.text,
            "select": "all" if self.select is None else str(fact(dict(self.select))),
            "timeouts": self.timeouts or "not given",
            "limit": f"{self.limit}",
            "overflow": self.overflow,
        }

    @property
    def bounded(self) -> bool:
        """Whether it runs compiled and has at most as many partial matches per key as steps."""
        return self.why_general() is None and not any(
            condition is not None and condition.reads
            for step in self.spec.steps
            for _, condition in step.takes
        )

    def why_general(self) -> str | None:
        """Why the pattern cannot run compiled over columns; None if it can."""
        if self.timeouts is not None:
            return f"it publishes timeouts, as {self.timeouts!r}"
        if self.overflow == "side":
            return "it publishes overflows"
        return why_not(self.spec)

    def _matcher(self) -> Matcher:
        timeouts = self.timeouts is not None
        return Matcher(self.spec, limit=self.limit, overflow=self.overflow, timeouts=timeouts)

    def _why(self) -> str:
        """Which matcher runs it, and why."""
        why = self.why_general()
        if why is None:
            return "compiled, over columns"
        return f"general, event by event, because {why}"

    def selected_columns(self) -> dict[str, tuple[str, str]] | None:
        """What `select` asks for, if that is nothing but columns of steps."""
        if self.select is None:
            return None
        return plain_columns(self.select, step_names(self.spec.steps))

    def shapes(self) -> dict[str, tuple[str, Shape]]:
        """For each kind of match that it publishes: its type, and what builds its payload."""
        found = step_names(self.spec.steps)
        whole = everything(found)
        shape = whole if self.select is None else selected(self.select, found)
        types = {"match": (self.emits, shape), "timeout": (self.timeouts, shape)}
        if self.overflow == "side":
            types["overflow"] = (OVERFLOW, whole)
        return {kind: (type, shape) for kind, (type, shape) in types.items() if type is not None}


@known_options
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
    """A pattern from its text, such as `"A !B C"`: an A, later a C, and no B between them.

    Args:
        text: the steps, in the language of `docs/patterns.md`.
        emits: type of the events that it publishes, one per match. Required before it can run.
        by: payload column that holds the key; each key is matched separately. Default: no keys.
        within: how long a match may take, such as `"2s"`. Default: no limit.
        define: condition for each name in `text`. Default: a name is a type of event.
        where: condition on the whole pattern. Default: none.
        skip: which other partial matches a match ends: `"past_last"` (default), `"to_next"`,
            `"to_first:A"`, `"to_last:A"` or `"none"`.
        select: payload of a match, as columns and expressions. Default: every column of every
            bound event.
        timeouts: type under which it publishes partial matches that ran out of time; needs
            `within`. Default: they are dropped.
        on: types of events that it reads. Default: those that its conditions name.
        name: name of the detector. Default: `emits`.
        limit: how many partial matches a key may have open. Default: 100,000.
        overflow: what happens beyond `limit`: `"error"` (default), or `"side"`, which publishes
            the oldest as an event of type `overflow`.

    >>> rising = pattern(
    ...     "A B+ C",
    ...     define={"A": "type == 'tick'", "B": "type == 'tick' and v > A.v", "C": "type == 'end'"},
    ...     where="player == 'P7' and avg(B.v) > 5",
    ...     emits="rise",
    ... )
    >>> from betimes.model import Event
    >>> detector, payload = rising.make(), {"player": "P7", "v": 4}
    >>> detector.on_event(Event("tick", 1, payload))
    >>> detector.on_event(Event("tick", 2, {**payload, "v": 7}))
    >>> [(match.type, match.ts) for match in detector.on_event(Event("end", 3, payload))]
    [('rise', 3)]
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
    """The types that it has to see; None if it has to see all types."""
    strict = (s.op in ("next", "not_next") or s.inner == "strict" for s in every(spec.steps))
    return None if any(strict) else _taken(spec)


def _taken(spec: Spec) -> frozenset[str] | None:
    """The types that its steps can take; None if a step can take any."""
    types: set[str] = set()
    for step in every(spec.steps):
        conditions = [condition for _, condition in step.takes]
        if step.until is not None:
            conditions.append(step.until)
        for condition in conditions:
            known = types_for(condition)
            if known is None:
                return None
            types |= known
    return frozenset(types)


def _rows(steps: Iterable[Step], indent: str = "") -> Iterator[tuple[str, str, str]]:
    """For each step: how it follows, its name, and its condition."""
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


def _defined(spec: Spec) -> Iterator[str]:
    """Conditions that are not those that the names of the steps stand for."""
    for step in every(spec.steps):
        for name, condition in step.takes:
            if condition != TypeIs(name):
                yield f"{name}: {_text(condition)}"


def _more(steps: Sequence[Step]) -> Iterator[str]:
    """What the text form does not say about steps."""
    for step in every(steps):
        words: list[str] = [] if step.inner == "relaxed" else [step.inner]
        words += [f"until {step.until.text}"] if step.until else []
        words += [f"within {exact(step.within)}"] if step.within is not None else []
        words += [f"loop within {exact(step.loop_within)}"] if step.loop_within is not None else []
        if words:
            yield f"{step.name}: {' '.join(words)}"


def _times(step: Step) -> str:
    """The quantifier, as written in a pattern."""
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
