"""Delays by type: for people who want to know which events come late, and by how much.

To set the slack, the loop only needs the oldest event that waits for the next clock update. Here,
each type has its own. One backward pass along the path finds, for each arrival, the update that
measures it; what arrives after the last update waits for the first one of a later batch.
"""

from __future__ import annotations

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    CLOCK, Codes, DELAY, FAR, Ints, MEASURED, NEVER, OFFSET, PENDING, ROLE, SILENT,
)  # fmt: skip


@compiled
def note_delays(types: Ints, ts: Ints, codes: Codes, heads: Ints, path: Ints) -> None:
    """Note the largest delay of each type, along the path of the clock."""
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
    clock, bound, delays = path[0], path[2], types[DELAY]
    at = last
    for p in range(last, -1, -1):
        at = p if bound[p] != NEVER else at
        delay = clock[at] - ts[p] + heads[p]
        # It rarely is, so this is all that most events cost.
        if delay > delays[codes[p]]:
            silent = types[ROLE, codes[at]] & SILENT
            if not silent and _is_measured(types, ts, codes, path, p):
                delays[codes[p]] = delay


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
