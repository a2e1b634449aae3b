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
"""

from betimes.ordering.kernel.batch import feed
from betimes.ordering.kernel.holding import holding_time, holding_times

from betimes.ordering.kernel.layout import (  # isort: skip
    ARRIVALS, AT, ATTENUATION, BASE, BUFFERED, CLOCK, CODE, CONFIRM, COUNT, DECAY, FAR, FLOOR,
    FLOOR_LEFT, FRONTIER, HEAD, KEPT_FROM, LEARNED, LEARNED_FLOATS, MARGIN, MAX_LATE, MAX_SKEW,
    MAX_SLACK, MEASURED, MIN_SLACK, NEVER, NOTICE, NOW, N_FLOATS, N_LATE, N_REJECTED, N_RELEASED,
    N_REPLAYED, N_SETTLED, N_STATE, OFFSET, OLDEST_NOTICE, OLDEST_WAITING, PASSED, PASSED_TOP,
    PEAK, POLICY, RELEASED, ROLE, ROW, SETTLED_TO, SETTLED_TOP, SILENT, SIZE, SLACK, SUSPECTS,
    SUSPECT_1, TOP, TS, UPDATES, WAITING, WINDOW,
)  # fmt: skip

__all__ = [
    "ARRIVALS", "AT", "ATTENUATION", "BASE", "BUFFERED", "CLOCK", "CODE", "CONFIRM", "COUNT",
    "DECAY", "FAR", "FLOOR", "FLOOR_LEFT", "FRONTIER", "HEAD", "KEPT_FROM", "LEARNED",
    "LEARNED_FLOATS", "MARGIN", "MAX_LATE", "MAX_SKEW", "MAX_SLACK", "MEASURED", "MIN_SLACK",
    "NEVER", "NOTICE", "NOW", "N_FLOATS", "N_LATE", "N_REJECTED", "N_RELEASED", "N_REPLAYED",
    "N_SETTLED", "N_STATE", "OFFSET", "OLDEST_NOTICE", "OLDEST_WAITING", "PASSED", "PASSED_TOP",
    "PEAK", "POLICY", "RELEASED", "ROLE", "ROW", "SETTLED_TO", "SETTLED_TOP", "SILENT", "SIZE",
    "SLACK", "SUSPECTS", "SUSPECT_1", "TOP", "TS", "UPDATES", "WAITING", "WINDOW", "feed",
    "holding_time", "holding_times",
]  # fmt: skip
