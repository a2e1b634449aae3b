"""The ordering unit's loop, compiled: one call takes a whole batch of any size.

The terms are those of the glossary. For every arrival, in order of arrival:

1. A clock event (its type has the role `CLOCK`) whose time is more than `MAX_SKEW` ahead of the
   clock is *suspect*: it does not move the clock. If a sound clock event follows, the suspects are
   rejected. If `CONFIRM` of them come in a row, the stream has really jumped: the clock follows.
2. A measured event (`MEASURED`) waits, with its effective time `ts - head_start`, for the next
   clock update, which reveals its delay: `clock - effective time`.
3. A clock event that is not behind the clock updates it: the unit learns the waiting delays, the
   policy sets the slack, and the release frontier moves. A silent clock event (`SILENT`) only moves
   the clock and the frontier: it would measure nothing but how long the stream was quiet.

None of this needs the sorted buffer, so the loop makes three sweeps over a batch: it *merges* the
batch (which NumPy has sorted) into the sorted buffer (`buffer`), walks the *path* of clock and
slack along the arrivals (`path`, which learns through `learning`), and then *releases* (`release`).
The place of an event on the path is the arrival at which it would have been released if the events
had been fed one by one:

* With attenuation 1 (paper *slack*, Algorithm 1), it is the first clock update at or after the
  event's own arrival with `ts + slack <= clock`. The event settles when it is released.
* Below 1 (paper *speculation*, Algorithms 1 and 2), it is the first arrival at or after its own at
  which the frontier has reached the event. The frontier is the largest `clock - holding time` so
  far (`holding`). An event that lands behind the frontier is released at once, and everything
  after it that was released is replayed. The event settles at the first clock update at or after
  its arrival with `ts + slack <= clock`, and so never before its own delay was measured.

When the attenuation is raised to 1, the rule for less stays in force until a *look* finds that
nothing is out any more that is not settled (`batch.look`).

Invariant: the events in the buffer that are released but not settled are a prefix of the buffer.

The quantile policy learns from what each event *needed*: the smallest slack with which nothing
later would have been released before it. That is `clock - successor + 1`, where the successor is
the next larger time that had already arrived. One backward sweep finds the successors of a batch:
it unlinks the new events from the merged list in reverse order of arrival, and what follows an
event when it is unlinked had arrived before it. If the successor is already released, the event
came too late to tell, and counts with its whole lateness. `learning` says how needs become a slack.

If the stream has several sources, each has its own clock and slack, and `sources` walks the path
instead of `path`; everything else is the same.

`delays` notes the largest delay of each type, for people who ask where delays come from.
`layout` names the rows and fields of all arrays; `batch` puts the sweeps together.
"""

from betimes.ordering.kernel.batch import feed, feed_sources, look
from betimes.ordering.kernel.holding import holding_time, holding_times
from betimes.ordering.kernel.sources import (
    EXPECTED,
    LIVING,
    N_MARKS,
    NEXT_LOOK,
    NOTHING_CERTAIN,
    QUIET,
    STANDING,
    UNKNOWN,
    set_leaves,
)

from betimes.ordering.kernel.layout import (  # isort: skip
    ABOVE, ALLOWANCE, ANY_PENDING, ARRIVALS, AT, ATTENUATION, BASE, BUCKETS, BUFFERED, CLOCK, CODE,
    CONFIRM, COUNT, CUT, DECAY, DELAY, DUE, FAR, FEW, FIRST_ALLOWANCE, FLOOR, FLOOR_LEFT, FRONTIER,
    GAIN, GAIN_BITS, HEAD, LEARNED, LEARNED_FLOATS, LINKS, LOOK, MARGIN, MAX_LATE, MAX_SKEW,
    MAX_SLACK, MEASURED, MIN_SLACK, NEVER, NOTICE, NOW, N_FLOATS, N_LATE, N_REJECTED, N_RELEASED,
    N_REPLAYED, N_SETTLED, N_STATE, N_TYPE, OFFSET, OLDEST_NOTICE, OLDEST_WAITING, ORDINARY, PASSED,
    PASSED_TOP, PEAK, POLICY, RELEASED, ROLE, ROW, SETTLED_TO, SETTLED_TOP, SIDE, SILENT, SIZE,
    SLACK, SUSPECTS, SUSPECT_1, TOP, TOTAL, TS, UPDATES, WAITING, WINDOW,
)  # fmt: skip

__all__ = [
    "ABOVE", "ALLOWANCE", "ANY_PENDING", "ARRIVALS", "AT", "ATTENUATION", "BASE", "BUCKETS",
    "BUFFERED", "CLOCK", "CODE", "CONFIRM", "COUNT", "CUT", "DECAY", "DELAY", "DUE", "EXPECTED",
    "FAR", "FEW", "FIRST_ALLOWANCE", "FLOOR", "FLOOR_LEFT", "FRONTIER", "GAIN", "GAIN_BITS", "HEAD",
    "LEARNED", "LEARNED_FLOATS", "LINKS", "LIVING", "LOOK", "MARGIN", "MAX_LATE", "MAX_SKEW",
    "MAX_SLACK", "MEASURED", "MIN_SLACK", "NEVER", "NEXT_LOOK", "NOTHING_CERTAIN", "NOTICE", "NOW",
    "N_FLOATS", "N_LATE", "N_MARKS", "N_REJECTED", "N_RELEASED", "N_REPLAYED", "N_SETTLED",
    "N_STATE", "N_TYPE", "OFFSET", "OLDEST_NOTICE", "OLDEST_WAITING", "ORDINARY", "PASSED",
    "PASSED_TOP", "PEAK", "POLICY", "QUIET", "RELEASED", "ROLE", "ROW", "SETTLED_TO", "SETTLED_TOP",
    "SIDE", "SILENT", "SIZE", "SLACK", "STANDING", "SUSPECTS", "SUSPECT_1", "TOP", "TOTAL", "TS",
    "UNKNOWN", "UPDATES", "WAITING", "WINDOW", "feed", "feed_sources", "holding_time",
    "holding_times", "look", "set_leaves",
]  # fmt: skip
