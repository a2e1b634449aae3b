"""The ordering unit's loop, compiled: one call takes a whole batch, whatever its size.

The terms are those of the glossary. For every arrival, in order of arrival:

1. A clock event (its type has the role `CLOCK`) whose time is more than `MAX_SKEW` ahead of the
   clock is *suspect*: it does not move the clock. If a sound clock event follows, the suspects are
   rejected; if `CONFIRM` of them come in a row, the stream really jumped and the clock follows.
2. A measured event (`MEASURED`) waits, with its effective time `ts - head_start`, for the next
   clock update, which tells its delay: `clock - effective time`.
3. A clock event that is not behind the clock updates it: the waiting delays are learned, the slack
   is set anew by the policy, and the release frontier moves. A silent one (`SILENT`) moves clock
   and frontier only: what it would measure is how long nothing came.

Nothing above needs the sorted buffer, so a batch is handled in three sweeps: *merge* the batch
(sorted beforehand by NumPy) into the sorted buffer, walk the *path* of clock and slack along the
arrivals, then *release*. An event's place on the path is the arrival at which it would have been
released had events come singly:

* attenuation 1 (paper *slack*, Algorithm 1): the first clock update at or after its own arrival
  with `ts + slack <= clock`; releasing and settling are one;
* below 1 (paper *speculation*, Algorithms 1 and 2): the first arrival at or after its own at which
  the frontier, the largest `clock - attenuation * slack` so far, has reached it. An event that
  lands behind the frontier is released at once, and what stands behind it is replayed. It settles
  at the first clock update at or after its arrival with `ts + slack <= clock`: not before its own
  delay was measured.

Invariant: the events of the buffer that are released but not settled are a prefix of it.

The quantile policy learns from what each event *needed*: the smallest slack with which nothing
later would have been released before it, `clock - successor + 1`, where the successor is the next
larger time that had arrived. The successors of a batch are found in one backward sweep: unlink the
new events from the merged list in reverse order of arrival; what stands behind an event when it is
unlinked had arrived before it. An event that came too late to tell (its successor is released)
counts with its whole lateness.

All functions stay in this one module: numba's cache notices changes by file.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

NEVER = -(2**63)
FAR = 2**63 - 1
CONFIRM = 3
FADE = 1.0 / 256.0
"""Weight of the newest delay in the running mean and deviation: "recent" is some 256 delays."""

CAUTION = 0.9
"""The quantile policy aims at this share of `max_late`, because it can only follow the stream."""

# Roles of a type, as bits.
CLOCK, MEASURED, BUFFERED, NOTICE, SILENT = 1, 2, 4, 8, 16

LARGEST, DECAYING, QUANTILE = 0, 1, 2

# Integer state: configuration first, then what is learned, then the buffer, then the counters.
(
    POLICY, MIN_SLACK, MAX_SLACK, MAX_SKEW, WINDOW,
    NOW, SLACK, TOP, WAITING, OLDEST_WAITING, OLDEST_NOTICE,
    IN_WINDOW, WINDOW_AT, KEPT, KEPT_FROM, FLOOR, FLOOR_LEFT, PASSED, PASSED_TOP, MEASUREMENTS,
    SUSPECTS, SUSPECT_1, SUSPECT_2,
    FRONTIER, SETTLED_TO, SETTLED_TOP,
    HEAD, SIZE, RELEASED, OUT_REPLAYED, OUT_RELEASED, OUT_SETTLED,
    ARRIVALS, UPDATES, N_RELEASED, N_SETTLED, N_LATE, N_REJECTED, N_REPLAYED, PEAK,
    N_STATE,
) = range(41)  # fmt: skip

LEARNED = slice(NOW, SUSPECTS)
"""The part of the state that the stream has taught: clock, slack and what they rest on."""

# Float state: configuration, then what is learned.
MARGIN, ATTENUATION, DECAY, MAX_LATE, BASE, MEAN, VARIANCE, N_FLOATS = range(8)

LEARNED_FLOATS = slice(BASE, N_FLOATS)

# Rows of the table of types.
ROLE, OFFSET, COUNT = range(3)

# Rows of the buffer and of the output.
TS, ROW, CODE, AT = range(4)


@compiled
def holding_time(attenuation: float, slack: int) -> int:
    """How long an event is held back: attenuation * slack, up to whole microseconds.

    The tiny factor takes back what rounding adds: 0.1 * 30 is 3, not a little more than 3.
    """
    if attenuation >= 1.0:
        return slack
    return math.ceil(attenuation * slack * (1.0 - 1e-12))


@compiled
def _merge(buffer: Ints, state: Ints, ts: Ints, codes: Codes, order: Ints, places: Ints) -> int:
    """Merge the new events, sorted by `order`, into the sorted buffer; return the lowest place.

    `places` gets the place of each new event; it may be empty if nobody asks.
    """
    head, size, row0 = state[HEAD], state[SIZE], state[ARRIVALS]
    old = head + size - 1
    new = len(order) - 1
    free = old + len(order)
    while new >= 0:
        i = order[new]
        # Not <=: an equal time that came earlier stays in front.
        while old >= head and buffer[TS, old] > ts[i]:
            buffer[TS, free] = buffer[TS, old]
            buffer[ROW, free] = buffer[ROW, old]
            buffer[CODE, free] = buffer[CODE, old]
            old -= 1
            free -= 1
        buffer[TS, free] = ts[i]
        buffer[ROW, free] = row0 + i
        buffer[CODE, free] = codes[i]
        if len(places):
            places[i] = free
        free -= 1
        new -= 1
    state[SIZE] = size + len(order)
    return int(free + 1)


@compiled
def _find_successors(
    buffer: Ints, lowest: int, end: int, places: Ints, successors: Ints, links: Ints
) -> None:
    """For each new event the next larger time that had arrived before it (FAR if none)."""
    for k in range(lowest, end):
        links[0, k - lowest] = k - 1
        links[1, k - lowest] = k + 1
    for i in range(len(places) - 1, -1, -1):
        k = places[i]
        if k < 0:
            continue
        after = links[1, k - lowest]
        before = links[0, k - lowest]
        # Equal times that had arrived stand in front, so whatever stands behind is later.
        successors[i] = buffer[TS, after] if after < end else FAR
        if after < end:
            links[0, after - lowest] = before
        if before >= lowest:
            links[1, before - lowest] = after


@compiled
def _rank(state: Ints, floats: Floats) -> int:
    """The k-th largest of n is exceeded by a new value with probability k / (n + 1)."""
    return max(1, int(CAUTION * floats[MAX_LATE] * (state[IN_WINDOW] + 1)))


@compiled
def _keep_top(state: Ints, kept: Ints, count: int, rank: int) -> None:
    """Of the sorted `kept[:count]`, keep the largest, a reserve, and all equal to the least."""
    low = kept[max(0, count - 2 * rank - 32)]
    first = np.searchsorted(kept[:count], low)
    state[KEPT] = count - first
    state[KEPT_FROM] = NEVER if first == 0 else low
    if first:
        for i in range(count - first):
            kept[i] = kept[i + first]


@compiled
def _into_window(state: Ints, floats: Floats, window: Ints, value: int) -> None:
    """Put a value into the window in place of the oldest one.

    Only the largest values matter: all from `KEPT_FROM` on are kept sorted, the others only wait
    for their turn to leave.
    """
    ring, kept = window[0], window[1]
    at = state[WINDOW_AT]
    state[WINDOW_AT] = at + 1 if at + 1 < state[WINDOW] else 0
    low, count = state[KEPT_FROM], state[KEPT]
    comes, goes = value >= low, False
    if state[IN_WINDOW] < state[WINDOW]:
        state[IN_WINDOW] += 1
    else:
        if ring[at] == value:
            return
        goes = ring[at] >= low
    hole = count
    if goes:
        hole = np.searchsorted(kept[:count], ring[at])
    elif comes:
        count += 1
    ring[at] = value
    if not (goes or comes):
        return
    if comes:
        while hole > 0 and kept[hole - 1] > value:
            kept[hole] = kept[hole - 1]
            hole -= 1
        while hole < count - 1 and kept[hole + 1] < value:
            kept[hole] = kept[hole + 1]
            hole += 1
        kept[hole] = value
    else:
        count -= 1
        for i in range(hole, count):
            kept[i] = kept[i + 1]
    state[KEPT] = count
    rank = _rank(state, floats)
    if count > 4 * rank + 64:
        _keep_top(state, kept, count, rank)
    elif count < rank and count < state[IN_WINDOW]:
        everything = state[IN_WINDOW]
        kept[:everything] = np.sort(ring[:everything])
        _keep_top(state, kept, everything, rank)


@compiled
def _learn_need(
    state: Ints, floats: Floats, window: Ints, ts: int, head_start: int, successor: int
) -> None:
    """Quantile policy: note how much slack this event would have needed to come in order."""
    now = state[NOW]
    need = 0
    if now != NEVER:
        if ts < state[PASSED_TOP]:
            need = now - ts + 1 + head_start
        elif successor <= now + head_start:
            need = now + head_start - successor + 1
    _into_window(state, floats, window, need)
    if state[FLOOR_LEFT] > 0:
        state[FLOOR_LEFT] -= 1
    if ts <= state[PASSED] and ts > state[PASSED_TOP]:
        state[PASSED_TOP] = ts


@compiled
def _learn_delays(state: Ints, floats: Floats, waiting: Ints, elapsed: int) -> None:
    """Take in the delays of the events that waited for this clock update."""
    now = state[NOW]
    if state[OLDEST_WAITING] != FAR:
        delay = now - state[OLDEST_WAITING]
        if delay > state[TOP]:
            state[TOP] = delay
    if state[POLICY] == DECAYING:
        floats[BASE] = floats[BASE] / (1.0 + elapsed / floats[DECAY])
        if state[OLDEST_WAITING] != FAR:
            floats[BASE] = max(floats[BASE], float(now - state[OLDEST_WAITING]))
    if floats[MARGIN] > 0.0:
        for i in range(state[WAITING]):
            difference = (now - waiting[i]) - floats[MEAN]
            if state[MEASUREMENTS] == 0:
                floats[MEAN] = difference
            else:
                step = FADE * difference
                floats[MEAN] += step
                floats[VARIANCE] = (1.0 - FADE) * (floats[VARIANCE] + difference * step)
            state[MEASUREMENTS] += 1
    if state[OLDEST_NOTICE] != FAR:
        floor = now - state[OLDEST_NOTICE]
        if state[FLOOR_LEFT] == 0 or floor > state[FLOOR]:
            state[FLOOR] = floor
        state[FLOOR_LEFT] = state[WINDOW]
    state[WAITING] = 0
    state[OLDEST_WAITING] = FAR
    state[OLDEST_NOTICE] = FAR


@compiled
def _set_slack(state: Ints, floats: Floats, window: Ints) -> None:
    """The policy: what has been learned becomes the slack."""
    if state[POLICY] == LARGEST:
        slack = state[TOP]
    elif state[POLICY] == DECAYING:
        slack = math.ceil(floats[BASE])
    else:
        slack = window[1, state[KEPT] - _rank(state, floats)] if state[IN_WINDOW] else 0
        if state[FLOOR_LEFT] > 0 and state[FLOOR] > slack:
            slack = state[FLOOR]
    if floats[MARGIN] > 0.0:
        slack += math.ceil(floats[MARGIN] * math.sqrt(floats[VARIANCE]))
    if state[POLICY] == LARGEST and slack < state[SLACK]:
        slack = state[SLACK]
    state[SLACK] = min(max(slack, state[MIN_SLACK]), state[MAX_SLACK])


@compiled
def _is_suspect(state: Ints, now: int, time: int, row: int, rejected: Ints) -> bool:
    """Judge a clock event's time; `rejected[0]` counts the rows that follow it there."""
    if now == NEVER or time - now <= state[MAX_SKEW] or time <= state[FRONTIER]:
        for k in range(state[SUSPECTS]):
            rejected[0] += 1
            rejected[rejected[0]] = state[SUSPECT_1 + k]
        state[SUSPECTS] = 0
        return False
    if state[SUSPECTS] == CONFIRM - 1:
        state[SUSPECTS] = 0
        return False
    state[SUSPECT_1 + state[SUSPECTS]] = row
    state[SUSPECTS] += 1
    return True


@compiled
def _pass_frontier(state: Ints, buffer: Ints, cursor: int, end: int, row: int) -> int:
    """Quantile policy: remember the largest time that has arrived and been passed."""
    frontier = state[NOW] - state[SLACK]
    if frontier > state[PASSED]:
        state[PASSED] = frontier
        while cursor < end and buffer[TS, cursor] <= frontier:
            if buffer[ROW, cursor] <= row and buffer[TS, cursor] > state[PASSED_TOP]:
                state[PASSED_TOP] = buffer[TS, cursor]
            cursor += 1
    return cursor


@compiled
def _walk(
    state: Ints, floats: Floats, types: Ints, waiting: Ints, window: Ints, buffer: Ints,
    ts: Ints, codes: Codes, heads: Ints, successors: Ints, path: Ints, rejected: Ints,
) -> bool:  # fmt: skip
    """Walk the clock and the slack along the arrivals; say whether any event may be late.

    `path` gets, per arrival: the clock, the slack, and, if this was a clock update, up to which
    time it lets events pass.
    """
    quantile = state[POLICY] == QUANTILE
    spread = floats[MARGIN] > 0.0
    # As long as no delay exceeds the largest so far, that policy has nothing to do.
    quick = state[POLICY] == LARGEST and not spread
    row0 = state[ARRIVALS]
    cursor, end = state[HEAD], state[HEAD] + state[SIZE]
    now, slack, oldest = state[NOW], state[SLACK], state[OLDEST_WAITING]
    passed = state[SETTLED_TO]
    if now != NEVER:
        passed = max(passed, now - slack)
    maybe_late = False
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
            suspect = _is_suspect(state, now, time, row0 + p, rejected)
        if role & MEASURED and not suspect:
            effective = ts[p] - heads[p]
            oldest = min(oldest, effective)
            maybe_late |= ts[p] < passed
            if spread:
                waiting[state[WAITING]] = effective
                state[WAITING] += 1
            if role & NOTICE:
                state[OLDEST_NOTICE] = min(state[OLDEST_NOTICE], effective)
            elif quantile:
                state[NOW] = now
                _learn_need(state, floats, window, ts[p], heads[p], successors[p])
        if role & CLOCK and not suspect and time >= now:
            if role & SILENT:
                state[NOW], state[WAITING], state[OLDEST_NOTICE] = time, 0, FAR
                if quantile:
                    cursor = _pass_frontier(state, buffer, cursor, end, row0 + p)
            elif not quick or time - oldest > state[TOP]:
                elapsed = 0 if now == NEVER else time - now
                state[NOW], state[OLDEST_WAITING] = time, oldest
                _learn_delays(state, floats, waiting, elapsed)
                _set_slack(state, floats, window)
                slack = state[SLACK]
                if quantile:
                    cursor = _pass_frontier(state, buffer, cursor, end, row0 + p)
            updates += 0 if role & SILENT else 1
            now, oldest = time, FAR
            bound = now - slack
            passed = max(passed, bound)
        path[0, p] = now
        path[1, p] = slack
        path[2, p] = bound
    state[NOW], state[OLDEST_WAITING] = now, oldest
    state[UPDATES] += updates
    return maybe_late


@compiled
def _take_out(state: Ints, buffer: Ints, rejected: Ints) -> None:
    """Take rejected suspects out of the buffer; being far ahead, they stand at its end."""
    for k in range(1, rejected[0] + 1):
        at = state[HEAD] + state[SIZE] - 1
        while at >= state[HEAD] and buffer[ROW, at] != rejected[k]:
            at -= 1
        if at >= state[HEAD]:
            for j in range(at, state[HEAD] + state[SIZE] - 1):
                buffer[:, j] = buffer[:, j + 1]
            state[SIZE] -= 1


@compiled
def _put_out(out: Ints, k: int, buffer: Ints, at: int, place: int) -> None:
    out[TS, k] = buffer[TS, at]
    out[ROW, k] = buffer[ROW, at]
    out[CODE, k] = buffer[CODE, at]
    out[AT, k] = place


@compiled
def _next_update(path: Ints, start: int, ts: int) -> int:
    """The first clock update from `start` on that lets an event of this time pass."""
    for p in range(start, path.shape[1]):
        if ts <= path[2, p]:
            return p
    return int(path.shape[1])


@compiled
def _release_in_time(state: Ints, buffer: Ints, path: Ints, released: Ints, start: int) -> None:
    """Attenuation 1: clock updates hand out what has waited for the whole slack; it settles."""
    n, row0 = path.shape[1], state[ARRIVALS]
    furthest = NEVER
    for p in range(n):
        furthest = max(furthest, path[2, p])
    head, end = state[HEAD], state[HEAD] + state[SIZE]
    at, stay, count, p = head, head, 0, 0
    while at < end and buffer[TS, at] <= furthest:
        while path[2, p] < buffer[TS, at]:
            p += 1
        place = p
        if buffer[ROW, at] - row0 > p:
            # It arrived after its place had passed: the next update that lets it pass.
            place = _next_update(path, buffer[ROW, at] - row0, buffer[TS, at])
        if place < n:
            _put_out(released, start + count, buffer, at, row0 + place)
            count += 1
        else:
            buffer[:, stay] = buffer[:, at]
            stay += 1
        at += 1
    for k in range(stay - head):
        buffer[:, at - 1 - k] = buffer[:, stay - 1 - k]
    state[HEAD] = at - (stay - head)
    state[SIZE] = end - state[HEAD]
    state[OUT_RELEASED] = state[OUT_SETTLED] = count
    state[FRONTIER] = max(state[FRONTIER], furthest)
    state[SETTLED_TO] = max(state[SETTLED_TO], furthest)
    if count:
        state[SETTLED_TOP] = max(state[SETTLED_TOP], released[TS, start + count - 1])


@compiled
def _release_early(
    state: Ints, floats: Floats, buffer: Ints, path: Ints, reach: Ints, behind: int, out: Ints
) -> None:  # fmt: skip
    """Attenuation below 1: hand out up to the frontier, replay behind it, settle by the slack.

    `behind` is how many new events landed before something that had been released.
    """
    n, row0 = path.shape[1], state[ARRIVALS]
    released, replayed, settled = out[0], out[1], out[2]
    slack, hold = -1, 0
    last_update = -1
    for p in range(n):
        if path[0, p] != NEVER:
            if path[1, p] != slack:
                slack = path[1, p]
                hold = holding_time(floats[ATTENUATION], slack)
            state[FRONTIER] = max(state[FRONTIER], path[0, p] - hold)
        if path[2, p] != NEVER:
            last_update = p
            # Nothing learned yet: the newest instant stays open.
            state[SETTLED_TO] = max(state[SETTLED_TO], path[0, p] - max(slack, 1))
        reach[0, p] = state[FRONTIER]
        reach[1, p] = state[SETTLED_TO]
    head, end = state[HEAD], state[HEAD] + state[SIZE]
    at = head + state[RELEASED] + behind
    if behind:
        first = head
        while buffer[ROW, first] < row0:
            first += 1
        for k in range(first, at):
            arrival = buffer[ROW, k] - row0
            _put_out(replayed, k - first, buffer, k, row0 + arrival if arrival >= 0 else -1)
        state[OUT_REPLAYED] = at - first
    count, p = 0, 0
    while at < end and buffer[TS, at] <= state[FRONTIER]:
        while reach[0, p] < buffer[TS, at]:
            p += 1
        _put_out(released, count, buffer, at, row0 + max(p, buffer[ROW, at] - row0))
        count += 1
        at += 1
    state[OUT_RELEASED] = count
    k, stay, count, p = head, head, 0, 0
    while last_update >= 0 and k < at and buffer[TS, k] <= state[SETTLED_TO]:
        while reach[1, p] < buffer[TS, k] or path[2, p] == NEVER:
            p += 1
        place = p
        arrival = buffer[ROW, k] - row0
        if arrival > p:
            # It arrived after its place had settled: the next update settles it.
            place = arrival
            while place <= last_update and path[2, place] == NEVER:
                place += 1
        if place <= last_update:
            _put_out(settled, count, buffer, k, row0 + place)
            count += 1
        else:
            buffer[:, stay] = buffer[:, k]
            stay += 1
        k += 1
    for j in range(stay - head):
        buffer[:, k - 1 - j] = buffer[:, stay - 1 - j]
    if count:
        state[SETTLED_TOP] = max(state[SETTLED_TOP], settled[TS, count - 1])
    state[OUT_SETTLED] = count
    state[HEAD] = k - (stay - head)
    state[SIZE] = end - state[HEAD]
    state[RELEASED] = at - state[HEAD]


@compiled
def _find_late(
    state: Ints, top: int, types: Ints, ts: Ints, codes: Codes, settled: Ints, start: int,
    tops: Ints, late: Ints,
) -> None:  # fmt: skip
    """New events that something later had been settled before; `late[0]` counts them.

    `top` is the largest time settled before this batch.
    """
    n, row0 = len(ts), state[ARRIVALS]
    tops[:] = NEVER
    for k in range(start, start + state[OUT_SETTLED]):
        p = settled[AT, k] - row0
        tops[p] = max(tops[p], settled[TS, k])
    for p in range(n):
        if ts[p] < top and types[ROLE, codes[p]] & BUFFERED:
            late[0] += 1
            late[late[0]] = row0 + p
        top = max(top, tops[p])


@compiled
def feed(
    state: Ints, floats: Floats, types: Ints, waiting: Ints, window: Ints, buffer: Ints,
    ts: Ints, codes: Codes, heads: Ints, order: Ints,
    work: Ints, links: Ints, side: Ints, out: Ints, start: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Feed a batch: `order` lists the events that are buffered, sorted by (ts, arrival).

    `out` receives the released (from `start` on), the replayed and the settled events, `side` the
    rows of rejected and of late events behind their number, `work[:3]` the path. Returned are the
    three counts (that of the settled is -1 where they are the released ones), the numbers of
    rejected and late events, how many suspects are open, where the buffer ends, clock and slack.
    """
    n = len(ts)
    if n == 1 and not types[ROLE, codes[0]] & BUFFERED:
        order = order[:0]
    path, spare, reach = work[:3, :n], work[3, :n], work[4:6, :n]
    state[OUT_REPLAYED] = state[OUT_RELEASED] = state[OUT_SETTLED] = 0
    side[0, 0] = side[1, 0] = 0
    behind = 0
    if state[RELEASED] > 0:
        last = buffer[TS, state[HEAD] + state[RELEASED] - 1]
        while behind < len(order) and ts[order[behind]] < last:
            behind += 1
    places = reach[0] if state[POLICY] == QUANTILE else spare[:0]
    places[:] = -1
    lowest = _merge(buffer, state, ts, codes, order, places)
    state[PEAK] = max(state[PEAK], state[SIZE])
    if len(places):
        _find_successors(buffer, lowest, state[HEAD] + state[SIZE], places, spare, links)
    maybe_late = _walk(
        state, floats, types, waiting, window, buffer, ts, codes, heads, spare, path, side[0]
    )  # fmt: skip
    if side[0, 0]:
        _take_out(state, buffer, side[0])
    top = state[SETTLED_TOP]
    in_time = floats[ATTENUATION] >= 1.0 and state[RELEASED] == 0
    if in_time:
        _release_in_time(state, buffer, path, out[0], start)
    else:
        _release_early(state, floats, buffer, path, reach, behind, out)
    if maybe_late:
        settled, since = (out[0], start) if in_time else (out[2], 0)
        _find_late(state, top, types, ts, codes, settled, since, spare, side[1])
    state[N_REPLAYED] += state[OUT_REPLAYED]
    state[N_RELEASED] += state[OUT_RELEASED] + behind
    state[N_SETTLED] += state[OUT_SETTLED]
    state[N_REJECTED] += side[0, 0]
    state[N_LATE] += side[1, 0]
    state[ARRIVALS] += n
    return (
        state[OUT_RELEASED], state[OUT_REPLAYED], -1 if in_time else state[OUT_SETTLED],
        side[0, 0], side[1, 0], state[SUSPECTS], state[HEAD] + state[SIZE],
        state[NOW], state[SLACK],
    )  # fmt: skip
