"""The layout of the arrays that the loop works on: names for their rows and fields."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

NEVER = -(2**63)
FAR = 2**63 - 1
OPEN, UNMEASURED = 2**62, -(2**62)
"""In place of the clock that measures an event: it is still to come, or there will be none. Times
are below 2**62, so differences do not overflow."""
CONFIRM = 3
FEW = 128
"""Up to this many events are sorted by insertion."""
FADE = 1.0 / 256.0
"""Weight of the newest delay in the running mean and deviation: about 256 delays are "recent"."""

FOLLOW = 60.0
"""Without a time constant of its own, a decaying slack has this many times itself. To decay that
way is to shrink at a constant rate, by 1 us in this many."""

FINE_BITS = 4
FINE = 1 << FINE_BITS
"""Needs are counted in this many buckets per power of two, so the slack is exact to a sixteenth."""

BUCKETS = 63 * FINE + 1
"""The last one is for needs of 2**62 and more; no slack is longer."""

GAIN_BITS = 30
"""The first need weighs two to this power; there is room for all that a window may hold."""

OLDEST = 2**26
"""A window has a memory of half this many events at most, or the sum of weights could overflow."""

UNCOUNTED = 200
"""Late events at the start of a stream are not held against it: nothing was known yet."""

FIRST_ALLOWANCE, ENOUGH, LEAST, MOST = 7.0, 12.0, -30.0, 50.0
"""The account of late events: its first balance, the balance from which `max_late` may be used in
full, and its limits."""

LEAST_LOOK = 256
"""How many arrivals there are at least between two looks whether speculation is over."""

# Roles of a type, as bits.
CLOCK, MEASURED, BUFFERED, NOTICE, SILENT = 1, 2, 4, 8, 16

LARGEST, DECAYING, QUANTILE = 0, 1, 2

# Integer state: configuration, what is learned, the buffer, and the counters, in this order. Four
# fields are for sources: the clock of the unit when it was last heard, whether it is an ordinary
# one (living, led by clock events, none in doubt), whether events of earlier batches wait for its
# clock, and the time beyond which its clock shows a larger delay than its type has had.
(
    POLICY, MIN_SLACK, MAX_SLACK, MAX_SKEW, WINDOW,
    NOW, SLACK, TOP, WAITING, OLDEST_WAITING, HEARD, ORDINARY, ANY_PENDING, DUE, OLDEST_NOTICE,
    SEEN, GAIN, GAIN_LEFT, TOTAL, CUT, ABOVE, FLOOR, FLOOR_LEFT, PASSED, PASSED_TOP, MEASUREMENTS,
    SUSPECTS, SUSPECT_1, SUSPECT_2, SUSPECT_TS_1, SUSPECT_TS_2,
    FRONTIER, SETTLED_TO, SETTLED_TOP,
    HEAD, SIZE, RELEASED, LOOK, OUT_REPLAYED, OUT_RELEASED, OUT_SETTLED,
    ARRIVALS, UPDATES, N_RELEASED, N_SETTLED, N_LATE, N_REJECTED, N_REPLAYED, PEAK,
    N_STATE,
) = range(50)  # fmt: skip

LEARNED = slice(NOW, SUSPECTS)
"""What the unit has learned from the stream: clock, slack, and what they follow from."""

# Float state: configuration, and what is learned.
MARGIN, ATTENUATION, DECAY, MAX_LATE, BASE, MEAN, VARIANCE, ALLOWANCE, N_FLOATS = range(9)

LEARNED_FLOATS = slice(BASE, N_FLOATS)

# Rows of the table of types.
ROLE, OFFSET, COUNT, DELAY, PENDING, N_TYPE = range(6)

# Rows of the buffer and of the output.
TS, ROW, CODE, AT = range(4)

SIDE = 6
"""Of the rows in which the loop works, the first of those that list what needs attention."""
LINKS = 3
"""Of the tables of what comes out, the one for places in the buffer; only needs are found there."""
