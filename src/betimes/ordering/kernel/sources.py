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

**The bound in logarithmic time.** `tree` is a tournament: leaf `s` has `clock - slack` of source
`s` (FAR if it does not count), each node the lesser of its two children, and node 1 the bound. A
source that is not the slowest changes few nodes.
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

# Rows of the table of sources: the clock when each was last heard, its standing, and whether it has
# had a clock event.
HEARD, STANDING, TICKED, N_MARKS = range(4)

UNKNOWN, LIVING, EXPECTED, QUIET = range(4)

# Fields of `common`: how long until a source is quiet, when to look for quiet ones again.
QUIET_AFTER, NEXT_LOOK, N_COMMON = range(3)

NOTHING_CERTAIN = -1
"""The bound while a source is expected whose time nobody knows; all times are later."""


@compiled
def _set_leaf(tree: Ints, source: int, value: int) -> None:
    """Set the leaf of a source, and the nodes above it as far as they change."""
    node = len(tree) // 2 + source
    tree[node] = value
    while node > 1:
        node //= 2
        lesser = min(tree[2 * node], tree[2 * node + 1])
        if tree[node] == lesser:
            break
        tree[node] = lesser


@compiled
def _leaf(rows: Ints, marks: Ints, s: int) -> int:
    """Up to where order is certain as far as this source is concerned."""
    standing = marks[STANDING, s]
    if standing in (UNKNOWN, QUIET):
        return FAR
    if rows[s, NOW] == NEVER:
        return NOTHING_CERTAIN if standing == EXPECTED else FAR
    # Events of one time that stages have made have an order of their own: that time stays open.
    return int(rows[s, NOW] - rows[s, SLACK] - (s == 0))


@compiled
def plant(rows: Ints, marks: Ints, tree: Ints) -> None:
    """Build the tree anew."""
    width = len(tree) // 2
    tree[:] = FAR
    for s in range(len(rows)):
        tree[width + s] = _leaf(rows, marks, s)
    for node in range(width - 1, 0, -1):
        tree[node] = min(tree[2 * node], tree[2 * node + 1])


@compiled
def bound_of(rows: Ints, tree: Ints, now: int) -> int:
    """Up to where order is certain; if every source is quiet, the longest slack decides."""
    if tree[1] != FAR:
        return int(tree[1])
    longest = 0
    for s in range(len(rows)):
        longest = max(longest, rows[s, SLACK])
    return now - longest


@compiled
def slowest(rows: Ints, tree: Ints) -> int:
    """The source that the bound waits for; -1 if every source is quiet."""
    if tree[1] == FAR:
        return -1
    node, width = 1, len(tree) // 2
    while node < width:
        node = 2 * node if tree[2 * node] == tree[node] else 2 * node + 1
    return min(node - width, len(rows) - 1)


@compiled
def _leave_out_quiet(rows: Ints, marks: Ints, common: Ints, tree: Ints, now: int) -> None:
    """Leave out the sources that have gone quiet, and decide when to look again."""
    oldest = FAR
    for s in range(1, len(rows)):
        if marks[STANDING, s] == LIVING and rows[s, NOW] != NEVER:
            if now - marks[HEARD, s] > common[QUIET_AFTER]:
                marks[STANDING, s] = QUIET
                _set_leaf(tree, s, FAR)
            else:
                oldest = min(oldest, marks[HEARD, s])
    common[NEXT_LOOK] = FAR if oldest >= FAR - common[QUIET_AFTER] else oldest + common[QUIET_AFTER]


@compiled
def _pass_time(rows: Ints, marks: Ints, tree: Ints, by: int) -> None:
    """Time passes without events: every clock moves on, and nothing is measured."""
    for s in range(1, len(rows)):
        if rows[s, NOW] != NEVER:
            rows[s, NOW] += by
        rows[s, WAITING], rows[s, OLDEST_WAITING], rows[s, OLDEST_NOTICE] = 0, FAR, FAR
    plant(rows, marks, tree)


@compiled
def _learn_now(rows: Ints, floats: Floats, windows: Ints, waiting: Ints, elapsed: int) -> None:
    """Source 0 learns at once: its clock says what may still come, not what has come."""
    learn_delays(rows[0], floats[0], waiting[0], elapsed)
    set_slack(rows[0], floats[0], windows[0])


@compiled
def walk_sources(
    state: Ints, floats: Floats, types: Ints, buffer: Ints,
    rows: Ints, row_floats: Floats, windows: Ints, waiting: Ints, marks: Ints, common: Ints,
    tree: Ints, ts: Ints, codes: Codes, heads: Ints, sources: Ints, certain: Ints,
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
    now, slack = state[NOW], state[SLACK]
    width = len(tree) // 2
    passed = state[SETTLED_TO]
    if now != NEVER:
        slack = now - bound_of(rows, tree, now)
        passed = max(passed, now - slack)
    maybe_late = False
    updates = 0
    for p in range(len(ts)):
        code, s = codes[p], sources[p]
        role = types[ROLE, code]
        types[COUNT, code] += 1
        time = ts[p] + types[OFFSET, code]
        moved = suspect = False
        if len(certain) and certain[p] > rows[0, NOW]:
            before = rows[0, NOW]
            rows[0, NOW] = certain[p]
            if not quick:
                _learn_now(rows, row_floats, windows, waiting, max(certain[p] - max(before, 0), 0))
            _set_leaf(tree, 0, _leaf(rows, marks, 0))
            moved = True
        if role & SILENT:
            if now != NEVER and time >= now:
                _pass_time(rows, marks, tree, time - now)
                now = time
                _leave_out_quiet(rows, marks, common, tree, now)
                moved = True
        elif s == 0:
            if role & MEASURED and rows[0, NOW] != NEVER:
                effective = min(ts[p], rows[0, NOW])
                maybe_late |= ts[p] < passed
                if quantile:
                    rows[0, PASSED], rows[0, PASSED_TOP] = state[PASSED], state[PASSED_TOP]
                    learn_need(rows[0], row_floats[0], windows[0], ts[p], 0, successors[p])
                    state[PASSED_TOP] = rows[0, PASSED_TOP]
                if not quick or rows[0, NOW] - effective > rows[0, TOP]:
                    rows[0, OLDEST_WAITING] = waiting[0, 0] = effective
                    rows[0, WAITING] = 1
                    _learn_now(rows, row_floats, windows, waiting, 0)
                    _set_leaf(tree, 0, _leaf(rows, marks, 0))
        else:
            leads = bool(role & CLOCK)
            if leads:
                if rows[s, SUSPECTS] > 0 or time - now > state[MAX_SKEW]:
                    rows[s, FRONTIER] = state[FRONTIER]
                    suspect = is_suspect(rows[s], now, time, row0 + p, rejected)
            elif not marks[TICKED, s]:
                leads = now == NEVER or time - now <= state[MAX_SKEW]
            if not suspect:
                marks[HEARD, s] = now
                marks[TICKED, s] |= role & CLOCK
                if marks[STANDING, s] != LIVING:
                    marks[STANDING, s] = LIVING
                    common[NEXT_LOOK] = NEVER
                    _set_leaf(tree, s, _leaf(rows, marks, s))
                if role & MEASURED:
                    effective = ts[p] - heads[p]
                    if effective < rows[s, OLDEST_WAITING]:
                        rows[s, OLDEST_WAITING] = effective
                    maybe_late |= ts[p] < passed
                    if spread:
                        waiting[s, rows[s, WAITING]] = effective
                        rows[s, WAITING] += 1
                    if quantile:
                        rows[s, PASSED], rows[s, PASSED_TOP] = state[PASSED], state[PASSED_TOP]
                        learn_need(
                            rows[s], row_floats[s], windows[s], ts[p], heads[p], successors[p]
                        )
                        state[PASSED_TOP] = rows[s, PASSED_TOP]
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
                        marks[HEARD, s] = now
                    if tree[width + s] != time - rows[s, SLACK]:
                        _set_leaf(tree, s, time - rows[s, SLACK])
                    if now > common[NEXT_LOOK]:
                        _leave_out_quiet(rows, marks, common, tree, now)
                    moved = True
                    updates += 1
        bound = NEVER
        if now != NEVER:
            reached = bound_of(rows, tree, now)
            slack = now - reached
            if moved:
                bound = reached
                passed = max(passed, bound)
                if quantile:
                    cursor = pass_frontier(state, buffer, cursor, end, row0 + p, bound)
        path[0, p], path[1, p], path[2, p] = now, slack, bound
    state[NOW], state[SLACK] = now, slack
    state[UPDATES] += updates
    return maybe_late
