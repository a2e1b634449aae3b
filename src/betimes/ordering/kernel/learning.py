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

from betimes.model.compiling import compiled, inlined

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
def _gain(rows: Ints, floats: Floats, windows: Ints, s: int) -> None:
    """Let the needs that follow weigh more than those before."""
    rows[s, GAIN] += rows[s, GAIN] >> 4
    pace = 7 if floats[s, ALLOWANCE] >= MOST else 5
    rows[s, GAIN_LEFT] = max(1, min(rows[s, SEEN], 8 * rows[s, WINDOW], OLDEST) >> pace)
    if rows[s, GAIN] >> (GAIN_BITS + 6):
        rows[s, GAIN] >>= 6
        rows[s, TOTAL] = rows[s, ABOVE] = 0
        for i in range(BUCKETS):
            windows[s, i] >>= 6
            rows[s, TOTAL] += windows[s, i]
            if i > rows[s, CUT]:
                rows[s, ABOVE] += windows[s, i]


@inlined
def _into_window(rows: Ints, floats: Floats, windows: Ints, s: int, need: int) -> None:
    rows[s, GAIN_LEFT] -= 1
    if rows[s, GAIN_LEFT] <= 0:
        _gain(rows, floats, windows, s)
    bucket = _bucket(need)
    windows[s, bucket] += rows[s, GAIN]
    rows[s, TOTAL] += rows[s, GAIN]
    if bucket > rows[s, CUT]:
        rows[s, ABOVE] += rows[s, GAIN]


@compiled
def _exceeded_by(rows: Ints, windows: Ints, s: int, weight: int) -> int:
    """The smallest slack that needs of less than this weight exceed."""
    cut, above = rows[s, CUT], rows[s, ABOVE]
    while above >= weight:
        cut += 1
        above -= windows[s, cut]
    while cut > 0 and above + windows[s, cut] < weight:
        above += windows[s, cut]
        cut -= 1
    rows[s, CUT], rows[s, ABOVE] = cut, above
    return _largest_in(cut)


@inlined
def learn_need(
    state: Ints,
    rows: Ints,
    floats: Floats,
    windows: Ints,
    s: int,
    ts: int,
    head_start: int,
    successor: int,
) -> None:
    """Quantile policy: note how much slack this event would have needed to be released in order."""
    now = rows[s, NOW]
    need = 0
    late = ts < state[PASSED_TOP]
    if now != NEVER:
        if late:
            need = now - ts + 1 + head_start
        elif successor <= now + head_start:
            need = now + head_start - successor + 1
    rows[s, SEEN] += 1
    _into_window(rows, floats, windows, s, need)
    if rows[s, SEEN] > UNCOUNTED:
        floats[s, ALLOWANCE] = min(floats[s, ALLOWANCE] + floats[s, MAX_LATE], MOST)
        if late:
            floats[s, ALLOWANCE] = max(floats[s, ALLOWANCE] - 1.0, LEAST)
    if rows[s, FLOOR_LEFT] > 0:
        rows[s, FLOOR_LEFT] -= 1
    if ts <= state[PASSED] and ts > state[PASSED_TOP]:
        state[PASSED_TOP] = ts


@inlined
def learn_delays(rows: Ints, floats: Floats, waiting: Ints, s: int, elapsed: int) -> None:
    """Learn the delays of the events that waited for this clock update."""
    now = rows[s, NOW]
    if rows[s, OLDEST_WAITING] != FAR:
        delay = now - rows[s, OLDEST_WAITING]
        if delay > rows[s, TOP]:
            rows[s, TOP] = delay
    if rows[s, POLICY] == DECAYING:
        if floats[s, DECAY] > 0.0:
            floats[s, BASE] *= floats[s, DECAY] / (floats[s, DECAY] + elapsed)
        else:
            floats[s, BASE] = max(floats[s, BASE] - elapsed / FOLLOW, 0.0)
        if rows[s, OLDEST_WAITING] != FAR:
            floats[s, BASE] = max(floats[s, BASE], float(now - rows[s, OLDEST_WAITING]))
    if floats[s, MARGIN] > 0.0:
        for i in range(rows[s, WAITING]):
            difference = (now - waiting[i, s]) - floats[s, MEAN]
            if rows[s, MEASUREMENTS] == 0:
                floats[s, MEAN] = difference
            else:
                step = FADE * difference
                floats[s, MEAN] += step
                floats[s, VARIANCE] = (1.0 - FADE) * (floats[s, VARIANCE] + difference * step)
            rows[s, MEASUREMENTS] += 1
    if rows[s, OLDEST_NOTICE] != FAR:
        floor = now - rows[s, OLDEST_NOTICE]
        if rows[s, FLOOR_LEFT] == 0 or floor > rows[s, FLOOR]:
            rows[s, FLOOR] = floor
        rows[s, FLOOR_LEFT] = rows[s, WINDOW]
    rows[s, WAITING] = 0
    rows[s, OLDEST_WAITING] = FAR
    rows[s, OLDEST_NOTICE] = FAR


@inlined
def set_slack(rows: Ints, floats: Floats, windows: Ints, s: int) -> None:
    """Set the slack from what was learned, by the policy."""
    if rows[s, POLICY] == LARGEST:
        slack = rows[s, TOP]
    elif rows[s, POLICY] == DECAYING:
        slack = math.ceil(floats[s, BASE])
    else:
        share = floats[s, MAX_LATE] * min(max(floats[s, ALLOWANCE], 0.0) / ENOUGH, 1.0)
        slack = _exceeded_by(rows, windows, s, max(rows[s, GAIN] // 8, int(share * rows[s, TOTAL])))
        if rows[s, FLOOR_LEFT] > 0 and rows[s, FLOOR] > slack:
            slack = rows[s, FLOOR]
    if floats[s, MARGIN] > 0.0:
        slack += math.ceil(floats[s, MARGIN] * math.sqrt(floats[s, VARIANCE]))
    if rows[s, POLICY] == LARGEST and slack < rows[s, SLACK]:
        slack = rows[s, SLACK]
    rows[s, SLACK] = min(max(slack, rows[s, MIN_SLACK]), rows[s, MAX_SLACK])
