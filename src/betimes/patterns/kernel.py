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

All functions stay in this one module: numba's cache notices changes by file.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# Rows of an array of events.
TS, ARRIVAL, KEY, TAKE, KILL, NUMBER, AT, N_EVENT = range(8)
# Rows of the arena of runs and of the arena of bindings.
NEXT, STATE, START_TS, START_ARRIVAL, BOUND, LENGTH, N_RUN = range(7)
PREVIOUS, EVENT, BOUND_TS, BOUND_ARRIVAL, N_BOUND = range(5)
# Configuration.
STEPS, WITHIN, UNIFORM, STRICT, LIMIT, N_CONFIG = range(6)
# Counters: how far the arenas and the outputs are filled, where the loop stands, and how much room
# it needs to go on.
RUNS, BINDINGS, MATCHES, UNDONE, NOW, NEED, N_COUNT = range(7)
# Rows of the array of matches: the event at which it is told, the time if it was told before that
# event because windows were over (else -1), the newest arrival that it rests on, then its events.
TOLD, DUE, NEWEST, EVENTS = range(4)
# Answers.
DONE, GROW, TOO_MANY = range(3)
# Programs.
(
    CONSTANT, OWN, EARLIER, ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR, MODULO, MINUS, ABSOLUTE,
    EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, AND, OR, NOT, IS_NULL,
) = range(21)  # fmt: skip
END = 2**63 - 1
"""The time at which everything is over."""
BOUND_PLACE = 64
"""Steps at most: their conditions are bits of a number."""


@compiled
def _nth(bindings: Ints, last: int, back: int) -> int:
    """The binding so many places before the last one of a run."""
    for _ in range(back):
        last = bindings[PREVIOUS, last]
    return last


@compiled
def _truth(value: float) -> float:
    if np.isnan(value):
        return np.nan
    return 1.0 if value != 0.0 else 0.0


@compiled
def _binary(op: int, a: float, b: float) -> float:
    if op == AND:
        a, b = _truth(a), _truth(b)
        if a == 0.0 or b == 0.0:
            return 0.0
        return np.nan if np.isnan(a) or np.isnan(b) else 1.0
    if op == OR:
        a, b = _truth(a), _truth(b)
        if a == 1.0 or b == 1.0:
            return 1.0
        return np.nan if np.isnan(a) or np.isnan(b) else 0.0
    if np.isnan(a) or np.isnan(b):
        return np.nan
    if op == ADD:
        return a + b
    if op == SUBTRACT:
        return a - b
    if op == MULTIPLY:
        return a * b
    if op == DIVIDE:
        return np.nan if b == 0.0 else a / b
    if op == FLOOR:
        return np.nan if b == 0.0 else np.floor(a / b)
    if op == MODULO:
        return np.nan if b == 0.0 else a - b * np.floor(a / b)
    if op == EQUAL:
        return 1.0 if a == b else 0.0
    if op == UNEQUAL:
        return 1.0 if a != b else 0.0
    if op == LESS:
        return 1.0 if a < b else 0.0
    if op == LESS_EQUAL:
        return 1.0 if a <= b else 0.0
    if op == GREATER:
        return 1.0 if a > b else 0.0
    return 1.0 if a >= b else 0.0


@compiled
def _holds(
    program: Ints, constants: Floats, own: Floats, i: int,
    bindings: Ints, values: Floats, last: int, state: int, stack: Floats,
) -> bool:  # fmt: skip
    """Whether a condition holds for event `i` and a run that has bound `state` steps."""
    top = 0
    for at in range(program.shape[1]):
        op, a, b = program[0, at], program[1, at], program[2, at]
        if op == CONSTANT:
            stack[top] = constants[a]
            top += 1
        elif op == OWN:
            stack[top] = own[a, i]
            top += 1
        elif op == EARLIER:
            stack[top] = values[b, _nth(bindings, last, state - 1 - a)]
            top += 1
        elif op == MINUS:
            stack[top - 1] = -stack[top - 1]
        elif op == ABSOLUTE:
            stack[top - 1] = abs(stack[top - 1])
        elif op == NOT:
            stack[top - 1] = 1.0 - _truth(stack[top - 1])
        elif op == IS_NULL:
            stack[top - 1] = 1.0 if np.isnan(stack[top - 1]) else 0.0
        else:
            top -= 1
            stack[top - 1] = _binary(op, stack[top - 1], stack[top])
    return _truth(stack[0]) == 1.0


@compiled
def _tell(
    matches: Ints,
    counts: Ints,
    i: int,
    due: int,
    newest: int,
    bindings: Ints,
    last: int,
    steps: int,
) -> None:
    """Write down a match: at which event or time it is told, and the numbers of its events."""
    n = counts[MATCHES]
    counts[MATCHES] += 1
    matches[TOLD, n] = i
    matches[DUE, n] = due
    matches[NEWEST, n] = newest
    for step in range(steps - 1, -1, -1):
        matches[EVENTS + step, n] = bindings[EVENT, last]
        last = bindings[PREVIOUS, last]


@compiled
def _bind(
    bindings: Ints, values: Floats, n: int, previous: int, events: Ints, own: Floats, i: int
) -> None:
    bindings[PREVIOUS, n] = previous
    bindings[EVENT, n] = events[NUMBER, i]
    bindings[BOUND_TS, n] = events[TS, i]
    bindings[BOUND_ARRIVAL, n] = events[ARRIVAL, i]
    for column in range(values.shape[0]):
        values[column, n] = own[column, i]


@compiled
def _push(runs: Ints, n: int, tail: int, state: int, ts: int, arrival: int, bound: int) -> None:
    runs[NEXT, n] = tail
    runs[STATE, n] = state
    runs[START_TS, n] = ts
    runs[START_ARRIVAL, n] = arrival
    runs[BOUND, n] = bound
    runs[LENGTH, n] = 1 if tail < 0 else runs[LENGTH, tail] + 1


@compiled
def run(
    events: Ints, own: Floats, todo: Flags, config: Ints,
    take_at: Ints, kill_at: Ints, programs: Ints, constants: Floats,
    heads: Ints, stamps: Ints, newest: Ints, stamp: int, runs: Ints, bindings: Ints,
    values: Floats, undo: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Handle events from `counts[NOW]` on; `todo` tells the keys that are meant, if it has any.

    `take_at` and `kill_at` say for each step where its program begins and ends in `programs`;
    `newest` is the newest arrival that each key's state rests on.
    """
    steps, within, uniform = config[STEPS], config[WITHIN], config[UNIFORM] != 0
    some = len(todo) > 0
    stack = np.empty(programs.shape[1] + 2)
    line = np.empty(64, np.int64)
    for i in range(counts[NOW], events.shape[1]):
        counts[NOW] = i
        key = events[KEY, i]
        if some and not todo[key]:
            continue
        newest[key] = max(newest[key], events[AT, i])
        head = heads[key]
        take, kill = events[TAKE, i], events[KILL, i]
        if head < 0 and take & 1 == 0:
            continue
        length = 0 if head < 0 else runs[LENGTH, head]
        if length > config[LIMIT]:
            return TOO_MANY
        need = 3 * length + 6
        if (
            counts[RUNS] + need > runs.shape[1]
            or counts[BINDINGS] + need > bindings.shape[1]
            or counts[MATCHES] + need > matches.shape[1]
            or counts[UNDONE] + 1 > undo.shape[1]
        ):
            counts[NEED] = need
            return GROW
        before = head
        ts = events[TS, i]
        if not uniform and within >= 0 and head >= 0:
            head = _advance(
                head, ts, i, newest[key], steps, within, runs, bindings, matches, counts
            )
            length = 0 if head < 0 else runs[LENGTH, head]
        if length > len(line):
            line = np.empty(2 * length, np.int64)
        node = head
        for at in range(length):
            line[at] = node
            node = runs[NEXT, node]
        tail, matched = -1, False
        for at in range(length - 1, -1, -1):
            node = line[at]
            state = runs[STATE, node]
            if state < steps:
                if within >= 0 and ts - runs[START_TS, node] >= within:
                    continue
                last = runs[BOUND, node]
                takes = (take >> state) & 1 != 0 and (
                    take_at[0, state] == take_at[1, state]
                    or _holds(
                        programs[:, take_at[0, state] : take_at[1, state]], constants, own, i,
                        bindings, values, last, state, stack,
                    )
                )  # fmt: skip
                # What completes a match does so even if it is forbidden.
                if (kill >> state) & 1 and not (takes and state + 1 == steps) and (
                    kill_at[0, state] == kill_at[1, state]
                    or _holds(
                        programs[:, kill_at[0, state] : kill_at[1, state]], constants, own, i,
                        bindings, values, last, state, stack,
                    )
                ):  # fmt: skip
                    continue
                if takes:
                    if uniform and within < 0 and tail >= 0 and runs[STATE, tail] == state + 1:
                        continue
                    bound = counts[BINDINGS]
                    counts[BINDINGS] += 1
                    _bind(bindings, values, bound, last, events, own, i)
                    if uniform and state + 1 == steps:
                        _tell(matches, counts, i, -1, newest[key], bindings, bound, steps)
                        tail, matched = -1, True
                        break
                    n = counts[RUNS]
                    counts[RUNS] += 1
                    _push(
                        runs, n, tail, state + 1,
                        runs[START_TS, node], runs[START_ARRIVAL, node], bound,
                    )  # fmt: skip
                    tail = n
                    continue
                if (config[STRICT] >> state) & 1:
                    continue
            if runs[NEXT, node] == tail:
                tail = node
            else:
                n = counts[RUNS]
                counts[RUNS] += 1
                _push(
                    runs, n, tail, state,
                    runs[START_TS, node], runs[START_ARRIVAL, node], runs[BOUND, node],
                )  # fmt: skip
                tail = n
        if take & 1 and not matched:
            waits = uniform and within < 0 and tail >= 0 and runs[STATE, tail] == 1
            if not waits or steps == 1:
                bound = counts[BINDINGS]
                counts[BINDINGS] += 1
                _bind(bindings, values, bound, -1, events, own, i)
                if steps == 1:
                    _tell(matches, counts, i, -1, newest[key], bindings, bound, steps)
                    tail = -1
                else:
                    n = counts[RUNS]
                    counts[RUNS] += 1
                    _push(runs, n, tail, 1, ts, events[ARRIVAL, i], bound)
                    tail = n
        if not uniform and tail >= 0:
            tail = _release(tail, i, newest[key], steps, runs, bindings, matches, counts)
        if tail != before:
            _change(key, tail, heads, stamps, stamp, undo, counts)
    counts[NOW] = events.shape[1]
    return DONE


@compiled
def _change(
    key: int, head: int, heads: Ints, stamps: Ints, stamp: int, undo: Ints, counts: Ints
) -> None:
    """Give a key another state; the first time in a segment, note the one it had."""
    if stamps[key] != stamp:
        stamps[key] = stamp
        undo[0, counts[UNDONE]] = key
        undo[1, counts[UNDONE]] = heads[key]
        counts[UNDONE] += 1
    heads[key] = head


@compiled
def _line(head: int, runs: Ints) -> Ints:
    """The runs of a list, the newest first."""
    line = np.empty(runs[LENGTH, head], np.int64)
    node = head
    for at in range(len(line)):
        line[at] = node
        node = runs[NEXT, node]
    return line


@compiled
def _release(
    head: int, i: int, newest: int, steps: int,
    runs: Ints, bindings: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Tell the complete runs before which no older one is open; return the head of the rest."""
    line = _line(head, runs)
    length = len(line)
    kept = length
    while kept > 0 and runs[STATE, line[kept - 1]] == steps:
        last = runs[BOUND, line[kept - 1]]
        _tell(matches, counts, i, -1, newest, bindings, last, steps)
        ts, arrival = bindings[BOUND_TS, last], bindings[BOUND_ARRIVAL, last]
        while kept > 0 and (
            runs[START_TS, line[kept - 1]] < ts
            or (
                runs[START_TS, line[kept - 1]] == ts
                and runs[START_ARRIVAL, line[kept - 1]] <= arrival
            )
        ):
            kept -= 1
    if kept == length:
        return head
    tail = -1
    for at in range(kept - 1, -1, -1):
        n = counts[RUNS]
        counts[RUNS] += 1
        node = line[at]
        _push(
            runs, n, tail, runs[STATE, node],
            runs[START_TS, node], runs[START_ARRIVAL, node], runs[BOUND, node],
        )  # fmt: skip
        tail = n
    return tail


@compiled
def pass_time(
    keys: Ints, ts: int, config: Ints, heads: Ints, stamps: Ints, newest: Ints, stamp: int,
    runs: Ints, bindings: Ints, undo: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Time has come to `ts` for these keys: close windows, tell what waited for that.

    Matches are told with the place of their key among `keys`.
    """
    for i in range(counts[NOW], len(keys)):
        counts[NOW] = i
        key = keys[i]
        head = heads[key]
        if head < 0:
            continue
        need = 2 * runs[LENGTH, head] + 4
        if (
            counts[RUNS] + need > runs.shape[1]
            or counts[MATCHES] + need > matches.shape[1]
            or counts[UNDONE] + 1 > undo.shape[1]
        ):
            counts[NEED] = need
            return GROW
        tail = _advance(
            head, ts, i, newest[key], config[STEPS], config[WITHIN],
            runs, bindings, matches, counts,
        )  # fmt: skip
        if tail != head:
            _change(key, tail, heads, stamps, stamp, undo, counts)
    counts[NOW] = len(keys)
    return DONE


@compiled
def _advance(
    head: int, ts: int, i: int, newest: int, steps: int, within: int,
    runs: Ints, bindings: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Drop the runs whose windows are over, and tell the complete ones that waited for them."""
    line = _line(head, runs)
    length = len(line)
    tail, due, waits = -1, -1, False
    cut_ts, cut_arrival = -1, -1
    for at in range(length - 1, -1, -1):
        node = line[at]
        start = runs[START_TS, node]
        if start < cut_ts or (start == cut_ts and runs[START_ARRIVAL, node] <= cut_arrival):
            continue
        if runs[STATE, node] < steps:
            if ts == END or (within >= 0 and ts - start >= within):
                due = max(due, start + within if within >= 0 else END)
                continue
            waits = True
        elif not waits:
            last = runs[BOUND, node]
            _tell(matches, counts, i, due, newest, bindings, last, steps)
            cut_ts, cut_arrival = bindings[BOUND_TS, last], bindings[BOUND_ARRIVAL, last]
            continue
        if runs[NEXT, node] == tail:
            tail = node
            continue
        n = counts[RUNS]
        counts[RUNS] += 1
        _push(runs, n, tail, runs[STATE, node], start, runs[START_ARRIVAL, node], runs[BOUND, node])
        tail = n
    return tail


@compiled
def go_back(undo: Ints, todo: Flags, found: Flags, heads: Ints) -> int:
    """Give keys the states of an undo log, unless an earlier one had them; keep the others' rows.

    Returns how many rows were kept; they are moved to the front.
    """
    kept = 0
    for at in range(undo.shape[1]):
        key = undo[0, at]
        if todo[key]:
            if not found[key]:
                found[key] = True
                heads[key] = undo[1, at]
        else:
            undo[0, kept] = key
            undo[1, kept] = undo[1, at]
            kept += 1
    return kept


@compiled
def compact(
    roots: Ints, runs: Ints, bindings: Ints, values: Floats, counts: Ints
) -> tuple[Ints, Ints]:
    """Drop what no root leads to; return where each run has gone, and the events still bound.

    What a node points to is older and stands before it, so one sweep forward moves everything.
    """
    keep_run = np.zeros(counts[RUNS], np.bool_)
    keep_bound = np.zeros(counts[BINDINGS], np.bool_)
    for root in roots:
        node = root
        while node >= 0 and not keep_run[node]:
            keep_run[node] = True
            bound = runs[BOUND, node]
            while bound >= 0 and not keep_bound[bound]:
                keep_bound[bound] = True
                bound = bindings[PREVIOUS, bound]
            node = runs[NEXT, node]
    bound_to = np.full(counts[BINDINGS], -1, np.int64)
    n = 0
    for at in range(counts[BINDINGS]):
        if keep_bound[at]:
            bound_to[at] = n
            for row in range(N_BOUND):
                bindings[row, n] = bindings[row, at]
            if bindings[PREVIOUS, n] >= 0:
                bindings[PREVIOUS, n] = bound_to[bindings[PREVIOUS, n]]
            for column in range(values.shape[0]):
                values[column, n] = values[column, at]
            n += 1
    counts[BINDINGS] = n
    run_to = np.full(counts[RUNS], -1, np.int64)
    m = 0
    for at in range(counts[RUNS]):
        if keep_run[at]:
            run_to[at] = m
            for row in range(N_RUN):
                runs[row, m] = runs[row, at]
            if runs[NEXT, m] >= 0:
                runs[NEXT, m] = run_to[runs[NEXT, m]]
            runs[BOUND, m] = bound_to[runs[BOUND, m]]
            m += 1
    counts[RUNS] = m
    return run_to, bindings[EVENT, :n].copy()
