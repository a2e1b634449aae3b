"""Learning from the stream: delays, needs, and the slack that the policy derives from them.

The quantile policy keeps a window of what the latest events needed. Only the largest values can
become the slack, so only these are kept sorted: `window[0]` is a ring of all values, `window[1]`
the sorted ones from `KEPT_FROM` on.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    BASE, CAUTION, DECAY, DECAYING, FADE, FAR, FLOOR, FLOOR_LEFT, Floats, IN_WINDOW, Ints, KEPT,
    KEPT_FROM, LARGEST, MARGIN, MAX_LATE, MAX_SLACK, MEAN, MEASUREMENTS, MIN_SLACK, NEVER, NOW,
    OLDEST_NOTICE, OLDEST_WAITING, PASSED, PASSED_TOP, POLICY, SLACK, TOP, VARIANCE, WAITING,
    WINDOW, WINDOW_AT,
)  # fmt: skip


@compiled
def _rank(state: Ints, floats: Floats) -> int:
    """The k whose k-th largest value is the slack: of n values, k / (n + 1) exceed it."""
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
def _sort(values: Ints, into: Ints, count: int) -> None:
    """Shell's sort: needed rarely, and compiled in a tenth of the time of NumPy's."""
    for i in range(count):
        into[i] = values[i]
    gap = count // 2
    while gap > 0:
        for i in range(gap, count):
            value, at = into[i], i
            while at >= gap and into[at - gap] > value:
                into[at] = into[at - gap]
                at -= gap
            into[at] = value
        gap //= 2


@compiled
def _into_window(state: Ints, floats: Floats, window: Ints, value: int) -> None:
    """Put a value into the window in place of the oldest one.

    Values below `KEPT_FROM` are only in the ring, until it is their turn to leave.
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
        _sort(ring, kept, everything)
        _keep_top(state, kept, everything, rank)


@compiled
def learn_need(
    state: Ints, floats: Floats, window: Ints, ts: int, head_start: int, successor: int
) -> None:
    """Quantile policy: note how much slack this event would have needed to be released in order."""
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
def learn_delays(state: Ints, floats: Floats, waiting: Ints, elapsed: int) -> None:
    """Learn the delays of the events that waited for this clock update."""
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
def set_slack(state: Ints, floats: Floats, window: Ints) -> None:
    """Set the slack from what was learned, by the policy."""
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
