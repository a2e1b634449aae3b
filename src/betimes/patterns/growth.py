"""Could the open partial matches of a pattern become more and more, the longer the stream is?

A run is open as long as it waits, and every event that fits the first step begins another one. So
their number has no bound if a run can stay open for ever: because it waits for an event that may
never come and skips all others, or because it is in a loop that never has to end. A window on the
whole pattern bounds both, a window on a step the waiting for that step, `until` the loop it stands
on. A run that waits strictly is over at the next event that does not fit.

A skip strategy is no bound: it ends runs when there is a match, and there may never be one. But
where every match leaves runs open, it is a help, and is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from betimes.patterns.steps import Op, Spec, Step


class PatternWarning(UserWarning):
    """A pattern makes sense, but may need more and more memory."""


def grows(spec: Spec) -> list[str]:
    """Why partial matches could become more and more: a sentence a reason; empty if they cannot.

    >>> from betimes.patterns.builder import begin
    >>> for reason in grows(begin("a").followed_by("b").spec):
    ...     print(reason)
    a partial match that has come to step 'b' may wait for it for ever; bound it with within(...)
    >>> grows(begin("a").followed_by("b").within("10s").spec), grows(begin("a").next("b").spec)
    ([], [])
    """
    if spec.within is not None:
        return []
    return [
        f"{reason}; bound it with {bound}" for reason, bound in _reasons(spec.steps, "next", spec)
    ]


def _reasons(steps: Sequence[Step], op: Op, spec: Spec) -> Iterator[tuple[str, str]]:
    """Reasons and what bounds them; `op` is how the first of the steps follows."""
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
            f"a partial match waits for ever for another event of step {step.name!r}, also when it "
            "has found one",
            "within(...), or let a match end it with skip('past_last')",
        )
    else:
        yield (
            f"a partial match that has come to step {step.name!r} may wait for it for ever",
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
            f"a partial match in the loop of step {step.name!r} may wait for ever for the next",
            "within(...)",
        )
