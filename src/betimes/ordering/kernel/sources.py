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

**The bound in constant time.** `leaves` has `clock - slack` of each source, FAR if it does not
count. Clocks only rise, so the least of them changes when that very source moves on, or another
falls below it. Only then all of them are looked at: on average over the arrivals, one or two.
"""

from __future__ import annotations

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    ARRIVALS, CLOCK, COUNT, Codes, FAR, FRONTIER, Floats, HEAD, Ints, LARGEST, MARGIN, MAX_SKEW,
    MEASURED, NEVER, NOW, OFFSET, OLDEST_NOTICE, OLDEST_WAITING, PASSED, PASSED_TOP,
    POLICY, QUANTILE, ROLE, SETTLED_TO, SILENT, SIZE, SLACK, SUSPECTS, TOP, UPDATES, WAITING,
)  # fmt: skip
from betimes.ordering.kernel.learning import learn_delays, learn_need, set_slack
from betimes.ordering.kernel.path import is_suspect, pass_frontier

# Columns of the table of sources: the clock when each was last heard, its standing, whether it has
# had a clock event, and whether it is an ordinary one: living, led by clock events, none in doubt.
HEARD, STANDING, TICKED, ORDINARY, N_MARKS = range(5)

UNKNOWN, LIVING, EXPECTED, QUIET = range(4)

# Fields of `common`: how long until a source is quiet, when to look for quiet ones again, and the
# source with the least leaf.
QUIET_AFTER, NEXT_LOOK, SLOWEST, N_COMMON = range(4)

NOTHING_CERTAIN = -1
"""The bound while a source is expected whose time nobody knows; all times are later."""


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
def _find_slowest(leaves: Ints, common: Ints) -> None:
    least = leaves.min()
    s = 0
    while leaves[s] != least:
        s += 1
    common[SLOWEST] = s


@compiled
def _set_leaf(leaves: Ints, common: Ints, s: int, value: int) -> None:
    """Set the leaf of a source, and look for the slowest if it may be another one."""
    leaves[s] = value
    if s == common[SLOWEST]:
        _find_slowest(leaves, common)
    elif value < leaves[common[SLOWEST]]:
        common[SLOWEST] = s


@compiled
def set_leaves(rows: Ints, marks: Ints, common: Ints, leaves: Ints) -> None:
    """Set the leaves of all sources."""
    for s in range(len(rows)):
        leaves[s] = _leaf(rows, marks, s)
    _find_slowest(leaves, common)


@compiled
def _bound(rows: Ints, common: Ints, leaves: Ints, now: int) -> int:
    """Up to where order is certain; if every source is quiet, the longest slack decides."""
    least = leaves[common[SLOWEST]]
    if least != FAR:
        return int(least)
    longest = 0
    for s in range(len(rows)):
        longest = max(longest, rows[s, SLACK])
    return now - longest


@compiled
def _leave_out_quiet(rows: Ints, marks: Ints, common: Ints, leaves: Ints, now: int) -> None:
    """Leave out the sources that have gone quiet, and decide when to look again."""
    oldest = FAR
    for s in range(1, len(rows)):
        if marks[s, STANDING] == LIVING and rows[s, NOW] != NEVER:
            if now - marks[s, HEARD] > common[QUIET_AFTER]:
                marks[s, STANDING], marks[s, ORDINARY] = QUIET, 0
                leaves[s] = FAR
            else:
                oldest = min(oldest, marks[s, HEARD])
    common[NEXT_LOOK] = FAR if oldest >= FAR - common[QUIET_AFTER] else oldest + common[QUIET_AFTER]
    _find_slowest(leaves, common)


@compiled
def _pass_time(rows: Ints, marks: Ints, common: Ints, leaves: Ints, by: int) -> None:
    """Time passes without events: every clock moves on, and nothing is measured."""
    for s in range(1, len(rows)):
        if rows[s, NOW] != NEVER:
            rows[s, NOW] += by
        rows[s, WAITING], rows[s, OLDEST_WAITING], rows[s, OLDEST_NOTICE] = 0, FAR, FAR
    set_leaves(rows, marks, common, leaves)


@compiled
def _learn_below(
    rows: Ints, floats: Floats, windows: Ints, waiting: Ints, ts: int, elapsed: int
) -> None:
    """Source 0 learns at once: its clock says what may still come, not what has come."""
    if ts != FAR:
        rows[0, OLDEST_WAITING] = waiting[0, 0] = ts
        rows[0, WAITING] = 1
    learn_delays(rows[0], floats[0], waiting[0], elapsed)
    set_slack(rows[0], floats[0], windows[0])


@compiled
def _hear_of(rows: Ints, marks: Ints, common: Ints, leaves: Ints, s: int, ticks: bool) -> None:
    """A source that was not an ordinary one is heard."""
    marks[s, TICKED] |= ticks
    if marks[s, STANDING] != LIVING:
        marks[s, STANDING] = LIVING
        common[NEXT_LOOK] = NEVER
        _set_leaf(leaves, common, s, _leaf(rows, marks, s))
    marks[s, ORDINARY] = marks[s, TICKED] and rows[s, SUSPECTS] == 0


@compiled
def walk_sources(
    state: Ints, floats: Floats, types: Ints, buffer: Ints,
    rows: Ints, row_floats: Floats, windows: Ints, waiting: Ints, marks: Ints, common: Ints,
    leaves: Ints, ts: Ints, codes: Codes, heads: Ints, sources: Ints, certain: Ints,
    successors: Ints, path: Ints, rejected: Ints,
) -> bool:  # fmt: skip
    """Like `path.walk`, with one clock per source.

    `sources` has the source of each arrival, `certain` how far the stages below were certain before
    it; it is empty if there are none.
    """
    quantile = state[POLICY] == QUANTILE
    spread = floats[MARGIN] > 0.0
    quick = state[POLICY] == LARGEST and not spread
    row0 = state[ARRIVALS]
    cursor, end = state[HEAD], state[HEAD] + state[SIZE]
    now, slack, max_skew = state[NOW], state[SLACK], state[MAX_SKEW]
    passed = state[SETTLED_TO]
    if now != NEVER:
        slack = now - _bound(rows, common, leaves, now)
        passed = max(passed, now - slack)
    below = len(certain) > 0
    maybe_late = False
    updates = 0
    for p in range(len(ts)):
        code, s = codes[p], sources[p]
        role = types[ROLE, code]
        types[COUNT, code] += 1
        time = ts[p] + types[OFFSET, code]
        leads = bool(role & CLOCK)
        moved = suspect = changed = False
        if below and certain[p] > rows[0, NOW]:
            elapsed = certain[p] - max(rows[0, NOW], 0)
            rows[0, NOW] = certain[p]
            if not quick:
                _learn_below(rows, row_floats, windows, waiting, FAR, elapsed)
            _set_leaf(leaves, common, 0, _leaf(rows, marks, 0))
            moved = True
        if not marks[s, ORDINARY] or (leads and time - now > max_skew):
            changed = True
            if role & SILENT:
                leads = False
                if now != NEVER and time >= now:
                    _pass_time(rows, marks, common, leaves, time - now)
                    now = time
                    _leave_out_quiet(rows, marks, common, leaves, now)
                    moved = True
            elif s == 0:
                leads = False
            else:
                if leads and (rows[s, SUSPECTS] > 0 or time - now > max_skew):
                    rows[s, FRONTIER] = state[FRONTIER]
                    suspect = is_suspect(rows[s], now, time, row0 + p, rejected)
                elif not leads and not marks[s, TICKED]:
                    leads = now == NEVER or time - now <= max_skew
                if suspect:
                    marks[s, ORDINARY] = leads = False
                else:
                    _hear_of(rows, marks, common, leaves, s, bool(role & CLOCK))
        if not suspect:
            marks[s, HEARD] = now
        if role & MEASURED and not suspect:
            maybe_late |= ts[p] < passed
            effective = ts[p] - heads[p]
            if quantile and not (s == 0 and rows[0, NOW] == NEVER):
                rows[s, PASSED], rows[s, PASSED_TOP] = state[PASSED], state[PASSED_TOP]
                head = 0 if s == 0 else heads[p]
                learn_need(rows[s], row_floats[s], windows[s], ts[p], head, successors[p])
                state[PASSED_TOP] = rows[s, PASSED_TOP]
            if s > 0:
                if effective < rows[s, OLDEST_WAITING]:
                    rows[s, OLDEST_WAITING] = effective
                if spread:
                    waiting[s, rows[s, WAITING]] = effective
                    rows[s, WAITING] += 1
            else:
                back = min(ts[p], rows[0, NOW])
                if rows[0, NOW] != NEVER and (not quick or rows[0, NOW] - back > rows[0, TOP]):
                    _learn_below(rows, row_floats, windows, waiting, back, 0)
                    _set_leaf(leaves, common, 0, _leaf(rows, marks, 0))
        if leads and time >= rows[s, NOW]:
            before = rows[s, NOW]
            rows[s, NOW] = time
            if not quick or time - rows[s, OLDEST_WAITING] > rows[s, TOP]:
                elapsed = 0 if before == NEVER else time - before
                learn_delays(rows[s], row_floats[s], waiting[s], elapsed)
                set_slack(rows[s], row_floats[s], windows[s])
            rows[s, OLDEST_WAITING] = FAR
            if time > now:
                now = time
                marks[s, HEARD] = now
            _set_leaf(leaves, common, s, time - rows[s, SLACK])
            if now > common[NEXT_LOOK]:
                _leave_out_quiet(rows, marks, common, leaves, now)
            moved = True
            updates += 1
        bound = NEVER
        if (moved or changed) and now != NEVER:
            reached = _bound(rows, common, leaves, now)
            slack = now - reached
            if moved:
                bound = reached
                passed = max(passed, bound)
                if quantile:
                    cursor = pass_frontier(state, buffer, cursor, end, row0 + p, bound)
        path[0, p] = now
        path[1, p] = slack
        path[2, p] = bound
    state[NOW], state[SLACK] = now, slack
    state[UPDATES] += updates
    return maybe_late
