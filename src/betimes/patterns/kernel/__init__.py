"""Compiled patterns: the automaton's loop over columns of events, by key.

A *run* is a partial match of a key: how many steps it has bound (its state), where it started, and
its bindings. The runs of a key are a linked list, the newest first. Lists are never changed: an
event that changes a run makes new nodes for it and for the newer ones, and shares the older ones.
So the state of a key is one number, the head of its list, and to remember a state for going back
is to remember that number.

For every event, in order, and every run of its key, the oldest first:

1. A run whose window is over is dropped.
2. An event that is forbidden while the run waits ends it, unless it completes the match.
3. An event that the next step takes moves it on.
4. A run that waits strictly for the very next event, and did not get it, ends.

Then an event that the first step takes begins a run. A run that has bound all steps is a match as
soon as no older run is open, and takes with it all runs that started up to its last event (skip
past last).

If no condition looks at earlier steps (the pattern is *uniform*), an older run is never behind a
newer one: they see the same events, and move on and end alike. Then the first run that is complete
is a match at once, and without a window a run that comes to where an older one already waits can
never matter again, and is dropped: there are never more runs than steps.

Conditions that look at earlier steps are programs for a stack of numbers; null is NaN, and so is a
truth value that nobody knows.
"""

from betimes.patterns.kernel.layout import (  # isort: skip
    ABSOLUTE, ADD, AND, ARRIVAL, AT, BINDINGS, BOUND_PLACE, CONSTANT, DIVIDE, DONE, DUE, EARLIER,
    EQUAL, EVENTS, FLOOR, GREATER, GREATER_EQUAL, IS_NULL, KEY, KILL, LESS, LESS_EQUAL, LIMIT,
    MATCHES, MINUS, MODULO, MULTIPLY, NEED, NEWEST, NOT, NOW, NUMBER, N_BOUND, N_CONFIG, N_COUNT,
    N_EVENT, N_RUN, OR, OWN, RUNS, STEPS, STRICT, SUBTRACT, TAKE, TOLD, TOO_MANY, TS, UNDONE,
    UNEQUAL, UNIFORM, WITHIN,
)  # fmt: skip
from betimes.patterns.kernel.matching import pass_time, run
from betimes.patterns.kernel.memory import compact, go_back

__all__ = [
    "ABSOLUTE", "ADD", "AND", "ARRIVAL", "AT", "BINDINGS", "BOUND_PLACE", "CONSTANT", "DIVIDE",
    "DONE", "DUE", "EARLIER", "EQUAL", "EVENTS", "FLOOR", "GREATER", "GREATER_EQUAL", "IS_NULL",
    "KEY", "KILL", "LESS", "LESS_EQUAL", "LIMIT", "MATCHES", "MINUS", "MODULO", "MULTIPLY",
    "NEED", "NEWEST", "NOT", "NOW", "NUMBER", "N_BOUND", "N_CONFIG", "N_COUNT", "N_EVENT",
    "N_RUN", "OR", "OWN", "RUNS", "STEPS", "STRICT", "SUBTRACT", "TAKE", "TOLD", "TOO_MANY", "TS",
    "UNDONE", "UNEQUAL", "UNIFORM", "WITHIN", "compact", "go_back", "pass_time", "run",
]  # fmt: skip
