"""Release: which events are handed out, replayed, settled or late, and at which place."""

from __future__ import annotations

from betimes.model.compiling import compiled
from betimes.ordering.kernel.buffer import move
from betimes.ordering.kernel.holding import holding_time

from betimes.ordering.kernel.layout import (  # isort: skip
    ARRIVALS, AT, ATTENUATION, BUFFERED, CODE, Codes, FRONTIER, Floats, HEAD, Ints, NEVER,
    OUT_RELEASED, OUT_REPLAYED, OUT_SETTLED, RELEASED, ROLE, ROW, SETTLED_TO, SETTLED_TOP, SIZE,
    TS,
)  # fmt: skip


@compiled
def _put_out(out: Ints, k: int, buffer: Ints, at: int, place: int) -> None:
    out[TS, k] = buffer[TS, at]
    out[ROW, k] = buffer[ROW, at]
    out[CODE, k] = buffer[CODE, at]
    out[AT, k] = place


@compiled
def _next_update(path: Ints, skip: Ints, start: int, ts: int) -> int:
    """Find the first clock update from `start` on that lets an event of this time pass.

    Times must not decrease from call to call: an update that does not let one event pass lets no
    later one pass. `skip` says which need not be looked at again: from each, where to go on. So a
    burst of late events, none of which may pass yet, does not walk the path once per event.
    """
    end = int(path.shape[1])
    found = start
    while found < end and (skip[found] > found or path[2, found] < ts):
        found = max(skip[found], found + 1)
    at = start
    while at < found:
        after = max(skip[at], at + 1)
        skip[at] = found
        at = after
    return found


@compiled
def release_in_time(state: Ints, buffer: Ints, path: Ints, skip: Ints, released: Ints) -> None:
    """Attenuation 1: clock updates hand out and settle what has waited for the whole slack.

    `skip` is room for a number per arrival.
    """
    skip[:] = -1
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
            # It arrived after that update: take the next one that lets it pass.
            place = _next_update(path, skip, buffer[ROW, at] - row0, buffer[TS, at])
        if place < n:
            _put_out(released, count, buffer, at, row0 + place)
            count += 1
        else:
            move(buffer, at, stay)
            stay += 1
        at += 1
    for k in range(stay - head):
        move(buffer, stay - 1 - k, at - 1 - k)
    state[HEAD] = at - (stay - head)
    state[SIZE] = end - state[HEAD]
    state[OUT_RELEASED] = state[OUT_SETTLED] = count
    state[FRONTIER] = max(state[FRONTIER], furthest)
    state[SETTLED_TO] = max(state[SETTLED_TO], furthest)
    if count:
        state[SETTLED_TOP] = max(state[SETTLED_TOP], released[TS, count - 1])


@compiled
def release_early(
    state: Ints, floats: Floats, buffer: Ints, path: Ints, reach: Ints, skip: Ints, behind: int,
    out: Ints,
) -> None:  # fmt: skip
    """Attenuation below 1: hand out up to the frontier, replay behind it, settle by the slack.

    `behind` is the number of new events that landed before a released one; `skip` is room for a
    number per arrival.
    """
    last_update = _find_reach(state, floats[ATTENUATION], path, reach)
    at = _hand_out(state, buffer, reach, behind, out)
    _settle(state, buffer, path, reach, skip, at, last_update, out[2])


@compiled
def _find_reach(state: Ints, attenuation: float, path: Ints, reach: Ints) -> int:
    """Find, per arrival, up to which time events are released and settled by then.

    Returns the last clock update (-1 if there was none).
    """
    slack, hold = -1, 0
    last_update = -1
    for p in range(path.shape[1]):
        if path[0, p] != NEVER:
            if path[1, p] != slack:
                slack = path[1, p]
                hold = holding_time(attenuation, slack)
            state[FRONTIER] = max(state[FRONTIER], path[0, p] - hold)
        if path[2, p] != NEVER:
            last_update = p
            # Even if nothing is learned yet, the newest instant stays open.
            state[SETTLED_TO] = max(state[SETTLED_TO], path[0, p] - max(slack, 1))
        reach[0, p] = state[FRONTIER]
        reach[1, p] = state[SETTLED_TO]
    return last_update


@compiled
def _hand_out(state: Ints, buffer: Ints, reach: Ints, behind: int, out: Ints) -> int:
    """Replay from the first new event that landed behind, release the rest up to the frontier.

    Returns the end of the released events in the buffer.
    """
    row0, released, replayed = state[ARRIVALS], out[0], out[1]
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
    return int(at)


@compiled
def _settle(
    state: Ints, buffer: Ints, path: Ints, reach: Ints, skip: Ints, at: int, last_update: int,
    settled: Ints,
) -> None:  # fmt: skip
    """Settle released events, which end at `at`, and take them out of the buffer."""
    row0, head, end = state[ARRIVALS], state[HEAD], state[HEAD] + state[SIZE]
    k, stay, count, p = head, head, 0, 0
    skip[:] = -1
    while last_update >= 0 and k < at and buffer[TS, k] <= state[SETTLED_TO]:
        while reach[1, p] < buffer[TS, k] or path[2, p] == NEVER:
            p += 1
        place = p
        arrival = buffer[ROW, k] - row0
        if arrival > p:
            # It arrived after that update: the next one settles it.
            place = _next_update(path, skip, arrival, NEVER + 1)
        if place <= last_update:
            _put_out(settled, count, buffer, k, row0 + place)
            count += 1
        else:
            move(buffer, k, stay)
            stay += 1
        k += 1
    for j in range(stay - head):
        move(buffer, stay - 1 - j, k - 1 - j)
    if count:
        state[SETTLED_TOP] = max(state[SETTLED_TOP], settled[TS, count - 1])
    state[OUT_SETTLED] = count
    state[HEAD] = k - (stay - head)
    state[SIZE] = end - state[HEAD]
    state[RELEASED] = at - state[HEAD]


@compiled
def find_late(
    state: Ints, top: int, types: Ints, ts: Ints, codes: Codes, settled: Ints, tops: Ints,
    late: Ints,
) -> None:  # fmt: skip
    """Find the new events that arrived after a later one had settled; `late[0]` counts them.

    `top` is the largest time that settled before this batch.
    """
    n, row0 = len(ts), state[ARRIVALS]
    tops[:] = NEVER
    for k in range(state[OUT_SETTLED]):
        p = settled[AT, k] - row0
        tops[p] = max(tops[p], settled[TS, k])
    for p in range(n):
        if ts[p] < top and types[ROLE, codes[p]] & BUFFERED:
            late[0] += 1
            late[late[0]] = row0 + p
        top = max(top, tops[p])
