"""The two loops: over events in order, and over keys for which time passes without events."""

from __future__ import annotations

import numpy as np

from betimes.model.compiling import compiled
from betimes.patterns.kernel.conditions import holds

from betimes.patterns.kernel.layout import (  # isort: skip
    ARRIVAL, AT, BINDINGS, BOUND, DONE, Flags, Floats, GROW, Ints, KEY, KILL, LENGTH, LIMIT,
    MATCHES, NEED, NEXT, NOW, RUNS, START_ARRIVAL, START_TS, STATE, STEPS, STRICT, TAKE, TOO_MANY,
    TS, UNDONE, UNIFORM, WITHIN,
)  # fmt: skip
from betimes.patterns.kernel.reading import hand_out
from betimes.patterns.kernel.runs import advance, bind, change, push, release, tell


@compiled
def hand_over(
    known: Ints, waiting: Ints, waiting_values: Floats, low: int, high: int, rows: Ints, at: Ints,
    end: int, events: Ints, own: Floats, start: int, todo: Flags, config: Ints,
    take_at: Ints, kill_at: Ints, programs: Ints, constants: Floats,
    heads: Ints, stamps: Ints, newest: Ints, stamp: int, runs: Ints, bindings: Ints,
    values: Floats, undo: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Move events from where they wait to the others, from `start` on, and handle all to `end`.

    The same as `hand_out` and then `run`; all rows must be known.
    """
    which = np.empty(0, np.int64)
    hand_out(known, waiting, waiting_values, low, high, rows, at, events, own, start, which)
    return run(
        events, own, end, todo, config, take_at, kill_at, programs, constants,
        heads, stamps, newest, stamp, runs, bindings, values, undo, matches, counts,
    )  # fmt: skip


@compiled
def run(
    events: Ints, own: Floats, end: int, todo: Flags, config: Ints,
    take_at: Ints, kill_at: Ints, programs: Ints, constants: Floats,
    heads: Ints, stamps: Ints, newest: Ints, stamp: int, runs: Ints, bindings: Ints,
    values: Floats, undo: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Handle events from `counts[NOW]` to `end`; if `todo` is not empty, only of the keys in it.

    `take_at` and `kill_at` hold the start and the end of each step's program in `programs`;
    `newest` holds the newest arrival that each key's state depends on.
    """
    steps, within, uniform = config[STEPS], config[WITHIN], config[UNIFORM] != 0
    some = len(todo) > 0
    stack = np.empty(programs.shape[1] + 2)
    line = np.empty(64, np.int64)
    for i in range(counts[NOW], end):
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
            head = advance(head, ts, i, newest[key], steps, within, runs, bindings, matches, counts)
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
                    or holds(
                        programs[:, take_at[0, state] : take_at[1, state]], constants, own, i,
                        bindings, values, last, state, stack,
                    )
                )  # fmt: skip
                # An event that completes the match does so even if it is forbidden.
                if (kill >> state) & 1 and not (takes and state + 1 == steps) and (
                    kill_at[0, state] == kill_at[1, state]
                    or holds(
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
                    bind(bindings, values, bound, last, events, own, i)
                    if uniform and state + 1 == steps:
                        tell(matches, counts, i, -1, newest[key], bindings, bound, steps)
                        tail, matched = -1, True
                        break
                    n = counts[RUNS]
                    counts[RUNS] += 1
                    push(
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
                push(
                    runs, n, tail, state,
                    runs[START_TS, node], runs[START_ARRIVAL, node], runs[BOUND, node],
                )  # fmt: skip
                tail = n
        if take & 1 and not matched:
            waits = uniform and within < 0 and tail >= 0 and runs[STATE, tail] == 1
            if not waits or steps == 1:
                bound = counts[BINDINGS]
                counts[BINDINGS] += 1
                bind(bindings, values, bound, -1, events, own, i)
                if steps == 1:
                    tell(matches, counts, i, -1, newest[key], bindings, bound, steps)
                    tail = -1
                else:
                    n = counts[RUNS]
                    counts[RUNS] += 1
                    push(runs, n, tail, 1, ts, events[ARRIVAL, i], bound)
                    tail = n
        if not uniform and tail >= 0:
            tail = release(tail, i, newest[key], steps, runs, bindings, matches, counts)
        if tail != before:
            change(key, tail, heads, stamps, stamp, undo, counts)
    counts[NOW] = end
    return DONE


@compiled
def pass_time(
    keys: Ints, ts: int, config: Ints, heads: Ints, stamps: Ints, newest: Ints, stamp: int,
    runs: Ints, bindings: Ints, undo: Ints, matches: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Let time advance to `ts` for these keys: close windows, and tell the matches that waited.

    Instead of an event, each match refers to the index of its key in `keys`.
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
        tail = advance(
            head, ts, i, newest[key], config[STEPS], config[WITHIN],
            runs, bindings, matches, counts,
        )  # fmt: skip
        if tail != head:
            change(key, tail, heads, stamps, stamp, undo, counts)
    counts[NOW] = len(keys)
    return DONE
