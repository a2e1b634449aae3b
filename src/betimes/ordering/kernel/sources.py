"""One clock per source: the path of clock and slack if the stream has several sources.

A *source* is a part of the stream that has its own progress, such as a partition of a Kafka topic.
Each source has a clock and a slack, learned from its own events as if it were a stream by itself:
`rows[s]` is laid out like the state of a unit with a single source, and `learning` does not know
the difference. What the unit as a whole follows from that is a clock and a slack again:

* The *clock* is that of the fastest source.
* Order is certain up to the *bound*: the least `clock - slack` of all sources that count. The
  *slack* of the unit is the distance between the two, `clock - bound`.

So settling follows the slowest source, release without waiting follows the fastest, and attenuation
is in between, by the rules that hold for any unit: no other sweep knows about sources.

**Which sources count.** A source counts from its first event on. It stops counting when it has gone
*quiet*: the clock has moved by more than `QUIET_AFTER` since it was last heard. Being behind is not
being quiet: a source that works off a backlog counts. One that is *expected* counts from then on,
and until it is heard it cannot go quiet. A source that comes, or comes back, with old times takes
nothing back: what is settled stays settled.

**What moves the clock of a source.** Its clock events; all its events, as long as it has had no
clock event. Otherwise, a partition without clock events would have no time.

**Source 0** is what the stages below have made, if there are any. Its clock is `certain`: how far
those were certain before this arrival. What they still make is later, unless they date it back, and
by how much they do is the slack of source 0. So whatever a source does, the levels above need not
learn it again.

**What it costs.** `leaves` has `clock - slack` of each source, FAR if it does not count. Clocks
only rise, so the least of them changes when that very source moves on, or another falls below it.
Only then all of them are looked at: on average over the arrivals, one or two. Apart from that, an
arrival touches nothing but the row of its source, and one question tells whether that source is an
ordinary one.
"""

from __future__ import annotations

from typing import Any

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    ANY_PENDING, ARRIVALS, CLOCK, Codes, COUNT, DELAY, DUE, FAR, Floats, FRONTIER, HEAD, HEARD,
    Ints, LARGEST, MARGIN, MAX_SKEW, MEASURED, NEVER, NOW, OFFSET, OLDEST_NOTICE, OLDEST_WAITING,
    ORDINARY, POLICY, QUANTILE, ROLE, SETTLED_TO, SILENT, SIZE, SLACK, SUSPECTS, TOP, UPDATES,
    WAITING, UNMEASURED,
)  # fmt: skip
from betimes.ordering.kernel.delays import forget_pending, measure_pending
from betimes.ordering.kernel.learning import learn_delays, learn_need, set_slack
from betimes.ordering.kernel.path import is_suspect, pass_frontier

# Columns of the table of sources: the standing of each, and whether it has had a clock event.
STANDING, TICKED, N_MARKS = range(3)

UNKNOWN, LIVING, EXPECTED, QUIET = range(4)

# Fields of `common`: how long until a source is quiet, and when to look for quiet ones again.
QUIET_AFTER, NEXT_LOOK, N_COMMON = range(3)

NOTHING_CERTAIN = -1
"""The bound while a source is expected whose time nobody knows; all times are later."""


FEW = 8
"""Of this many sources, looking for the slowest takes less time than guessing whether it moved."""


@compiled
def _leaf(rows: Ints, marks: Ints, s: int) -> int:
    """Up to where order is certain as far as this source is concerned."""
    standing = marks[s, STANDING]
    if standing in (UNKNOWN, QUIET):
        return FAR
    if rows[s, NOW] == NEVER:
        return NOTHING_CERTAIN if standing == EXPECTED else FAR
    # Events of one time that stages have made have an order of their own: that time stays open.
    return int(rows[s, NOW] - rows[s, SLACK] - (s == 0))


@compiled
def set_leaves(rows: Ints, marks: Ints, leaves: Ints) -> None:
    """Set the leaves of all sources."""
    for s in range(len(rows)):
        leaves[s] = _leaf(rows, marks, s)


@compiled
def _least(leaves: Ints) -> int:
    least = FAR
    for s in range(len(leaves)):
        least = min(least, leaves[s])
    return least


@compiled
def _bound(rows: Ints, least: int, now: int) -> int:
    """Up to where order is certain; if every source is quiet, the longest slack decides."""
    if least != FAR:
        return least
    longest = 0
    for s in range(len(rows)):
        longest = max(longest, rows[s, SLACK])
    return int(now - longest)


@compiled
def _leave_out_quiet(rows: Ints, marks: Ints, common: Ints, leaves: Ints, now: int) -> None:
    """Leave out the sources that have gone quiet, and decide when to look again."""
    oldest = FAR
    for s in range(1, len(rows)):
        if marks[s, STANDING] == LIVING and rows[s, NOW] != NEVER:
            if now - rows[s, HEARD] > common[QUIET_AFTER]:
                marks[s, STANDING], rows[s, ORDINARY] = QUIET, 0
                leaves[s] = FAR
            else:
                oldest = min(oldest, rows[s, HEARD])
    common[NEXT_LOOK] = FAR if oldest >= FAR - common[QUIET_AFTER] else oldest + common[QUIET_AFTER]


@compiled
def _pass_time(
    rows: Ints, marks: Ints, common: Ints, leaves: Ints, pending: Ints, now: int, time: int
) -> None:
    """Time passes without events: every clock moves on, and nothing is measured."""
    for s in range(1, len(rows)):
        if rows[s, NOW] != NEVER:
            rows[s, NOW] += time - now
        rows[s, WAITING], rows[s, OLDEST_WAITING], rows[s, OLDEST_NOTICE] = 0, FAR, FAR
        rows[s, DUE] = FAR
        forget_pending(rows, pending, s)
    set_leaves(rows, marks, leaves)
    _leave_out_quiet(rows, marks, common, leaves, time)


@compiled
def _learn_below(rows: Ints, floats: Floats, windows: Ints, waiting: Ints, elapsed: int) -> None:
    """Source 0 learns at once: its clock says what may still come, not what has come."""
    learn_delays(rows, floats, waiting, 0, elapsed)
    set_slack(rows, floats, windows, 0)


@compiled
def _follow_below(
    rows: Ints, floats: Floats, windows: Ints, waiting: Ints, certain: int, quick: bool
) -> None:
    """The stages below have become certain up to here."""
    elapsed = certain - max(rows[0, NOW], 0)
    rows[0, NOW] = certain
    if not quick:
        _learn_below(rows, floats, windows, waiting, elapsed)


@compiled
def _hear_from_below(
    state: Ints, rows: Ints, floats: Floats, windows: Ints, waiting: Ints, ts: int, successor: int
) -> None:
    """Source 0 has made an event, dated back by its distance from the clock."""
    if rows[0, NOW] == NEVER:
        return
    if state[POLICY] == QUANTILE:
        learn_need(state, rows, floats, windows, 0, ts, 0, successor)
    rows[0, OLDEST_WAITING] = waiting[0, 0] = min(ts, rows[0, NOW])
    rows[0, WAITING] = 1
    _learn_below(rows, floats, windows, waiting, 0)


@compiled
def _judge(
    state: Ints, rows: Ints, marks: Ints, common: Ints, leaves: Ints, s: int, ticks: bool,
    now: int, time: int, ts: int, row: int, rejected: Ints,
) -> tuple[bool, bool]:  # fmt: skip
    """Judge an event that is in doubt, or whose source is not an ordinary one.

    Returns whether it leads the clock of its source, and whether it is suspect.
    """
    leads = ticks
    far = now != NEVER and time - now > state[MAX_SKEW]
    if ticks and (far or rows[s, SUSPECTS] > 0):
        rows[s, FRONTIER] = state[FRONTIER]
        if is_suspect(rows[s], now, time, ts, row, rejected):
            rows[s, ORDINARY] = 0
            return False, True
    elif not marks[s, TICKED]:
        leads = not far
    marks[s, TICKED] |= ticks
    if marks[s, STANDING] != LIVING:
        marks[s, STANDING] = LIVING
        common[NEXT_LOOK] = NEVER
        leaves[s] = _leaf(rows, marks, s)
    rows[s, ORDINARY] = marks[s, TICKED] and rows[s, SUSPECTS] == 0
    return leads, False


@compiled
def walk_sources(
    state: Ints, floats: Floats, types: Ints, buffer: Ints,
    rows: Ints, row_floats: Floats, windows: Ints, waiting: Ints, marks: Ints, common: Ints,
    leaves: Ints, pending: Ints, ts: Ints, codes: Codes, heads: Ints, sources: Any, certain: Ints,
    successors: Ints, path: Ints, own: Ints, rejected: Ints,
) -> tuple[bool, bool]:  # fmt: skip
    """Like `path.walk`, with one clock per source; and whether a type has a larger delay now.

    `sources` has the source of each arrival, as unsigned numbers: with signed ones, every access to
    a row would look whether to count from the end. `certain` says how far the stages below were
    certain before it; it is empty if there are none. `own` receives what `delays` needs.
    """
    quantile = state[POLICY] == QUANTILE
    spread = floats[MARGIN] > 0.0
    quick = state[POLICY] == LARGEST and not spread
    row0 = state[ARRIVALS]
    cursor, end = state[HEAD], state[HEAD] + state[SIZE]
    now, slack, max_skew = state[NOW], state[SLACK], state[MAX_SKEW]
    passed = state[SETTLED_TO]
    least, next_look = _least(leaves), common[NEXT_LOOK]
    if now != NEVER:
        slack = now - _bound(rows, least, now)
        passed = max(passed, now - slack)
    below, few = len(certain) > 0, len(leaves) <= FEW
    maybe_late = longer = False
    updates = 0
    for p in range(len(ts)):
        code, s = codes[p], sources[p]
        role = types[ROLE, code]
        types[COUNT, code] += 1
        time = ts[p] + types[OFFSET, code]
        leads, measured = bool(role & CLOCK), bool(role & MEASURED)
        moved = changed = suspect = False
        clock = NEVER
        maybe_late |= measured and ts[p] < passed
        if below and certain[p] > max(rows[0, NOW], NOTHING_CERTAIN):
            _follow_below(rows, row_floats, windows, waiting, certain[p], quick)
            leaves[0] = _leaf(rows, marks, 0)
            least = _least(leaves)
            moved = True
        if not rows[s, ORDINARY] or (leads and time - now > max_skew):
            changed = True
            if role & SILENT:
                leads = False
                if now != NEVER and time >= now:
                    _pass_time(rows, marks, common, leaves, pending, now, time)
                    now, clock, moved = time, FAR, True
            elif s == 0:
                if measured:
                    _hear_from_below(
                        state, rows, row_floats, windows, waiting, ts[p], successors[p]
                    )
                    leaves[0] = _leaf(rows, marks, 0)
                    if rows[0, NOW] != NEVER:
                        clock = rows[0, NOW] - heads[p]
                        longer |= clock - ts[p] + heads[p] > types[DELAY, code]
                leads = measured = False
            else:
                leads, suspect = _judge(
                    state, rows, marks, common, leaves, s, leads, now, time, ts[p], row0 + p,
                    rejected,
                )  # fmt: skip
                measured &= not suspect
            least, next_look = _least(leaves), common[NEXT_LOOK]
        oldest = rows[s, OLDEST_WAITING]
        if measured:
            effective = ts[p] - heads[p]
            oldest = min(oldest, effective)
            rows[s, DUE] = min(rows[s, DUE], effective + max(types[DELAY, code], UNMEASURED))
            if quantile:
                learn_need(state, rows, row_floats, windows, s, ts[p], heads[p], successors[p])
            if spread:
                waiting[rows[s, WAITING], s] = effective
                rows[s, WAITING] += 1
        if leads and time >= rows[s, NOW]:
            before = rows[s, NOW]
            clock = rows[s, NOW] = time
            if not quick or time - oldest > rows[s, TOP]:
                elapsed = 0 if before == NEVER else time - before
                rows[s, OLDEST_WAITING] = oldest
                learn_delays(rows, row_floats, waiting, s, elapsed)
                set_slack(rows, row_floats, windows, s)
            if time > rows[s, DUE]:
                longer = True
                if rows[s, ANY_PENDING]:
                    measure_pending(types, pending, s, time)
            if rows[s, ANY_PENDING]:
                forget_pending(rows, pending, s)
            rows[s, DUE] = FAR
            oldest = FAR
            now = max(now, time)
            rows[s, HEARD] = now
            was, leaves[s] = leaves[s], time - rows[s, SLACK]
            least = _least(leaves) if few or was == least else min(least, leaves[s])
            if now > next_look:
                _leave_out_quiet(rows, marks, common, leaves, now)
                least, next_look = _least(leaves), common[NEXT_LOOK]
            moved = True
            updates += 1
        elif not suspect:
            rows[s, HEARD] = now
        rows[s, OLDEST_WAITING] = oldest
        bound = NEVER
        if (moved or changed) and now != NEVER:
            reached = _bound(rows, least, now)
            slack = now - reached
            if moved:
                bound = reached
                passed = max(passed, bound)
                if quantile:
                    cursor = pass_frontier(state, buffer, cursor, end, row0 + p, bound)
        path[0, p] = now
        path[1, p] = slack
        path[2, p] = bound
        own[p] = clock
    state[NOW], state[SLACK] = now, slack
    state[UPDATES] += updates
    return maybe_late, longer
