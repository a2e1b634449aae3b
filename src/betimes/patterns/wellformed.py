"""Checks whether a pattern is valid, however it was built. Errors say what to do.

The rules guarantee that the automaton means what the pattern says. Some are Flink's; some are
stricter, where Flink would silently ignore a part of the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from betimes.model.duration import readable
from betimes.patterns.steps import PatternError, Spec, Step

_SKIPS = ("none", "to_next", "past_last", "to_first", "to_last")


def check(spec: Spec) -> None:
    """Raise a `PatternError` for the first thing that is wrong.

    >>> a, b = Step("begin", "a", (("a", None),)), Step("next", "a", (("a", None),))
    >>> check(Spec((a, b)))
    Traceback (most recent call last):
    ...
    betimes.patterns.steps.PatternError: expected a different name for each step, got 'a' twice
    """
    check_so_far(spec)
    _check_ends(spec)
    _check_skip(spec)


def check_so_far(spec: Spec) -> None:
    """Raise for anything that no further step, window or skip strategy could correct."""
    _check_sequence(spec.steps, "a pattern")
    for step in every(spec.steps):
        _check_counts(step)
        _check_windows(step, spec)
        if step.group:
            _check_sequence(step.group, f"the group {step.name!r}")
            _check_group(step)
    _check_names(spec)


def every(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, including those inside groups."""
    for step in steps:
        yield step
        yield from every(step.group)


def names(steps: Sequence[Step]) -> list[str]:
    """All names under which events are bound."""
    return [name for step in every(steps) if not step.negated for name, _ in step.takes]


def skippable(step: Step) -> bool:
    """Whether a match can do without it."""
    return step.optional or (bool(step.group) and all(map(_passable, step.group)))


def _passable(step: Step) -> bool:
    return step.negated or skippable(step)


def _check_sequence(steps: Sequence[Step], what: str) -> None:
    if not steps:
        raise PatternError(f"expected {what} to have steps, got none")
    if steps[0].op != "begin":
        raise PatternError(
            f"expected {what} to begin with a step that binds an event, got {steps[0].op} "
            f"{steps[0].name!r}; put it after such a step"
        )
    forbids: Step | None = None
    for before, step in pairwise(steps):
        if step.op == "begin":
            raise PatternError(f"expected {step.name!r} to follow something, got op='begin'")
        if step.negated and skippable(before):
            raise PatternError(
                f"{step.op} {step.name!r} comes directly after {before.name!r}, which is optional, "
                "so it is unclear when it begins; use two patterns, one with and one without "
                f"{before.name!r}"
            )
        if forbids and step.group and all(map(_passable, step.group)):
            raise PatternError(
                f"every step of the group {step.name!r} is optional, after {forbids.op} "
                f"{forbids.name!r}; make the group optional, and at least one step in it required"
            )
        forbids = step if step.negated else forbids if skippable(step) else None


def _check_counts(step: Step) -> None:
    if step.least < 1 or (step.most is not None and step.most < step.least):
        raise PatternError(
            f"expected step {step.name!r} to have 1 <= least <= most, got least={step.least}, "
            f"most={step.most}; make it optional if it may be missing"
        )
    if step.negated and (step.group or step.repeated or step.optional or step.greedy):
        raise PatternError(
            f"expected {step.op} {step.name!r} to be a single step without times, optional or "
            "greedy, because it allows none of these events"
        )
    if bool(step.group) == bool(step.takes):
        raise PatternError(f"expected step {step.name!r} to take events or to be a group, not both")
    if step.until is not None and step.most is not None:
        raise PatternError(
            f"until is on step {step.name!r}, which takes a limited number of events; call "
            "one_or_more() or times_or_more(n) first"
        )


def _check_windows(step: Step, spec: Spec) -> None:
    for what, window in (("within", step.within), ("within between times", step.loop_within)):
        if window is None:
            continue
        if window <= 0:
            raise PatternError(f"expected {what} of step {step.name!r} to be above 0, got {window}")
        if step.group:
            raise PatternError(
                f"{what} is on the group {step.name!r}; put it on a step in the group, or on the "
                "whole pattern"
            )
        if spec.within is not None and window > spec.within:
            raise PatternError(
                f"{what} of step {step.name!r} is {readable(window)}, longer than the window of "
                f"the whole pattern, {readable(spec.within)}"
            )
    if step.within is not None and step.loop_within is not None:
        raise PatternError(
            f"step {step.name!r} has two windows, within and within between times; remove one"
        )
    if spec.within is not None and spec.within <= 0:
        raise PatternError(f"expected within to be longer than 0, got within={spec.within}")


def _check_group(step: Step) -> None:
    if step.repeated and all(map(_passable, step.group)):
        raise PatternError(
            f"the group {step.name!r} repeats, but all its steps are optional, so it is unclear "
            "which repetition an event belongs to; make one of its steps required"
        )
    binding = [not _passable(each) for each in step.group]
    negated = [each.negated for each in step.group]
    last = max((at for at, is_not in enumerate(negated) if is_not), default=-1)
    if last >= 0 and not any(binding[last:]):
        raise PatternError(
            f"no step is required after {step.group[last].op} {step.group[last].name!r} in the "
            f"group {step.name!r}; put it after the group"
        )


def _check_names(spec: Spec) -> None:
    seen: set[str] = set()
    for name in names(spec.steps):
        if not isinstance(name, str) or not name:
            raise PatternError(f"expected the name of a step to be text, got {name!r}")
        if name in seen:
            raise PatternError(f"expected a different name for each step, got {name!r} twice")
        seen.add(name)


def _check_ends(spec: Spec) -> None:
    last = spec.steps[-1]
    for step in every(spec.steps):
        if step.op == "not_followed_by" and step.within is not None and step is not last:
            raise PatternError(
                f"not_followed_by {step.name!r} has a window, but another step comes after it; put "
                "the window on that step"
            )
    if last.op == "not_followed_by" and last.within is None and spec.within is None:
        raise PatternError(
            f"the pattern ends with not_followed_by {last.name!r} and has no window, so it could "
            "never match; add one, as in within('10s')"
        )


def _check_skip(spec: Spec) -> None:
    strategy, colon, name = spec.skip.partition(":")
    known = names(spec.steps)
    to_step = strategy in ("to_first", "to_last")
    if strategy not in _SKIPS or to_step != bool(colon):
        raise PatternError(
            "expected skip to be 'none', 'to_next', 'past_last', 'to_first:a' or 'to_last:a' with "
            f"the name of a step, got skip={spec.skip!r}"
        )
    if to_step and name not in known:
        raise PatternError(
            f"expected skip to name one of the steps that bind events, {known}, got "
            f"skip={spec.skip!r}"
        )
    if spec.skip_miss not in ("ignore", "error"):
        raise PatternError(f"expected miss to be 'ignore' or 'error', got {spec.skip_miss!r}")
