"""The layout of the arrays that the loops work on: names for their rows and fields."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]

# Rows of an array of events.
TS, ARRIVAL, KEY, TAKE, KILL, NUMBER, AT, N_EVENT = range(8)
# Rows of the arena of runs and of the arena of bindings.
NEXT, STATE, START_TS, START_ARRIVAL, BOUND, LENGTH, N_RUN = range(7)
PREVIOUS, EVENT, BOUND_TS, BOUND_ARRIVAL, N_BOUND = range(5)
# Configuration.
STEPS, WITHIN, UNIFORM, STRICT, LIMIT, N_CONFIG = range(6)
# Counters: how full the arenas and the outputs are, which event is next, and how much room the loop
# needs to continue. Those from MATCHES to NOW are for one call only.
RUNS, BINDINGS, MATCHES, UNDONE, NOW, NEED, N_COUNT = range(7)
# Rows of the array of matches: the event at which the match is told; the time, if it is told
# before that event because a window ended (else -1); the newest arrival that it depends on; then
# its events.
TOLD, DUE, NEWEST, EVENTS = range(4)
# Answers.
DONE, GROW, TOO_MANY = range(3)
# Programs.
(
    CONSTANT, OWN, EARLIER, ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR, MODULO, MINUS, ABSOLUTE,
    EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, AND, OR, NOT, IS_NULL,
) = range(21)  # fmt: skip
END = 2**63 - 1
"""The time after all events: every window is over."""
BOUND_PLACE = 64
"""Above the largest number of steps: each has one bit of an integer."""
