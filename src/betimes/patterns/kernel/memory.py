"""Going back to earlier states, and freeing what no state refers to any more."""

from __future__ import annotations

import numpy as np

from betimes.model.compiling import compiled

from betimes.patterns.kernel.layout import (  # isort: skip
    BINDINGS, BOUND, EVENT, Flags, Floats, Ints, NEXT, N_BOUND, N_RUN, PREVIOUS, RUNS,
)  # fmt: skip


@compiled
def go_back(undo: Ints, todo: Flags, found: Flags, heads: Ints) -> int:
    """Give the keys in `todo` their states from an undo log, unless an earlier log has done so.

    Moves the rows of the other keys to the front, and returns their number.
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
    """Drop what no root refers to; return the new place of each run, and the events still bound.

    A node points to older nodes, which come before it, so one forward sweep moves everything.
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
