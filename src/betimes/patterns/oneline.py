"""A pattern on one line, as `repr` shows it: its text form, then the options that differ from the
default.

Two patterns that mean different things never read the same. So durations are exact, and what the
text form cannot say about a step (a window between two steps, `until`, combinations) is listed
under `steps`.

>>> from betimes.patterns.builder import begin
>>> begin("a", "v > 1", emits="rise").one_or_more().next("b").within("90s")
Builder('a+? - b', define={'a': 'v > 1', 'b': None}, emits='rise', within='90 s', skip='none')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from betimes.model.duration import exact
from betimes.patterns.conditions import AllOf, AnyOf, Expression, TypeIs
from betimes.patterns.steps import Condition, Inner, Op, Python, Spec, Step
from betimes.patterns.syntax import written
from betimes.patterns.wellformed import every

_BEFORE: dict[Op, str] = {
    "begin": "",
    "next": " - ",
    "followed_by": " ",
    "followed_by_any": " ... ",
    "not_next": " - !",
    "not_followed_by": " !",
}
_INNER: dict[Inner, str] = {
    "strict": "consecutive",
    "relaxed": "relaxed",
    "combinations": "allow_combinations",
}


def text_of(steps: Sequence[Step]) -> str:
    """The steps in the text form.

    >>> from betimes.patterns.grammar import skeleton
    >>> text_of(skeleton("A !(B|C) (D E+?){2,}-F ... G?"))
    'A !(B|C) (D E+?){2,} - F ... G?'
    """
    return "".join(_BEFORE[step.op] + _name(step) + _quantifier(step) for step in steps)


def options_of(spec: Spec) -> Iterator[str]:
    """What the text leaves open, as keywords."""
    define = dict(_defined(spec))
    if define:
        yield "define={" + ", ".join(f"{name!r}: {how}" for name, how in define.items()) + "}"
    steps = {step.name: more for step in every(spec.steps) if (more := ", ".join(_extras(step)))}
    if steps:
        yield f"steps={steps}"
    if spec.only is not None:
        yield f"where={_shown(spec.only)}"


def window_of(spec: Spec) -> Iterator[str]:
    """How long a match may take and what it does to others, as keywords."""
    if spec.within is not None:
        yield f"within={exact(spec.within)!r}"
    if spec.skip != "past_last":
        yield f"skip={spec.skip!r}"
    if spec.skip_miss != "ignore":
        yield f"miss={spec.skip_miss!r}"


def _name(step: Step) -> str:
    if step.group:
        return f"({text_of(step.group)})"
    names = "|".join(written(name) for name, _ in step.takes)
    return names if len(step.takes) == 1 else f"({names})"


def _quantifier(step: Step) -> str:
    least, most = 0 if _may_be_none(step) else step.least, step.most
    short = {(1, 1): "", (0, 1): "?", (1, None): "+", (0, None): "*"}.get((least, most))
    if short is None:
        upper = "" if least == most else "," if most is None else f",{most}"
        short = f"{{{least}{upper}}}"
    return short + ("?" if _is_greedy_by_default(step) and not step.greedy else "")


def _may_be_none(step: Step) -> bool:
    return step.optional and step.least == 1


def _is_greedy_by_default(step: Step) -> bool:
    """Whether a step of the text form with this quantifier is greedy unless marked reluctant."""
    least = 0 if _may_be_none(step) else step.least
    return least != step.most and step.most != 1


def _extras(step: Step) -> Iterator[str]:
    """What the text form cannot say about a step."""
    if step.optional and not _may_be_none(step):
        yield "optional"
    if step.greedy and not _is_greedy_by_default(step):
        yield "greedy"
    if step.inner != "relaxed":
        yield _INNER[step.inner]
    if step.until is not None:
        yield f"until {_shown(step.until)}"
    if step.within is not None:
        yield f"within {exact(step.within)}"
    if step.loop_within is not None:
        yield f"within {exact(step.loop_within)} between events"


def _defined(spec: Spec) -> Iterator[tuple[str, str]]:
    """The names that do not simply mean a type, with their conditions."""
    for step in every(spec.steps):
        for name, condition in step.takes:
            if condition is None or condition.text != f"type == {name!r}":
                yield ("!" if step.negated else "") + name, _shown(condition)


def _shown(condition: Condition | None) -> str:
    return "None" if condition is None else repr(_whole(condition))


def _whole(condition: Condition) -> str:
    """The text of a condition in which a function is told from others of its name."""
    match condition:
        case Python(function):
            return repr(function)
        case AllOf(conditions):
            return " and ".join(f"({_whole(each)})" for each in conditions)
        case AnyOf(conditions):
            return " or ".join(f"({_whole(each)})" for each in conditions)
        case Expression() | TypeIs():
            return condition.text
        case _:
            return repr(condition)
