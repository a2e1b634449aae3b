"""From a pattern to an automaton: states in which runs wait, and what an event does to them.

**Terms.** A *run* is a partial match; it waits in a state. At an event, a run may *take* it (bind
it and move on), *ignore* it (stay, or wait in another state), do both, in which case it forks, or
*stop*. A run that does none of these ends. Before it looks at the event, a run may *leave* its
state for another one. The automaton resolves this in advance, so that runs wait only where they may
take or ignore something. Guards decide what a run may do (see `guards`); they depend on the event
and on what the run has bound.

**Construction.** As in Flink CEP, from the last step to the first (see `construction`):

* A step is a state that takes what fits. How it follows the step before decides what it ignores:
  nothing (strict), what does not fit (relaxed), or anything (any).
* A state that can be left, because it is optional or because its loop may end, ignores into a
  *twin* that cannot be left. So a run leaves at most once, at the first event after it arrived.
  Without the twin it would leave again at every event and find the same match many times.
* `times(n, m)` is m states in a row; those after the n-th can be left. An endless loop is a state
  that takes into itself. The first event of a loop has a separate state, because it follows the
  step before in one way, and the others follow each other in another.
* A group is built once per iteration. An endless group goes from its last state through a *joint*
  to its first. How the group follows, and whether it can be left, applies to its first step.
* `not_next` is a state that is left at an event that does not fit. `not_followed_by` is not a
  state: it stops the runs that wait for the step after it. When such a run takes an event, the
  prohibition has ended, so the run moves on to copies of the states without it. If no step comes
  after it, there is a *pending* state; a run that is in it when its window ends is a match.
* After a greedy step come copies that do nothing at an event that the greedy step could have taken.
  A group vetoes nothing, because an iteration that has begun may never be completed.
* `until` applies to everything that a loop takes and, once it has begun, ignores; in a group, to
  everything.

**Invariant.** Exactly one run finds each match. Where a run forks, the branches differ in what they
have bound or in what they can still bind, and no two moves of a state coincide. A run that can
leave all the way to the end after an event is a match with it (`Move.ends`). A run that can leave
for a pending state has a branch there from that event on (`Move.pends`). Both are evaluated once,
when the event is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from betimes.patterns.construction import Construction, Context, Edge, Exit, Question, State
from betimes.patterns.guards import ALWAYS, NEVER, Guard, both, either, questions
from betimes.patterns.steps import Spec
from betimes.patterns.wellformed import check

FINAL = -1
"""The state in which a match is complete; no run waits there."""
START = 0
"""The state from which runs begin; it waits forever and has bound nothing."""


class Move(NamedTuple):
    """What an event may do to a run: if the guard holds, the run moves to `target`."""

    action: Literal["take", "ignore", "stop"]
    target: int
    guard: Guard
    question: int = -1
    """The question whose answer gives the name under which a taken event is bound."""
    ends: Guard = NEVER
    """When the run is also complete with this event."""
    pends: int | None = None
    """A pending state in which the run has a branch from this event on."""
    within: int | None = None
    """How soon after the last bound event, if the state that was left has no such window."""


class RunState(NamedTuple):
    """A state of the finished automaton, in which runs wait."""

    moves: tuple[Move, ...]
    step: str
    """The step that it waits for."""
    looks_back: bool
    """Whether what an event does here depends on what the run has bound."""
    window: int | None
    """How long a run may wait here, from the last bound event."""
    late: int | None
    """The state it moves to when the window ends; None if it ends then."""
    pending: bool


@dataclass(frozen=True)
class Automaton:
    """The states, by number; the questions of their guards; and how long a match may take."""

    states: tuple[RunState, ...]
    questions: tuple[Question, ...]
    within: int | None


def automaton(spec: Spec) -> Automaton:
    """Check a pattern, and build its automaton.

    >>> from betimes.patterns.steps import Step
    >>> a, b = Step("begin", "a", (("a", None),)), Step("followed_by_any", "b", (("b", None),))
    >>> for state in automaton(Spec((a, b))).states:
    ...     print(state.step, [(move.action, move.target) for move in state.moves])
    a [('take', 1)]
    b [('take', -1), ('ignore', 1)]
    """
    check(spec)
    construction = Construction()
    start = construction.sequence(spec.steps, State("final", ""), Context("next"))
    asked = tuple(construction.questions)
    return Automaton(tuple(_RunStates(start, asked)), asked, spec.within)


class _RunStates:
    """Numbers the states in which runs can wait, and resolves what they leave."""

    def __init__(self, start: State, asked: Sequence[Question]) -> None:
        self._asked = asked
        self._states = [start]
        self._numbers = {start: START}
        self._gates: dict[State, State] = {}

    def __iter__(self) -> Iterator[RunState]:
        for state in self._states:  # grows while we iterate
            moves = tuple(self._moves(state))
            if self._numbers[state] == START:
                # No run has begun yet that could ignore anything; a run begins when it takes.
                moves = tuple(move for move in moves if move.action == "take")
            guards = [guard for move in moves for guard in (move.guard, move.ends)]
            looks_back = any(self._asked[each].looks_back for each in questions(guards))
            late = self._late(state)
            pending = state.kind == "pending"
            yield RunState(moves, state.step, looks_back, state.window, late, pending)

    def _number(self, state: State) -> int:
        if state.kind == "final":
            return FINAL
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    def _late(self, state: State) -> int | None:
        """The state with only its ways out."""
        if not (state.patient and state.ways_out):
            return None
        late = State(state.kind, state.step)
        late.edges = [edge for edge in state.edges if edge.action in ("leave", "stop")]
        return self._number(late)

    def _moves(self, state: State) -> Iterator[Move]:
        found: dict[Edge, Guard] = {}
        windows: dict[Edge, int | None] = {}
        for reached, guard in _reached(state):
            if reached.kind == "pending" and state.kind != "pending":
                continue  # the run has had a branch there since it arrived here
            for edge in reached.edges:
                if edge.action != "leave":
                    found[edge] = either(found.get(edge, NEVER), both(guard, edge.guard))
                    later = reached is not state and reached.patient
                    windows[edge] = reached.window if later else None
        for edge, guard in found.items():
            if guard != NEVER and edge.action == "take":
                yield self._take(edge, guard, windows[edge])
            elif guard != NEVER and edge.action == "ignore":
                yield Move("ignore", self._number(edge.target), guard, within=windows[edge])
            elif guard != NEVER:
                yield Move("stop", FINAL, guard)

    def _take(self, edge: Edge, guard: Guard, within: int | None) -> Move:
        ends = NEVER
        pending: list[Exit] = []
        for reached, way in _reached(edge.target):
            if reached is edge.target:
                continue
            if reached.kind == "final":
                ends = either(ends, way)
            elif reached.kind == "pending":
                pending.append(Exit(reached, way))
        target, pends = self._number(edge.target), self._pends(edge.target, pending)
        return Move("take", target, guard, edge.question, ends, pends, within)

    def _pends(self, source: State, exits: list[Exit]) -> int | None:
        """The state of branches that leave for pending states."""
        if not exits:
            return None
        if [guard for _, guard in exits] == [ALWAYS]:
            return self._number(exits[0].target)
        if source not in self._gates:
            # The next event decides which one it is; if none comes, it does not matter.
            self._gates[source] = gate = exits[0].target.like()
            gate.leave(exits)
        return self._number(self._gates[source])


def _reached(state: State) -> Iterator[tuple[State, Guard]]:
    """The state and those that a run can leave it for, each with its guard."""
    waiting = [(state, ALWAYS)]
    while waiting:  # ends, because a group that could lead back to itself is rejected
        here, guard = waiting.pop()
        yield here, guard
        ways = [(edge.target, both(guard, edge.guard)) for edge in here.ways_out]
        waiting += [(target, way) for target, way in ways if way != NEVER]
