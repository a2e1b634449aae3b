"""Runs: the list of partial matches of each key, and the matches that they become."""

from __future__ import annotations

import numpy as np

from betimes.model.compiling import compiled

from betimes.patterns.kernel.layout import (  # isort: skip
    ARRIVAL, BOUND, BOUND_ARRIVAL, BOUND_TS, DUE, END, EVENT, EVENTS, Floats, Ints, LENGTH,
    MATCHES, NEWEST, NEXT, NUMBER, PREVIOUS, RUNS, START_ARRIVAL, START_TS, STATE, TOLD, TS,
    UNDONE,
)  # fmt: skip


@compiled
def tell(
    matches: Ints,
    counts: Ints,
    i: int,
    due: int,
    newest: int,
    bindings: Ints,
    last: int,
    steps: int,
) -> None:
    """Record a match: the event or time at which it is told, and the numbers of its events."""
    n = counts[MATCHES]
    counts[MATCHES] += 1
    matches[TOLD, n] = i
    matches[DUE, n] = due
    matches[NEWEST, n] = newest
    for step in range(steps - 1, -1, -1):
        matches[EVENTS + step, n] = bindings[EVENT, last]
        last = bindings[PREVIOUS, last]


@compiled
def bind(
    bindings: Ints, values: Floats, n: int, previous: int, events: Ints, own: Floats, i: int
) -> None:
    bindings[PREVIOUS, n] = previous
    bindings[EVENT, n] = events[NUMBER, i]
    bindings[BOUND_TS, n] = events[TS, i]
    bindings[BOUND_ARRIVAL, n] = events[ARRIVAL, i]
    for column in range(values.shape[0]):
        values[column, n] = own[column, i]


@compiled
def push(runs: Ints, n: int, tail: int, state: int, ts: int, arrival: int, bound: int) -> None:
    runs[NEXT, n] = tail
    runs[STATE, n] = state
    runs[START_TS, n] = ts
    runs[START_ARRIVAL, n] = arrival
    runs[BOUND, n] = bound
    runs[LENGTH, n] = 1 if tail < 0 else runs[LENGTH, tail] + 1


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
def release(
    head: int, i: int, newest: int, steps: int,
    runs: Ints, bindings: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Tell the complete runs that no older open run holds back; return the head of the rest."""
    line = _line(head, runs)
    length = len(line)
    kept = length
    while kept > 0 and runs[STATE, line[kept - 1]] == steps:
        last = runs[BOUND, line[kept - 1]]
        tell(matches, counts, i, -1, newest, bindings, last, steps)
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
        push(
            runs, n, tail, runs[STATE, node],
            runs[START_TS, node], runs[START_ARRIVAL, node], runs[BOUND, node],
        )  # fmt: skip
        tail = n
    return tail


@compiled
def advance(
    head: int, ts: int, i: int, newest: int, steps: int, within: int,
    runs: Ints, bindings: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Drop the runs whose windows are over, and tell the complete runs that waited for them."""
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
            tell(matches, counts, i, due, newest, bindings, last, steps)
            cut_ts, cut_arrival = bindings[BOUND_TS, last], bindings[BOUND_ARRIVAL, last]
            continue
        if runs[NEXT, node] == tail:
            tail = node
            continue
        n = counts[RUNS]
        counts[RUNS] += 1
        push(runs, n, tail, runs[STATE, node], start, runs[START_ARRIVAL, node], runs[BOUND, node])
        tail = n
    return tail


@compiled
def change(
    key: int, head: int, heads: Ints, stamps: Ints, stamp: int, undo: Ints, counts: Ints
) -> None:
    """Give a key a new state; the first time in a segment, log the old one for going back."""
    if stamps[key] != stamp:
        stamps[key] = stamp
        undo[0, counts[UNDONE]] = key
        undo[1, counts[UNDONE]] = heads[key]
        counts[UNDONE] += 1
    heads[key] = head
