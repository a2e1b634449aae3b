"""Compiled patterns: the automaton's loop over columns of events, by key.

A *run* is a partial match of one key: the number of steps it has bound (its state), where it
started, and its bindings. The runs of a key form a linked list, the newest first. Lists are
immutable: an event that changes a run makes new nodes for it and for the newer runs, and shares the
older ones. So the state of a key is one number, the head of its list, and remembering a state to go
back to means remembering that number.

For every event, in order, and every run of its key, the oldest first (`matching`, `runs`):

1. A run whose window is over is dropped.
2. An event that is forbidden while the run waits ends the run, unless it completes the match.
3. An event that the next step takes advances the run.
4. A run that accepts only the very next event, and did not take it, ends.

Then, an event that the first step takes starts a run. A run that has bound all steps becomes a
match as soon as no older run is open. The match removes all runs that started up to its last event
(skip past last).

If no condition looks at earlier steps (the pattern is *uniform*), an older run is never behind a
newer one: both see the same events, and advance and end alike. So the first complete run is a match
at once. Without a window, a run that reaches the state of an older run can never matter again and
is dropped: there are never more runs than steps.

Conditions that look at earlier steps are programs for a stack machine (`conditions`). Its numbers
are floats; NaN means null, or an unknown truth value.

`layout` names the rows and fields of all arrays; `memory` goes back to earlier states, and frees
what no state refers to; `reading` picks the events for the loop.
"""

from betimes.patterns.kernel.layout import (  # isort: skip
    ABSOLUTE, ADD, AND, ARRIVAL, AT, BINDINGS, BOUND_PLACE, CONSTANT, DIVIDE, DONE, DUE, EARLIER,
    EQUAL, EVENT, EVENTS, FLOOR, GREATER, GREATER_EQUAL, IS_NULL, KEY, KILL, LESS, LESS_EQUAL,
    LIMIT, MATCHES, MINUS, MODULO, MULTIPLY, NEED, NEWEST, NOT, NOW, NUMBER, N_BOUND, N_CONFIG,
    N_COUNT, N_EVENT, N_RUN, OR, OWN, RUNS, STEPS, STRICT, SUBTRACT, TAKE, TOLD, TOO_MANY, TS,
    UNDONE, UNEQUAL, UNIFORM, WITHIN,
)  # fmt: skip
from betimes.patterns.kernel.matching import hand_over, pass_time, run
from betimes.patterns.kernel.memory import compact, go_back
from betimes.patterns.kernel.reading import hand_out, sort_out

__all__ = [
    "ABSOLUTE", "ADD", "AND", "ARRIVAL", "AT", "BINDINGS", "BOUND_PLACE", "CONSTANT", "DIVIDE",
    "DONE", "DUE", "EARLIER", "EQUAL", "EVENT", "EVENTS", "FLOOR", "GREATER", "GREATER_EQUAL",
    "IS_NULL", "KEY", "KILL", "LESS", "LESS_EQUAL", "LIMIT", "MATCHES", "MINUS", "MODULO",
    "MULTIPLY", "NEED", "NEWEST", "NOT", "NOW", "NUMBER", "N_BOUND", "N_CONFIG", "N_COUNT",
    "N_EVENT", "N_RUN", "OR", "OWN", "RUNS", "STEPS", "STRICT", "SUBTRACT", "TAKE", "TOLD",
    "TOO_MANY", "TS", "UNDONE", "UNEQUAL", "UNIFORM", "WITHIN", "compact", "go_back", "hand_out",
    "hand_over", "pass_time", "run", "sort_out",
]  # fmt: skip
