"""The layout of the arrays that the loop works on: names for their rows and fields."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

NEVER = -(2**63)
FAR = 2**63 - 1
CONFIRM = 3
FEW = 128
"""Up to this many events are sorted by insertion."""
FADE = 1.0 / 256.0
"""Weight of the newest delay in the running mean and deviation: about 256 delays are "recent"."""

CAUTION = 0.9
"""The quantile policy aims at this share of `max_late`, because it lags behind the stream."""

# Roles of a type, as bits.
CLOCK, MEASURED, BUFFERED, NOTICE, SILENT = 1, 2, 4, 8, 16

LARGEST, DECAYING, QUANTILE = 0, 1, 2

# Integer state: configuration, what is learned, the buffer, and the counters, in this order.
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
"""What the unit has learned from the stream: clock, slack, and what they follow from."""

# Float state: configuration, and what is learned.
MARGIN, ATTENUATION, DECAY, MAX_LATE, BASE, MEAN, VARIANCE, N_FLOATS = range(8)

LEARNED_FLOATS = slice(BASE, N_FLOATS)

# Rows of the table of types.
ROLE, OFFSET, COUNT = range(3)

# Rows of the buffer and of the output.
TS, ROW, CODE, AT = range(4)
