"""What an event does in each state: evaluates guards, and each condition as rarely as possible.

A condition that does not read what a run has bound has one answer for all runs. So it is evaluated
once per event, and what the event does in a state is worked out once for all runs that wait there.
Only conditions that look back are evaluated separately for every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from betimes.model.event import Event
from betimes.patterns.automaton import Automaton, Move
from betimes.patterns.bindings import EMPTY, Row, by_name
from betimes.patterns.guards import Guard
from betimes.patterns.steps import Bound


class Branch(NamedTuple):
    """Where an event takes a run, or one branch of it."""

    target: int
    name: str | None
    """The name under which the event is bound; None if it is ignored."""
    ends: bool
    """Whether the run is also a match with this event."""
    pends: int | None
    """A pending state in which it has another branch."""
    within: int | None
    """How soon after the last bound event, if that is limited."""


class Fate(NamedTuple):
    """What an event does to a run."""

    stays: bool
    """Whether nothing changes."""
    stops: bool
    """Whether no branch continues; what is complete with this event still counts."""
    branches: tuple[Branch, ...]


class Asking:
    """What an event does in each state, one event at a time."""

    def __init__(self, automaton: Automaton) -> None:
        self._states = automaton.states
        self._questions = automaton.questions
        self._event = Event("", 0)
        self._answers: list[int | None] = []
        self._fates: dict[int, Fate] = {}
        self._row: Row = EMPTY
        self._bound: Bound | None = None
        self._own: dict[int, int] = {}

    def about(self, event: Event) -> None:
        """Begin with a new event."""
        self._event = event
        self._answers = [None] * len(self._questions)
        self._fates.clear()

    def fate(self, state: int, row: Row) -> Fate:
        """What the event does to a run that is in this state and has bound this row."""
        fate = self._fates.get(state)
        if fate is not None:
            return fate
        here = self._states[state]
        if here.looks_back:
            self._row, self._bound = row, None
            self._own.clear()
            return self._decide(state, here.moves)
        fate = self._fates[state] = self._decide(state, here.moves)
        return fate

    def _decide(self, state: int, moves: Sequence[Move]) -> Fate:
        stops, branches = False, []
        for move in moves:
            if not self._holds(move.guard):
                continue
            if move.action == "stop":
                stops = True
            elif move.action == "ignore":
                branches.append(Branch(move.target, None, False, None, move.within))
            else:
                names = self._questions[move.question].names
                name = names[0] if len(names) == 1 else names[self._ask(move.question) - 1]
                ends = self._holds(move.ends)
                branches.append(Branch(move.target, name, ends, move.pends, move.within))
        ignored = len(branches) == 1 and branches[0].name is None
        stays = ignored and not stops and branches[0].target == state
        return Fate(stays, stops, tuple(branches))

    def _holds(self, guard: Guard) -> bool:
        answers = self._answers
        for clause in guard:
            for question, right in clause:
                answer = answers[question]
                if ((self._ask(question) if answer is None else answer) > 0) is right:
                    break
            else:
                return False
        return True

    def _ask(self, question: int) -> int:
        """Which alternative the event fits, counted from 1; 0 if none."""
        _, conditions, looks_back = self._questions[question]
        known = self._own.get(question) if looks_back else self._answers[question]
        if known is not None:
            return known
        if looks_back and self._bound is None:
            self._bound = by_name(self._row)
        bound: Bound = {} if self._bound is None else self._bound
        answer = 0
        for number, condition in enumerate(conditions, 1):
            if condition is None or condition.holds(self._event, bound):
                answer = number
                break
        if looks_back:
            self._own[question] = answer
        else:
            self._answers[question] = answer
        return answer
