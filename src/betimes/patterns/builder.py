"""Build patterns step by step, with the methods of Flink CEP and exactly their meaning.

A builder is a valid pattern at every point: each method returns a new one and leaves the old one
unchanged. Methods that refine a step apply to the last one.

>>> from betimes.model import Event
>>> missed = (
...     begin("a", "type == 'A'", emits="missed").not_followed_by("b", "type == 'B'").within("2s")
... )
>>> detector = missed.make()
>>> detector.on_event(Event("A", 1_000_000)), detector.deadline
(None, 3000000)
>>> detector.on_time(3_000_000)
[Event(type='missed', ts=3000000, payload={'a.ts': 1000000})]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from betimes.model.duration import Duration, microseconds
from betimes.model.errors import OptionError
from betimes.model.hints import known_options
from betimes.patterns.conditions import AllOf, AnyOf, condition
from betimes.patterns.pattern import LIMIT, Overflow, Pattern
from betimes.patterns.steps import Condition, Inner, Op, PatternError, Spec, Step
from betimes.patterns.wellformed import check_so_far, every, names


@known_options
@dataclass(frozen=True, repr=False)
class Builder(Pattern):
    """A pattern to which steps can be added; `begin` makes the first one."""

    counted: bool = False
    """Whether the last step already has a quantifier."""

    def next(self, step: str | Builder, where: object = None) -> Builder:
        """Then the very next event."""
        return self._with("next", step, where)

    def followed_by(self, step: str | Builder, where: object = None) -> Builder:
        """Then the next event that fits; events in between are skipped."""
        return self._with("followed_by", step, where)

    def followed_by_any(self, step: str | Builder, where: object = None) -> Builder:
        """Then any later event that fits; each one gives a separate match."""
        return self._with("followed_by_any", step, where)

    def not_next(self, step: str, where: object = None) -> Builder:
        """Then an event that does not fit."""
        return self._with("not_next", step, where)

    def not_followed_by(self, step: str, where: object = None) -> Builder:
        """No event that fits before the next step; at the end, none until the window ends."""
        return self._with("not_followed_by", step, where)

    def where(self, condition: object) -> Builder:
        """The step's events must also meet this condition.

        >>> begin("a", "type == 'A'").where("v > 5").spec.steps[0].takes[0][1].text
        "type == 'A' and v > 5"
        """
        last, (name, before) = self._last, self._take("where")
        new = _condition(condition, f"where of step {name!r}", name)
        both = new if before is None else AllOf((before, new))
        return self._changed(replace(last, takes=((name, both),)))

    def or_where(self, condition: object) -> Builder:
        """The step's events may meet this condition instead of the earlier ones.

        >>> begin("a", "type == 'A'").or_where("type == 'B'").spec.steps[0].takes[0][1].text
        "type == 'A' or type == 'B'"
        """
        last, (name, before) = self._last, self._take("or_where")
        new = _condition(condition, f"or_where of step {name!r}", name)
        both = new if before is None else AnyOf((before, new))
        return self._changed(replace(last, takes=((name, both),)))

    def times(
        self, least: int, most: int | None = None, *, within: Duration | None = None
    ) -> Builder:
        """Exactly `least` events, or from `least` to `most`; the step is optional if `least` is 0.

        `within` is the window between the step's events. As in Flink, it begins with the event
        before the first one and does not apply to the last one.
        """
        most = least if most is None else most
        for what, number in (("least", least), ("most", most)):
            _check_number(what, number, f"times of step {self._last.name!r}")
        optional = least == 0 and most > 0
        return self._counted(1 if optional else least, most, within, optional=optional)

    def times_or_more(self, least: int, *, within: Duration | None = None) -> Builder:
        """`least` events or more."""
        _check_number("least", least, f"times_or_more of step {self._last.name!r}")
        return self._counted(least, None, within)

    def one_or_more(self, *, within: Duration | None = None) -> Builder:
        """One event or more; each number of events gives a separate match."""
        return self._counted(1, None, within)

    def optional(self) -> Builder:
        """The step may be missing."""
        self._refuse_negated("optional")
        if len(self.spec.steps) > 1 and self.spec.steps[-2].greedy:
            raise PatternError(
                f"step {self._last.name!r} cannot be optional, because the step before it, "
                f"{self.spec.steps[-2].name!r}, is greedy; remove optional() or greedy()"
            )
        return self._changed(replace(self._last, optional=True))

    def greedy(self) -> Builder:
        """Take as many events as possible before the next step begins."""
        self._refuse_uncounted("greedy")
        if self._last.group:
            raise PatternError(
                f"greedy is not for groups, got it on {self._last.name!r}; put it on a step in it"
            )
        if self._last.inner == "combinations":
            raise PatternError(
                f"step {self._last.name!r} has allow_combinations, which leaves out events, and "
                "greedy, which does not; remove one of them"
            )
        return self._changed(replace(self._last, greedy=True))

    def consecutive(self) -> Builder:
        """Allow no other events between those of the step."""
        return self._inner("strict", "consecutive")

    def allow_combinations(self) -> Builder:
        """Events that fit may also be left out; each combination gives a separate match."""
        return self._inner("combinations", "allow_combinations")

    def until(self, condition: object) -> Builder:
        """End the step's loop at an event that meets this condition; it is not part of the loop."""
        last = self._last
        if last.until is not None:
            raise PatternError(f"step {last.name!r} already has an until; join the two with or")
        of = None if last.group else last.name
        new = _condition(condition, f"until of step {last.name!r}", of)
        return self._changed(replace(last, until=new))

    def within(self, window: Duration, *, of: Literal["pattern", "step"] = "pattern") -> Builder:
        """How long a match may take, from first to last event; the shortest of several applies.

        With `of="step"`: how soon the step's event must follow the event bound before it.
        """
        length = _window(window, "within")
        if of == "step":
            return self._changed(replace(self._last, within=length))
        if of != "pattern":
            raise PatternError(f"expected of to be 'pattern' or 'step', got of={of!r}")
        known = self.spec.within
        return self._checked(within=length if known is None else min(known, length))

    def skip(self, strategy: str, *, miss: Literal["ignore", "error"] = "ignore") -> Builder:
        """Which others a match ends: none, to_next, past_last, to_first:a or to_last:a.

        `miss` says what to do if a match has no event of the step to skip to.
        """
        return self._checked(skip=strategy, skip_miss=miss)

    @property
    def _last(self) -> Step:
        return self.spec.steps[-1]

    def _with(self, op: Op, step: str | Builder, where: object) -> Builder:
        new = _step(op, step, where)
        taken = [each.name for each in every(self.spec.steps) if not each.group]
        for name in (each.name for each in every((new,)) if not each.group):
            if name in taken:
                raise PatternError(f"expected a different name for each step, got {name!r} twice")
        return replace(self._checked(steps=(*self.spec.steps, new)), counted=False)

    def _changed(self, last: Step) -> Builder:
        return self._checked(steps=(*self.spec.steps[:-1], last))

    def _checked(self, **changes: Any) -> Builder:
        spec = replace(self.spec, **changes)
        check_so_far(spec)
        return replace(self, spec=spec)

    def _counted(
        self, least: int, most: int | None, within: Duration | None, *, optional: bool = False
    ) -> Builder:
        last = self._last
        if self.counted:
            raise PatternError(
                f"step {last.name!r} already has a number of events; set it only once"
            )
        self._refuse_negated("times")
        if last.optional:
            raise PatternError(
                f"step {last.name!r} is already optional; set the number of events first, as in "
                ".one_or_more().optional()"
            )
        window = None if within is None else _window(within, "within")
        changed = replace(last, least=least, most=most, optional=optional, loop_within=window)
        return replace(self._changed(changed), counted=True)

    def _inner(self, inner: Inner, what: str) -> Builder:
        self._refuse_uncounted(what)
        if self._last.inner not in ("relaxed", inner):
            raise PatternError(
                f"step {self._last.name!r} has allow_combinations and consecutive, which exclude "
                "each other; remove one of them"
            )
        return self._changed(replace(self._last, inner=inner))

    def _refuse_uncounted(self, what: str) -> None:
        self._refuse_negated(what)
        if not self.counted:
            raise PatternError(
                f"{what} is for steps with several events, got it on {self._last.name!r}; call "
                "one_or_more(), times(n) or times_or_more(n) first"
            )

    def _refuse_negated(self, what: str) -> None:
        if self._last.negated:
            raise PatternError(
                f"{what} is not for {self._last.op} {self._last.name!r}, which allows none of "
                "these events"
            )

    def _take(self, what: str) -> tuple[str, Condition | None]:
        if self._last.group:
            raise PatternError(
                f"{what} is not for groups, got it on {self._last.name!r}; put it on a step in it"
            )
        return self._last.takes[0]


@known_options
def begin(
    step: str | Builder,
    where: object = None,
    *,
    skip: str = "none",
    emits: str | None = None,
    by: str | None = None,
    select: Mapping[str, str] | None = None,
    timeouts: str | None = None,
    on: str | Sequence[str] | None = None,
    name: str | None = None,
    limit: int = LIMIT,
    overflow: Overflow = "error",
) -> Builder:
    """Begin a pattern with its first step, or with a group of steps; add more with its methods.

    Args:
        step: name of the step, or a pattern made by `begin`, which becomes a group.
        where: condition on the step's events, as text or a function. Default: any event.
        skip: which other partial matches a match ends: `"none"` (default), `"to_next"`,
            `"past_last"`, `"to_first:a"` or `"to_last:a"`.
        emits: type of the events that it publishes, one per match. Required before it can run.
        by: payload column that holds the key; each key is matched separately. Default: no keys.
        select: payload of a match, as columns and expressions. Default: every column of every
            bound event.
        timeouts: type under which it publishes partial matches that ran out of time; needs
            `.within(...)`. Default: they are dropped.
        on: types of events that it reads. Default: those that its conditions name.
        name: name of the detector. Default: `emits`.
        limit: how many partial matches a key may have open. Default: 100,000.
        overflow: what happens beyond `limit`: `"error"` (default), or `"side"`, which publishes
            the oldest as an event of type `overflow`.

    >>> steps = begin("a", "v > 1").one_or_more().next("b", "v < 1").spec.steps
    >>> [(step.op, step.name, step.least, step.most) for step in steps]
    [('begin', 'a', 1, None), ('next', 'b', 1, 1)]
    """
    spec = Spec((_step("begin", step, where),), skip=skip)
    check_so_far(spec)
    return Builder(
        spec,
        emits=emits,
        by=by,
        on=on if on is None else (on,) if isinstance(on, str) else tuple(on),
        name=name,
        select=select,
        timeouts=timeouts,
        limit=limit,
        overflow=overflow,
    )


def _step(op: Op, step: str | Builder, where: object) -> Step:
    if isinstance(step, str) and step:
        given = None if where is None else _condition(where, f"where of step {step!r}", step)
        return Step(op, step, ((step, given),))
    if not isinstance(step, Builder):
        raise PatternError(
            f"expected the name of a step, or a group made by begin(...), got {step!r}"
        )
    label = f"({' '.join(names(step.spec.steps))})"
    if where is not None:
        raise PatternError(f"where is not for groups, got it on {label}; put it on a step in it")
    if step.spec.within is not None or step.spec.skip != "none":
        raise PatternError(
            f"the group {label} has within or skip, which apply to a whole pattern; set them there"
        )
    return Step(op, label, group=step.spec.steps)


def _condition(value: object, what: str, of: str | None) -> Condition:
    return condition(value, what, of=of)


def _window(value: Duration, what: str) -> int:
    try:
        return microseconds(value, what)
    except OptionError as error:
        raise PatternError(str(error)) from None


def _check_number(what: str, number: object, where: str) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise PatternError(f"expected whole numbers in {where}, got {what}={number!r}")
