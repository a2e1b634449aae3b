"""Patterns as text: `A !B C`.

Steps separated by blanks follow each other; events between them that fit no step are skipped.
`A-B` takes the very next event. `A ... B` takes any later one, which gives all combinations. `!B`
between two steps means no B in between; at the end it means no B until the window (`within`) ends.
`(A|B)` is one or the other, `(A B)` is a group.

`B+ B* B? B{3} B{2,4} B{2,}` say how many. `B+`, `B*` and ranges are greedy: `B` takes an event that
fits both `B` and the step after it. Followed by `?` (`B+?`) they are reluctant: the step after it
may take the event, too. At the end of a pattern there is nothing to wait for: `A B{2,4}` is found
at the second `B`. The sign before a loop applies to its first event: `A-B+` takes the first `B`
directly after `A`, and the others as they come. (For loops without gaps, use the builder,
`bt.begin(...)`.)

A name is a type of events unless `define` gives it a condition. `where` says how the events of a
match relate to each other; `betimes.patterns.where` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from betimes.model.duration import Duration, microseconds
from betimes.model.errors import OptionError
from betimes.patterns.conditions import AllOf, TypeIs, condition
from betimes.patterns.grammar import skeleton
from betimes.patterns.steps import Condition, PatternError, Spec, Step
from betimes.patterns.wellformed import check
from betimes.patterns.where import Assigned, StepName, assign, check_conditions, step_names


def parse_text(
    text: str,
    define: Mapping[str, object] | None = None,
    where: object = None,
    within: Duration | None = None,
    skip: str = "past_last",
) -> Spec:
    """Read a pattern.

    >>> spec = parse_text("A !B C", {"B": "type == 'out'"}, "C.v > A.v", "2s")
    >>> for step in spec.steps:
    ...     print(step.op, step.takes[0][1].text)
    begin type == 'A'
    not_followed_by type == 'out'
    followed_by type == 'C' and C.v > A.v
    """
    if not isinstance(text, str):
        raise PatternError(f"expected a pattern as text, such as 'A !B C', got {text!r}")
    window = None if within is None else window_of(within)
    steps = skeleton(text, ends=window is not None)
    found = step_names(steps)
    conditions = _defined(define or {}, found)
    assigned = Assigned(None, {}) if where is None else assign(where, found)
    for each, more in assigned.at.items():
        conditions[each] = AllOf((conditions[each], more))
    if not isinstance(skip, str):
        raise PatternError(f"expected skip to be text such as 'past_last', got skip={skip!r}")
    spec = Spec(_filled(steps, iter(found), conditions), window, skip, only=assigned.only)
    check(spec)
    check_conditions(spec.steps)
    return spec


def window_of(within: Duration) -> int:
    """A window in microseconds."""
    try:
        window = microseconds(within, "within")
    except OptionError as error:
        raise PatternError(str(error)) from None
    if window == 0:
        raise PatternError(f"expected within to be longer than 0, got within={within!r}")
    return window


def _defined(define: Mapping[str, object], found: list[StepName]) -> dict[StepName, Condition]:
    names = list(dict.fromkeys(each.name for each in found))
    if not isinstance(define, Mapping):
        raise PatternError(
            "expected define to map names to conditions, as in "
            f"define={{'A': \"type == 'position' and v > 5\"}}, got define={define!r}"
        )
    for name in define:
        if name not in names:
            raise PatternError(
                f"expected define to contain names from the pattern, {names}, got {name!r}"
            )
    conditions = {
        name: condition(define[name], f"define[{name!r}]", of=name)
        if name in define
        else TypeIs(name)
        for name in names
    }
    return {each: conditions[each.name] for each in found}


def _filled(
    steps: Iterable[Step], found: Iterator[StepName], conditions: Mapping[StepName, Condition]
) -> tuple[Step, ...]:
    """The steps with their conditions; `found` has their names in the same order."""
    filled = []
    for step in steps:
        if step.group:
            filled.append(replace(step, group=_filled(step.group, found, conditions)))
        else:
            takes = tuple((name, conditions[next(found)]) for name, _ in step.takes)
            filled.append(replace(step, takes=takes))
    return tuple(filled)
