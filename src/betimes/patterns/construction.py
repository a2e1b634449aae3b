"""The states of a pattern's automaton and the edges between them, built from the last step to the
first. `automaton` explains what they mean; this module turns each part of a pattern into states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from betimes.patterns.guards import ALWAYS, NEVER, Guard, both, neither
from betimes.patterns.steps import Condition, Inner, Op, Step
from betimes.patterns.wellformed import skippable

INNER: dict[Inner, Op] = {
    "strict": "next",
    "relaxed": "followed_by",
    "combinations": "followed_by_any",
}


class Question(NamedTuple):
    """Which of the alternatives an event fits, counted from 1; 0 if none."""

    names: tuple[str, ...]
    conditions: tuple[Condition | None, ...]
    looks_back: bool
    """Whether the answer depends on the run."""


@dataclass(eq=False, frozen=True)
class Edge:
    """A way out of a state. To leave takes no event."""

    action: Literal["take", "ignore", "stop", "leave"]
    target: State
    guard: Guard
    question: int = -1
    """For a take, what it asks; for a stop, what is forbidden."""


class State:
    """A state in which runs wait, or which they pass through (`joint`)."""

    def __init__(self, kind: Literal["waiting", "joint", "pending", "final"], step: str) -> None:
        self.kind = kind
        self.step = step
        self.edges: list[Edge] = []
        self.window: int | None = None
        self.patient = False
        """Whether a run may still leave after the window has ended."""

    def like(self) -> State:
        """The same state without edges."""
        other = State(self.kind, self.step)
        other.window, other.patient = self.window, self.patient
        return other

    def add(self, *edges: Edge) -> None:
        self.edges += [edge for edge in edges if edge.guard != NEVER]

    def leave(self, exits: Sequence[Exit]) -> None:
        self.add(*(Edge("leave", target, guard) for target, guard in exits))

    def stop(self, prohibitions: Sequence[Prohibition]) -> None:
        self.add(*(Edge("stop", self, guard, question) for question, guard in prohibitions))

    @property
    def ways_out(self) -> list[Edge]:
        return [edge for edge in self.edges if edge.action == "leave"]


class Exit(NamedTuple):
    """Where a run goes when it leaves, and under which guard."""

    target: State
    guard: Guard


class Prohibition(NamedTuple):
    """A negated step: its question, and when an event breaks it."""

    question: int
    guard: Guard


@dataclass(frozen=True)
class Context:
    """What the steps around a step say about it."""

    op: Op
    begun: bool = False
    """Whether it waits for an event of its loop after the first."""
    leavable: bool = False
    """Whether the group that begins here can be left here."""
    forbidden: tuple[Prohibition, ...] = ()
    """What must not come before it, until something is bound."""
    stops: tuple[Prohibition, ...] = ()
    """What must not come while a run waits for it, because it must not come after the loop."""
    after: tuple[Prohibition, ...] = ()
    """What must not come after it."""
    calm: Guard = ALWAYS
    """No group around it has ended by its `until`."""


class Construction:
    """Builds states; `questions` are what their guards ask, by number."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self._numbers: dict[int, int] = {}

    def sequence(self, steps: Sequence[Step], sink: State, context: Context) -> State:
        """The first state of the steps; the last ones lead to `sink`."""
        for at in reversed(range(len(steps))):
            step = steps[at]
            lead = all(map(skippable, steps[:at]))
            here = replace(
                context,
                op=context.op if at == 0 else step.op,
                begun=False,
                leavable=context.leavable and at == 0,
                forbidden=tuple(self._forbidden(steps, at, context)),
                stops=context.stops if lead else (),
                after=tuple(self._after(steps, at, context)),
            )
            if step.op == "not_next":
                sink = self._not_next(step, sink, here)
            elif not step.negated:
                sink = self._step(step, sink, here)
            elif sink.kind == "final":
                sink = self._pending(step, here)
        return sink

    def _forbidden(self, steps: Sequence[Step], at: int, context: Context) -> Iterator[Prohibition]:
        for step in reversed(steps[:at]):
            if step.op == "not_followed_by":
                yield self._prohibition(step, context)
            elif not (step.negated or skippable(step)):
                return
        yield from context.forbidden

    def _after(self, steps: Sequence[Step], at: int, context: Context) -> Iterator[Prohibition]:
        for step in steps[at + 1 :]:
            if step.op == "not_followed_by":
                yield self._prohibition(step, context)
            elif not step.negated:
                return
        yield from context.after

    def _step(self, step: Step, sink: State, here: Context) -> State:
        """A step with its repetitions."""
        lifted = _lifted(sink, here.forbidden)
        exits = self._exits(step, lifted, here)
        later = replace(
            here, op=INNER[step.inner], begun=True, leavable=False, forbidden=(), stops=here.after
        )
        last, window = exits[0].target, None
        if step.most is None:
            last, window = self._loop(step, exits, later), step.loop_within
        for taken in range((step.most or step.least) - 1, 0, -1):
            last = self._once(step, last, later, exits if taken >= step.least else (), window)
            # The last event of a counted loop, and those beyond the least of any other, have no
            # window: Flink does this, and its tests expect it.
            window = step.loop_within
        if step.optional and lifted is not sink:
            exits = self._exits(step, sink, here)
        return self._once(step, last, here, exits if step.optional else (), window)

    def _exits(self, step: Step, sink: State, here: Context) -> tuple[Exit, ...]:
        """Where runs go when they leave the step for `sink`; first, after its last event."""
        if not step.greedy or step.group or step.most == step.least:
            return (Exit(sink, here.calm),)
        vetoed = _vetoed(sink, both(here.calm, self._fits(self._ask(step))))
        if step.until is None:
            return (Exit(vetoed, here.calm),)
        ended = self._fits(self._ask_whether(step.until))
        return (
            Exit(vetoed, both(here.calm, neither(ended))),
            Exit(sink, both(here.calm, ended)),
        )

    def _once(
        self, step: Step, sink: State, here: Context, exits: Sequence[Exit], window: int | None
    ) -> State:
        """One iteration of a step."""
        leavable = here.leavable or bool(exits)
        if step.group:
            inside = replace(here, leavable=leavable, calm=self._calm(step, here))
            state = self.sequence(step.group, sink, inside)
        else:
            state = self._waiting(step, sink, here, leavable=leavable, window=window)
        state.leave(exits)
        return state

    def _loop(self, step: Step, exits: Sequence[Exit], here: Context) -> State:
        """All iterations of an endless step beyond the least."""
        if step.group:
            joint = State("joint", step.name)
            joint.leave([Exit(self._once(step, joint, here, exits, None), here.calm)])
            return joint
        state = self._waiting(step, None, here, leavable=True, window=None)
        state.leave(exits)
        return state

    def _waiting(
        self, step: Step, sink: State | None, here: Context, *, leavable: bool, window: int | None
    ) -> State:
        """A state that takes what fits a step: into `sink`, or into itself if there is none."""
        question = self._ask(step)
        fits, calm = self._fits(question), self._calm(step, here)
        state = State("waiting", step.name)
        state.window = step.within if window is None else window
        state.patient = step.within is not None
        twin = state.like() if leavable else state
        twin.window = step.within if leavable else state.window
        if here.op == "followed_by":
            ignored = neither(fits)
        else:
            ignored = ALWAYS if here.op == "followed_by_any" else NEVER
        # Before its first event a loop cannot end.
        ignored = both(ignored, calm if here.begun else here.calm)
        for each in dict.fromkeys((state, twin)):
            each.add(Edge("take", sink or state, both(calm, fits), question))
            each.add(Edge("ignore", twin, ignored))
            each.stop(here.forbidden + here.stops)
        return state

    def _pending(self, step: Step, here: Context) -> State:
        state = State("pending", step.name)
        state.window = step.within
        broken = (self._prohibition(step, here), *here.forbidden)
        state.stop(broken)
        state.add(Edge("ignore", state, both(*(neither(each.guard) for each in broken))))
        return state

    def _not_next(self, step: Step, sink: State, here: Context) -> State:
        state = State("waiting", step.name)
        state.window = step.within
        broken = (self._prohibition(step, here), *here.forbidden, *here.after)
        state.stop(broken)
        if sink.kind in ("final", "pending"):
            # Only an event can decide; leaving would move on before the event arrives.
            kept = both(*(neither(each.guard) for each in broken))
            state.add(Edge("ignore", sink, kept))
        else:
            state.leave([Exit(sink, neither(broken[0].guard))])
        return state

    def _prohibition(self, step: Step, context: Context) -> Prohibition:
        question = self._ask(step)
        return Prohibition(question, both(context.calm, self._fits(question)))

    def _calm(self, step: Step, here: Context) -> Guard:
        """No `until` has come, neither that of the step nor of a group around it."""
        if step.until is None:
            return here.calm
        return both(here.calm, neither(self._fits(self._ask_whether(step.until))))

    def _fits(self, question: int) -> Guard:
        always = any(condition is None for condition in self.questions[question].conditions)
        return ALWAYS if always else (((question, True),),)

    def _ask(self, step: Step) -> int:
        """The number of the question "does an event fit this step?"."""
        return self._number(step, step.takes)

    def _ask_whether(self, condition: Condition) -> int:
        return self._number(condition, (("", condition),))

    def _number(self, asker: object, takes: Sequence[tuple[str, Condition | None]]) -> int:
        if id(asker) not in self._numbers:
            self._numbers[id(asker)] = len(self.questions)
            conditions = tuple(condition for _, condition in takes)
            looks_back = any(each is not None and bool(each.reads) for each in conditions)
            names = tuple(name for name, _ in takes)
            self.questions.append(Question(names, conditions, looks_back))
        return self._numbers[id(asker)]


def _lifted(state: State, prohibitions: Sequence[Prohibition]) -> State:
    """The state after something was bound, which ends the prohibitions before it."""
    ended = {question for question, _ in prohibitions}

    def lift(edge: Edge) -> Guard:
        return NEVER if edge.action == "stop" and edge.question in ended else edge.guard

    return _changed(state, lift)


def _vetoed(state: State, fits: Guard) -> State:
    """The state after a greedy step: it does nothing at an event that fits the greedy step."""
    veto = neither(fits)
    return _changed(state, lambda edge: both(edge.guard, veto))


def _changed(state: State, guard: Callable[[Edge], Guard]) -> State:
    """The state, and those it leads to without taking an event, with other guards.

    Returns a copy, because other states may lead to the same ones; unless nothing changes.
    """
    region = [state]
    for each in region:  # grows while we iterate
        onwards = [edge.target for edge in each.edges if edge.action in ("leave", "ignore")]
        # What is behind a joint is not built yet: the beginning of the group that ends here.
        region += [s for s in dict.fromkeys(onwards) if s.kind != "joint" and s not in region]
    if all(guard(edge) == edge.guard for each in region for edge in each.edges):
        return state
    copies = {each: each.like() for each in region}
    for each, copy in copies.items():
        for edge in each.edges:
            target = edge.target if edge.action == "take" else copies.get(edge.target, edge.target)
            copy.add(replace(edge, target=target, guard=guard(edge)))
    return copies[state]
