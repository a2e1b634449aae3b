"""The path of clock and slack along the arrivals, and the judgement of suspect clock events."""

from __future__ import annotations

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    ARRIVALS, CLOCK, CONFIRM, COUNT, Codes, DELAY, FAR, FRONTIER, Floats, HEAD, Ints, LARGEST,
    MARGIN, MAX_SKEW, MEASURED, NEVER, NOTICE, NOW, OFFSET, OLDEST_NOTICE,
    OLDEST_WAITING, PASSED, PASSED_TOP, POLICY, QUANTILE, ROLE, ROW, SETTLED_TO, SILENT, SIZE,
    SLACK, SUSPECTS, SUSPECT_1, SUSPECT_TS_1, TOP, TS, UNMEASURED, UPDATES, WAITING,
)  # fmt: skip
from betimes.ordering.kernel.learning import learn_delays, learn_need, set_slack


@compiled
def is_suspect(state: Ints, now: int, time: int, ts: int, row: int, rejected: Ints) -> bool:
    """Judge the time of a clock event; rejected rows go to `rejected`, after their number.

    Suspects that the clock has reached meanwhile, moved by another source or because time passed,
    are no longer in doubt: they may have been handed out.
    """
    if now == NEVER or time - now <= state[MAX_SKEW] or time <= state[FRONTIER]:
        for k in range(state[SUSPECTS]):
            if state[SUSPECT_TS_1 + k] > max(now, state[FRONTIER]):
                rejected[0] += 1
                rejected[rejected[0]] = state[SUSPECT_1 + k]
        state[SUSPECTS] = 0
        return False
    if state[SUSPECTS] == CONFIRM - 1:
        state[SUSPECTS] = 0
        return False
    state[SUSPECT_1 + state[SUSPECTS]] = row
    state[SUSPECT_TS_1 + state[SUSPECTS]] = ts
    state[SUSPECTS] += 1
    return True


@compiled
def pass_frontier(state: Ints, buffer: Ints, cursor: int, end: int, row: int, frontier: int) -> int:
    """Quantile policy: remember the largest time that has arrived and that the frontier passed."""
    if frontier > state[PASSED]:
        state[PASSED] = frontier
        while cursor < end and buffer[TS, cursor] <= frontier:
            if buffer[ROW, cursor] <= row and buffer[TS, cursor] > state[PASSED_TOP]:
                state[PASSED_TOP] = buffer[TS, cursor]
            cursor += 1
    return cursor


@compiled
def walk(
    rows: Ints, row_floats: Floats, types: Ints, waiting: Ints, windows: Ints, buffer: Ints,
    ts: Ints, codes: Codes, heads: Ints, successors: Ints, path: Ints, rejected: Ints,
) -> tuple[bool, bool]:  # fmt: skip
    """Walk the clock and the slack along the arrivals.

    `path` receives, per arrival, the clock, the slack, and the time up to which a clock update
    lets events pass (NEVER if this was no update). Returns whether any event may be late, and
    whether a type has a longer delay than any before.
    """
    state, floats = rows[0], row_floats[0]
    quantile = state[POLICY] == QUANTILE
    spread = floats[MARGIN] > 0.0
    # The policy "largest" has nothing to do until a delay exceeds the largest so far.
    quick = state[POLICY] == LARGEST and not spread
    row0 = state[ARRIVALS]
    cursor, end = state[HEAD], state[HEAD] + state[SIZE]
    now, slack, oldest = state[NOW], state[SLACK], state[OLDEST_WAITING]
    passed = state[SETTLED_TO]
    if now != NEVER:
        passed = max(passed, now - slack)
    maybe_late = longer = False
    due = FAR  # beyond this time, the clock shows a longer delay than a type has had
    updates = 0
    for p in range(len(ts)):
        code = codes[p]
        role = types[ROLE, code]
        types[COUNT, code] += 1
        bound = NEVER
        suspect = False
        time = ts[p] + types[OFFSET, code]
        doubtful = role & CLOCK and not role & SILENT
        if doubtful and (state[SUSPECTS] > 0 or time - now > state[MAX_SKEW]):
            suspect = is_suspect(state, now, time, ts[p], row0 + p, rejected)
        if role & MEASURED and not suspect:
            maybe_late |= ts[p] < passed
            effective = ts[p] - heads[p]
            oldest = min(oldest, effective)
            due = min(due, effective + max(types[DELAY, code], UNMEASURED))
            if spread:
                waiting[state[WAITING], 0] = effective
                state[WAITING] += 1
            if role & NOTICE:
                state[OLDEST_NOTICE] = min(state[OLDEST_NOTICE], effective)
            elif quantile:
                state[NOW] = now
                learn_need(state, rows, row_floats, windows, 0, ts[p], heads[p], successors[p])
        if role & CLOCK and not suspect and time >= now:
            if role & SILENT:
                state[NOW], state[WAITING], state[OLDEST_NOTICE] = time, 0, FAR
            elif not quick or time - oldest > state[TOP]:
                elapsed = 0 if now == NEVER else time - now
                state[NOW], state[OLDEST_WAITING] = time, oldest
                learn_delays(rows, row_floats, waiting, 0, elapsed)
                set_slack(rows, row_floats, windows, 0)
                slack = state[SLACK]
            if not role & SILENT:
                longer |= time > due
                updates += 1
            now, oldest, due = time, FAR, FAR
            bound = now - slack
            passed = max(passed, bound)
            if quantile:
                cursor = pass_frontier(state, buffer, cursor, end, row0 + p, bound)
        path[0, p] = now
        path[1, p] = slack
        path[2, p] = bound
    state[NOW], state[OLDEST_WAITING] = now, oldest
    state[UPDATES] += updates
    return maybe_late, longer
