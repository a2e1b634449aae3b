"""Learning from the stream: delays, needs, and the slack that the policy derives from them.

The quantile policy keeps two things.

* The *window*: how often each need occurred, in buckets whose width grows with the need. It fades:
  each time the stream has become a 32nd longer, the needs that follow weigh a 16th more. So the
  newest third of the stream makes up most of the window, and a burst at the start is forgotten.
  Once the stream is `8 x WINDOW` events long, the window fades at a constant rate. Weights are
  integers, so their sums do not depend on the order in which they are added.
* The *allowance*, an account: every event pays in `max_late`, every late event takes 1 out. A full
  account lets the slack be exceeded by the share `max_late` of the window. The emptier it is, the
  smaller that share, down to none: then the largest recent need becomes the slack. This is what
  keeps late events within `max_late` when the future is not like the past. What is saved up has a
  limit, or a quiet day would excuse a bad hour; so has the debt, or a bad hour would be paid for
  all day. If nothing more can be saved, the delays have become shorter than the window says, and
  it fades four times as fast.

`CUT` is the bucket of the slack, `ABOVE` the weight of the buckets above it. Both follow the window
event by event, so the slack is found in a step or two.
"""

from __future__ import annotations

import math

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    ABOVE, ALLOWANCE, BASE, BUCKETS, CUT, DECAY, DECAYING, ENOUGH, FADE, FAR, FINE, FINE_BITS,
    FLOOR, FLOOR_LEFT, FOLLOW, Floats, GAIN, GAIN_BITS, GAIN_LEFT, Ints, LARGEST, LEAST, MARGIN,
    MAX_LATE, MAX_SLACK, MEAN, MEASUREMENTS, MIN_SLACK, MOST, NEVER, NOW, OLDEST, OLDEST_NOTICE,
    OLDEST_WAITING, PASSED, PASSED_TOP, POLICY, SEEN, SLACK, TOP, TOTAL, UNCOUNTED, VARIANCE,
    WAITING, WINDOW,
)  # fmt: skip


@compiled
def _bucket(need: int) -> int:
    """The bucket of a need: buckets are as fine as integers up to 2 x FINE, then get wider."""
    if need == 0:
        return 0
    # Beyond 2**53, a float could round up into the next bucket.
    shift = 10 if need >> 53 else 0
    mantissa, exponent = math.frexp(float(need >> shift))
    return min((exponent + shift - 1) * FINE + int(mantissa * 2 * FINE), BUCKETS - 1)


@compiled
def _largest_in(bucket: int) -> int:
    """The largest need that belongs in a bucket."""
    shift = bucket // FINE - FINE_BITS - 1
    numerator = FINE + bucket % FINE
    return numerator >> -shift if shift < 0 else ((numerator + 1) << shift) - 1


@compiled
def _gain(state: Ints, floats: Floats, window: Ints) -> None:
    """Let the needs that follow weigh more than those before."""
    state[GAIN] += state[GAIN] >> 4
    pace = 7 if floats[ALLOWANCE] >= MOST else 5
    state[GAIN_LEFT] = max(1, min(state[SEEN], 8 * state[WINDOW], OLDEST) >> pace)
    if state[GAIN] >> (GAIN_BITS + 6):
        state[GAIN] >>= 6
        state[TOTAL] = state[ABOVE] = 0
        for i in range(BUCKETS):
            window[i] >>= 6
            state[TOTAL] += window[i]
            if i > state[CUT]:
                state[ABOVE] += window[i]


@compiled
def _into_window(state: Ints, floats: Floats, window: Ints, need: int) -> None:
    state[GAIN_LEFT] -= 1
    if state[GAIN_LEFT] <= 0:
        _gain(state, floats, window)
    bucket = _bucket(need)
    window[bucket] += state[GAIN]
    state[TOTAL] += state[GAIN]
    if bucket > state[CUT]:
        state[ABOVE] += state[GAIN]


@compiled
def _exceeded_by(state: Ints, window: Ints, weight: int) -> int:
    """The smallest slack that needs of less than this weight exceed."""
    cut, above = state[CUT], state[ABOVE]
    while above >= weight:
        cut += 1
        above -= window[cut]
    while cut > 0 and above + window[cut] < weight:
        above += window[cut]
        cut -= 1
    state[CUT], state[ABOVE] = cut, above
    return _largest_in(cut)


@compiled
def learn_need(
    state: Ints, floats: Floats, window: Ints, ts: int, head_start: int, successor: int
) -> None:
    """Quantile policy: note how much slack this event would have needed to be released in order."""
    now = state[NOW]
    need = 0
    late = ts < state[PASSED_TOP]
    if now != NEVER:
        if late:
            need = now - ts + 1 + head_start
        elif successor <= now + head_start:
            need = now + head_start - successor + 1
    state[SEEN] += 1
    _into_window(state, floats, window, need)
    if state[SEEN] > UNCOUNTED:
        floats[ALLOWANCE] = min(floats[ALLOWANCE] + floats[MAX_LATE], MOST)
        if late:
            floats[ALLOWANCE] = max(floats[ALLOWANCE] - 1.0, LEAST)
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
        constant = floats[DECAY] if floats[DECAY] > 0.0 else FOLLOW * floats[BASE]
        if constant > 0.0:
            floats[BASE] = floats[BASE] / (1.0 + elapsed / constant)
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
        share = floats[MAX_LATE] * min(max(floats[ALLOWANCE], 0.0) / ENOUGH, 1.0)
        slack = _exceeded_by(state, window, max(state[GAIN] // 8, int(share * state[TOTAL])))
        if state[FLOOR_LEFT] > 0 and state[FLOOR] > slack:
            slack = state[FLOOR]
    if floats[MARGIN] > 0.0:
        slack += math.ceil(floats[MARGIN] * math.sqrt(floats[VARIANCE]))
    if state[POLICY] == LARGEST and slack < state[SLACK]:
        slack = state[SLACK]
    state[SLACK] = min(max(slack, state[MIN_SLACK]), state[MAX_SLACK])
