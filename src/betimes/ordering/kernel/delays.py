"""Delays by type: for people who want to know which events come late, and by how much.

To set the slack, the loop only needs the oldest event that waits for the next clock update. Here,
each type has its own. One backward pass along the path finds, for each arrival, the update that
measures it; what arrives after the last update waits for the first one of a later batch.

If each source has its own clock, the same holds for each of them: `own` says how far an arrival has
moved the clock of its source (NEVER: not at all; FAR: time has passed for all sources), and what
waits is in a table by source and type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    ANY_PENDING, CLOCK, Codes, DELAY, FAR, Ints, MEASURED, NEVER, OFFSET, OLDEST_WAITING, OPEN,
    PENDING, ROLE, SILENT, UNMEASURED,
)  # fmt: skip


@compiled
def note_delays(
    types: Ints, ts: Ints, codes: Codes, heads: Ints, path: Ints, longer: bool
) -> None:  # fmt: skip
    """Note the largest delay of each type, along the path of the clock.

    If no delay is `longer` than those before, all that is to be noted is what waits.
    """
    n = len(ts)
    last = n - 1
    while last >= 0 and path[2, last] == NEVER:
        last -= 1
    if last >= 0:
        _measure_pending(types, codes, path)
    for p in range(last + 1, n):
        code = codes[p]
        if _is_measured(types, ts, codes, path, p):
            types[PENDING, code] = min(types[PENDING, code], ts[p] - heads[p])
    if longer:
        _measure(types, ts, codes, heads, path, last)


@compiled
def _measure(types: Ints, ts: Ints, codes: Codes, heads: Ints, path: Ints, last: int) -> None:
    """Measure what arrived before the last clock update, which is its place."""
    clock, bound, delays = path[0], path[2], types[DELAY]
    # Most events of a stream may be clock events, which are not measured.
    known = delays.copy()
    for code in range(len(known)):
        if not types[ROLE, code] & MEASURED:
            known[code] = FAR
    at = last
    for p in range(last, -1, -1):
        at = p if bound[p] != NEVER else at
        delay = clock[at] - ts[p] + heads[p]
        # It rarely is, so this is all that most events cost.
        if delay > known[codes[p]]:
            silent = types[ROLE, codes[at]] & SILENT
            if not silent and _is_measured(types, ts, codes, path, p):
                known[codes[p]] = delays[codes[p]] = delay


@compiled
def _is_measured(types: Ints, ts: Ints, codes: Codes, path: Ints, p: int) -> bool:
    """Whether a delay is measured, and no clock event that the clock does not follow."""
    role = types[ROLE, codes[p]]
    suspect = role & CLOCK and ts[p] + types[OFFSET, codes[p]] > path[0, p]
    return bool(role & MEASURED and not suspect)


@compiled
def _measure_pending(types: Ints, codes: Codes, path: Ints) -> None:
    """The clock moves: measure what has waited since earlier batches.

    A silent event would measure nothing but how long the stream was quiet.
    """
    first = 0
    while path[2, first] == NEVER:
        first += 1
    silent = types[ROLE, codes[first]] & SILENT
    for code in range(types.shape[1]):
        oldest = types[PENDING, code]
        if oldest != FAR:
            if not silent:
                types[DELAY, code] = max(types[DELAY, code], path[0, first] - oldest)
            types[PENDING, code] = FAR


@compiled
def note_delays_of_sources(
    types: Ints, rows: Ints, pending: Ints, ts: Ints, codes: Codes, heads: Ints, sources: Any,
    path: Ints, own: Ints, longer: bool,
) -> None:  # fmt: skip
    """Note the largest delay of each type, along the paths of the clocks of all sources.

    If no delay is `longer` than those before, all that is to be noted is what waits: look no
    further than to the last update of each source.
    """
    delays = types[DELAY]
    clocks = np.full(len(rows), OPEN)
    left = 0
    for s in range(len(rows)):
        left += rows[s, OLDEST_WAITING] != FAR
    for p in range(len(ts) - 1, -1, -1):
        if left == 0 and not longer:
            break
        s = sources[p]
        if own[p] != NEVER:
            if clocks[s] == OPEN and rows[s, OLDEST_WAITING] != FAR:
                left -= 1
            if own[p] == FAR:
                clocks[:] = UNMEASURED
            else:
                clocks[s] = own[p]
        delay = clocks[s] - ts[p] + heads[p]
        # As above, this is all that most events cost.
        if delay > delays[codes[p]] and _is_measured(types, ts, codes, path, p):
            if clocks[s] != OPEN:
                delays[codes[p]] = delay
            elif s > 0:
                pending[s, codes[p]] = min(pending[s, codes[p]], ts[p] - heads[p])
                rows[s, ANY_PENDING] = 1


@compiled
def measure_pending(types: Ints, pending: Ints, s: int, time: int) -> None:
    """The clock of a source moves: measure what has waited since earlier batches."""
    for code in range(types.shape[1]):
        if pending[s, code] != FAR:
            types[DELAY, code] = max(types[DELAY, code], time - pending[s, code])


@compiled
def forget_pending(rows: Ints, pending: Ints, s: int) -> None:
    """Nothing of this source waits for its clock any more."""
    if rows[s, ANY_PENDING]:
        pending[s, :] = FAR
        rows[s, ANY_PENDING] = 0
