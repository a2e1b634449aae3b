"""Can the number of open partial matches of a pattern grow without bound as the stream goes on?

A run is open while it waits, and every event that fits the first step begins another run. So there
is no bound if a run can stay open forever: because it waits for an event that may never come and
skips all others, or because it is in a loop that never has to end. A window on the whole pattern
bounds both. A window on a step bounds the wait for that step, and `until` bounds its loop. A run
that waits strictly ends at the next event that does not fit.

A skip strategy is not a bound: it ends runs when there is a match, and there may never be one. But
where every match leaves runs open it helps, so the warning mentions it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from betimes.patterns.steps import Op, Spec, Step


class PatternWarning(UserWarning):
    """A pattern is valid, but may need more and more memory."""


def grows(spec: Spec) -> list[str]:
    """Why the number of partial matches could grow without bound: one sentence per reason.

    >>> from betimes.patterns.builder import begin
    >>> for reason in grows(begin("a").followed_by("b").spec):
    ...     print(reason)
    a partial match may wait forever for step 'b'; bound it with within(...)
    >>> grows(begin("a").followed_by("b").within("10s").spec), grows(begin("a").next("b").spec)
    ([], [])
    """
    if spec.within is not None:
        return []
    return [
        f"{reason}; bound it with {bound}" for reason, bound in _reasons(spec.steps, "next", spec)
    ]


def _reasons(steps: Sequence[Step], op: Op, spec: Spec) -> Iterator[tuple[str, str]]:
    """Reasons, and what bounds each of them; `op` is how the first of the steps follows."""
    for step in steps:
        follows = op if step.op == "begin" else step.op
        if step.negated or (step.group and step.until is not None):
            continue
        waits = not step.group and follows != "next" and step.within is None
        if step.group:
            yield from _reasons(step.group, follows, spec)
        if waits:
            yield from _waits(step, forks=follows == "followed_by_any", spec=spec)
        if not waits or step.most is None:
            yield from _loops(step, spec)


def _waits(step: Step, *, forks: bool, spec: Spec) -> Iterator[tuple[str, str]]:
    if forks and spec.skip == "none":
        yield (
            f"a partial match waits forever for another event of step {step.name!r}, even after it "
            "has found one",
            "within(...), or let a match end it with skip('past_last')",
        )
    else:
        yield (
            f"a partial match may wait forever for step {step.name!r}",
            "within(...)",
        )


def _loops(step: Step, spec: Spec) -> Iterator[tuple[str, str]]:
    """The iterations of a step beyond the first."""
    if step.most == 1 or step.until is not None:
        return
    if step.most is None:
        combined = step.inner == "combinations" and spec.skip == "none"
        more = ", or let a match end it with skip('past_last')" if combined else ""
        yield (
            f"the loop of step {step.name!r} never has to end",
            f"within(...) or until(...){more}",
        )
    elif step.inner != "strict" and (step.within is None or step.group):
        yield (
            f"a partial match in the loop of step {step.name!r} may wait forever for the next",
            "within(...)",
        )
