"""From a pattern to an automaton: states in which runs wait, and what an event does to them.

**Terms.** A *run* is a partial match; it waits in a state. At an event a run may *take* it (bind it
and go on), *ignore* it (stay, or go on waiting elsewhere), do both, in which case it forks, or
*stop*. A run that does none of these is over. Before it looks at the event, a run may *leave* its
state for another one; this is looked through at once, so that runs wait only where they may take or
ignore something. What may be done depends on guards (see `guards`), and these on the event and on
what the run has bound.

**Construction.** It is that of Flink CEP, from the last step to the first (see `construction`):

* A step is a state that takes what fits. How it follows the step before says what it ignores:
  nothing (strict), what does not fit (relaxed), anything (any).
* A state that can be left, because it is optional or because its loop may end, ignores into a
  *twin* that cannot. So a run leaves at most once, at the first event after it came; without the
  twin it would leave again at every event, and the same match would come many times.
* `times(n, m)` is m states in a row, of which those after the n-th can be left. A loop without end
  is a state that takes into itself. The first event of a loop has a state of its own, because it
  follows the step before in one way, and the others follow each other in another.
* A group is built once for each iteration; a group without end goes from its last state through a
  *joint* to its first. How the group follows and whether it can be left holds for its first step.
* `not_next` is a state that is left at an event that does not fit. `not_followed_by` is no state:
  it stops the runs that wait for what comes after it. When one of them takes an event the
  prohibition has ended, so it goes on to copies of the states that are without it. If nothing
  comes after it there is a *pending* state; a run that is in it when its window ends is a match.
* What comes after a greedy step are copies that do nothing at an event which the greedy step could
  have taken. A group vetoes nothing: an iteration that begins may come to nothing.
* `until` holds for all that a loop takes and, once it has begun, ignores; in a group, for all.

**Invariant.** Every match is found by exactly one run. Where a run forks, the branches differ in
what they have bound or in what they can still bind, and moves of one state do not coincide.
A run that can leave its way to the end after an event is a match with it (`Move.ends`), and a run
that can leave for a pending state has a branch there from that event on (`Move.pends`); both are
asked once, when the event is taken.
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
"""The state from which runs begin; it waits for ever, and has bound nothing."""


class Move(NamedTuple):
    """What an event may do to a run: if the guard holds, the run goes to `target`."""

    action: Literal["take", "ignore", "stop"]
    target: int
    guard: Guard
    question: int = -1
    """Whose answer says under which name the event is bound, if it is taken."""
    ends: Guard = NEVER
    """When the run is complete with this event, besides going on."""
    pends: int | None = None
    """A pending state in which the run has a branch from this event on."""
    within: int | None = None
    """How long after the event bound before, if the state that was left has no such window."""


class RunState(NamedTuple):
    """A state as matchers see it."""

    moves: tuple[Move, ...]
    step: str
    """What is waited for."""
    looks_back: bool
    """Whether what an event does here depends on what the run has bound."""
    window: int | None
    """How long a run may wait here, from the event bound before."""
    late: int | None
    """Where it is when the window has ended; None if it is over then."""
    pending: bool


@dataclass(frozen=True)
class Automaton:
    """The states, by number; what their guards ask; and how long a match may take."""

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
    """Numbers the states in which runs can wait, and looks through what they leave."""

    def __init__(self, start: State, asked: Sequence[Question]) -> None:
        self._asked = asked
        self._states = [start]
        self._numbers = {start: START}
        self._gates: dict[State, State] = {}

    def __iter__(self) -> Iterator[RunState]:
        for state in self._states:  # which grows
            moves = tuple(self._moves(state))
            if self._numbers[state] == START:
                # No run has begun that could ignore anything; it begins with what it takes.
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
        """A state of which only the ways out are left."""
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
                continue  # the run has a branch there since it came here
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
        """The state of those that leave for pending states."""
        if not exits:
            return None
        if [guard for _, guard in exits] == [ALWAYS]:
            return self._number(exits[0].target)
        if source not in self._gates:
            # Which one it is will be seen at the next event; if none comes, it does not matter.
            self._gates[source] = gate = exits[0].target.like()
            gate.leave(exits)
        return self._number(self._gates[source])


def _reached(state: State) -> Iterator[tuple[State, Guard]]:
    """The state and those that it can be left for, with when."""
    waiting = [(state, ALWAYS)]
    while waiting:  # which ends: a group that could lead back to itself is refused
        here, guard = waiting.pop()
        yield here, guard
        ways = [(edge.target, both(guard, edge.guard)) for edge in here.ways_out]
        waiting += [(target, way) for target, way in ways if way != NEVER]
