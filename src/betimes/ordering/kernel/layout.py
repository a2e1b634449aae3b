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
