"""Assigns each part of a pattern's `where` to the step at which it can be decided.

A pattern's `where` is split at its top-level `and`, and each part is tested as early as possible:

* A part that names no step applies to every event: the pattern ignores events that do not meet it.
* A part that names steps (`C.v > A.v`) is tested at the latest of them in the order of the pattern,
  where that step's name means the candidate. Every column in it must name its step.
* An aggregate (`avg(B.v) > 5`) is complete only when the next step binds an event. So a part that
  names its latest step only in an aggregate is tested at that next step.
* A part that names a negated step (`B.v > A.v` for `A !B C`) says which events are forbidden.

If a name is used both for a negated step and for one that binds events, it means the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from betimes.patterns.conditions import AllOf, AnyOf, Expression, condition
from betimes.patterns.source import SourceText
from betimes.patterns.steps import Condition, PatternError, Python, Step
from betimes.patterns.syntax import (
    Aggregate,
    And,
    Column,
    Expr,
    StepColumn,
    conjuncts,
    of_candidate,
    steps_of,
    walk,
)
from betimes.patterns.wellformed import every


@dataclass(frozen=True)
class StepName:
    """A name in a pattern, and its position there."""

    name: str
    negated: bool
    order: int
    """The number of its step; alternatives share one."""
    certain: bool
    """Whether every match binds an event at its step."""
    repeated: bool
    """Whether a match may bind several events there."""
    loops: tuple[int, ...]
    """The repeated groups around it."""

    def sees(self, other: StepName) -> bool:
        """Whether `other` may already have bound an event when one is tested here."""
        again = bool(set(self.loops) & set(other.loops))
        return other.order < self.order or (other.order == self.order and not self.negated) or again


def step_names(steps: Iterable[Step]) -> list[StepName]:
    """All names of a pattern, in order.

    >>> from betimes.patterns.grammar import skeleton
    >>> [(each.name, each.order) for each in step_names(skeleton("A (B|C)+ !D E"))]
    [('A', 0), ('B', 1), ('C', 1), ('D', 2), ('E', 3)]
    """
    order, loop = -1, 0

    def visit(steps: Iterable[Step], certain: bool, loops: tuple[int, ...]) -> Iterator[StepName]:
        nonlocal order, loop
        for step in steps:
            sure = certain and not step.optional and not step.negated
            if step.group:
                loop += 1
                around = (*loops, loop) if step.repeated else loops
                yield from visit(step.group, sure, around)
                continue
            order += 1
            for name, _ in step.takes:
                repeated = step.repeated or bool(loops)
                yield StepName(name, step.negated, order, sure, repeated, loops)

    return list(visit(steps, True, ()))


@dataclass(frozen=True)
class Assigned:
    """The parts of a `where`, by the name at which they are tested."""

    only: Condition | None
    at: dict[StepName, Condition]


def assign(where: object, found: Sequence[StepName]) -> Assigned:
    """Assign each part of a `where` to the name at which it is tested."""
    whole = condition(where, "where")
    if isinstance(whole, Python) and whole.looks_back:
        raise PatternError(
            "expected where to be text, or a function of one event, got a function of (event, "
            f"bound), where={where!r}; use define to say at which step to call it"
        )
    if not isinstance(whole, Expression):
        return Assigned(whole, {})
    source = whole.source
    general: list[Expr] = []
    at: dict[StepName, list[Expr]] = {}
    for part in conjuncts(whole.expr):
        if not steps_of(part):
            general.append(part)
            continue
        for each in _tested_at(part, found, source):
            at.setdefault(each, []).append(of_candidate(part, each.name))
    return Assigned(
        _together(general, source) if general else None,
        {each: _together(parts, source) for each, parts in at.items()},
    )


def _together(parts: list[Expr], source: SourceText) -> Condition:
    if len(parts) == 1:
        return Expression(parts[0], source)
    span = (parts[0].span[0], parts[-1].span[1])
    return Expression(And(tuple(parts), span=span), source)


def _tested_at(part: Expr, found: Sequence[StepName], source: SourceText) -> list[StepName]:
    named = steps_of(part)
    check_names(part, found, source)
    _check_no_column_alone(part, source)
    bound = [each for each in found if not each.negated]
    binding = {each.name for each in bound}
    negated = named - binding
    if len(negated) > 1:
        raise source.error(
            f"expected a condition with one negated step, got {_listed(negated)}; a negated step "
            "binds no event that another could be compared with",
            part.span,
            "use",
        )
    if negated:
        return [each for each in found if each.name in negated]
    latest = max(each.order for each in bound if each.name in named)
    plain = {node.step for node, _ in walk(part) if isinstance(node, StepColumn)}
    here = [each for each in bound if each.order == latest and each.name in named]
    if plain.intersection(each.name for each in here):
        return [each for each in here if each.name in plain][-1:]
    return _after(latest, bound, part, source)


def _check_no_column_alone(part: Expr, source: SourceText) -> None:
    for node, _ in walk(part):
        if isinstance(node, Column):
            raise source.error(
                f"expected the step of every column, as in C.{node.name}, got {node.name!r}; use a "
                "column without a step only in conditions that name no step at all",
                node.span,
                "use",
            )


def _after(latest: int, bound: list[StepName], part: Expr, source: SourceText) -> list[StepName]:
    """The names at one of which every match continues after the latest step."""
    later = [each for each in bound if each.order > latest]
    sure = min((each.order for each in later if each.certain), default=None)
    if sure is None:
        raise source.error(
            "expected another step after the aggregate, which is complete only when that step "
            "binds an event; to test it while events are added, put it in define, where "
            "sum(B.v) + v includes the candidate",
            part.span,
            "use",
        )
    return [each for each in later if each.order <= sure]


def check_conditions(steps: Sequence[Step]) -> None:
    """Raise if a condition names steps that do not exist, or are not bound when it is tested."""
    found = step_names(steps)
    takes = [tested for step in every(steps) for _, tested in step.takes]
    for each, tested in zip(found, takes, strict=True):
        for expression in expressions(tested):
            _check_bound(each, expression, found)
    for step in every(steps):
        for expression in expressions(step.until):
            check_names(expression.expr, found, expression.source)


def expressions(tested: Condition | None) -> Iterator[Expression]:
    """The parts of a condition that are written as text."""
    if isinstance(tested, Expression):
        yield tested
    elif isinstance(tested, AllOf | AnyOf):
        for each in tested.conditions:
            yield from expressions(each)


def _check_bound(at: StepName, tested: Expression, found: Sequence[StepName]) -> None:
    check_names(tested.expr, found, tested.source)
    bound = {each.name: each for each in found if not each.negated}
    for node, step in _named(tested.expr):
        if step not in bound:
            raise tested.source.error(
                f"expected a step that binds events, got {step!r}, which is negated",
                node.span,
                "use",
            )
        if not at.sees(bound[step]):
            instead = "" if at.negated else f"; make it a condition of {step!r} instead"
            raise tested.source.error(
                f"expected steps before {at.name!r}, got {step!r}, which is not bound yet when an "
                f"event is tested for {at.name!r}{instead}",
                node.span,
                "use",
            )


def check_names(expr: Expr, found: Sequence[StepName], source: SourceText) -> None:
    """Raise if an expression names a step that does not exist."""
    known = {each.name for each in found}
    for node, step in _named(expr):
        if step not in known:
            raise source.error(
                f"expected one of the steps {_listed(known)}, got {step!r}; "
                "if it is a column with a '.' in its name, put it in backticks",
                node.span,
                "use",
            )


def _named(expr: Expr) -> Iterator[tuple[Expr, str]]:
    for node, _ in walk(expr):
        if isinstance(node, StepColumn | Aggregate):
            yield node, node.step


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))
