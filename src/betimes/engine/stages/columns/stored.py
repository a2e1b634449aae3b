"""Whether the stored state of a compiled pattern is one that its loop can work on."""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.engine.stages.columns.history import ColumnSegment
from betimes.model.stored import array, indices, require
from betimes.patterns.compiled import Program
from betimes.patterns.kernel import layout as kernel


def check_columns(
    kept: dict[str, Any], segments: list[ColumnSegment], arrays: dict[str, Any], program: Program
) -> None:
    """Refuse a state in which the loop would read or write what is not its own."""
    keys = len(kept["keys"])
    runs = _check_runs(arrays, program, keys)
    for segment in segments:
        _check_events(segment.events, segment.own, program, keys)
        undo = segment.undo
        array(undo, np.int64, (2, None), "an undo log")
        indices(undo[0], keys, "the keys of an undo log")
        indices(undo[1], runs, "the states of an undo log", least=-1)
    rows, waiting = kept["waiting"]
    array(rows, np.int64, (None,), "what waits")
    if waiting is not None:
        _check_events(waiting[0], waiting[1], program, keys)
        require(waiting[0].shape[1] == len(rows), "what waits is incomplete")


def _check_events(events: Any, own: Any, program: Program, keys: int) -> None:
    array(events, np.int64, (kernel.N_EVENT, None), "events")
    array(own, np.float64, (len(program.columns), events.shape[1]), "values of events")
    indices(events[kernel.KEY], keys, "the keys of events")


def _check_runs(kept: dict[str, Any], program: Program, keys: int) -> int:
    """Check partial matches: lists of runs, each with a list of bindings; return their number.

    A node of a list points to an older one, which comes before it. So every list has an end.
    """
    heads = array(kept["heads"], np.int64, (None,), "the states of keys")
    require(len(heads) >= keys, "the states of keys are incomplete")
    for name in ("stamps", "newest"):
        array(kept[name], np.int64, heads.shape, "the states of keys")
    runs = array(kept["runs"], np.int64, (kernel.N_RUN, None), "partial matches")
    bindings = array(kept["bindings"], np.int64, (kernel.N_BOUND, None), "bindings")
    bound = bindings.shape[1]
    array(kept["values"], np.float64, (len(program.columns), bound), "values of bindings")
    count, steps = runs.shape[1], len(program.steps)
    indices(heads, count, "the states of keys", least=-1)
    following, state = runs[kernel.NEXT], runs[kernel.STATE]
    older = (following >= -1) & (following < np.arange(count))
    require(older.all(), "partial matches have no end")
    lengths = np.append(runs[kernel.LENGTH], 0)
    require((lengths[:-1] == lengths[following] + 1).all(), "partial matches are miscounted")
    previous = bindings[kernel.PREVIOUS]
    require(((previous >= -1) & (previous < np.arange(bound))).all(), "bindings have no end")
    indices(state, steps + 1, "the states of partial matches", least=1)
    # As many steps are bound as the state says.
    at = runs[kernel.BOUND].copy()
    for step in range(steps):
        more = state > step
        indices(at[more], bound, "the bindings of partial matches")
        at[more] = previous[at[more]]
    require((at == -1).all(), "partial matches have bound more than their steps")
    return int(count)
