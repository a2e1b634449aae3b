"""One batch through the unit: merge it, walk the path, release."""

from __future__ import annotations

from typing import Any

from betimes.model.compiling import compiled
from betimes.ordering.kernel.buffer import find_successors, merge, sort_few, take_out

from betimes.ordering.kernel.layout import (  # isort: skip
    ARRIVALS, Codes, FEW, Floats, HEAD, Ints, LEAST_LOOK, LINKS, LOOK, NOW, N_LATE, N_REJECTED,
    N_RELEASED, N_REPLAYED, N_SETTLED, OUT_RELEASED, OUT_REPLAYED, OUT_SETTLED, PEAK, POLICY,
    QUANTILE, RELEASED, SETTLED_TOP, SIDE, SIZE, SLACK, SUSPECTS, TS,
)  # fmt: skip
from betimes.ordering.kernel.delays import note_delays, note_delays_of_sources
from betimes.ordering.kernel.path import walk
from betimes.ordering.kernel.release import find_late, release_early, release_in_time
from betimes.ordering.kernel.sources import walk_sources


@compiled
def feed(
    rows: Ints, row_floats: Floats, types: Ints, waiting: Ints, windows: Ints, buffer: Ints,
    ts: Ints, codes: Codes, heads: Ints, order: Ints, work: Ints, out: Ints,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Feed a batch: `order` lists the events to be buffered, sorted by (ts, arrival).

    The order of few events is found here, and `order` is ignored. What learns is laid out as for
    several sources, with one row.

    `out` receives the released, the replayed and the settled events; `work[:3]` the path, and
    `work[SIDE:]` the rows of rejected and of late events, each list after its length. Returns the
    counts of released, replayed and settled events (-1 if the settled ones are the released
    ones), the counts of rejected and late events, the number of open suspects, the end of the
    buffer, the clock and the slack.
    """
    state, floats, n = rows[0], row_floats[0], len(ts)
    behind = _take_in(state, types, buffer, ts, codes, order, work, out)
    maybe_late, longer = walk(
        rows, row_floats, types, waiting, windows, buffer, ts, codes, heads, work[3, :n],
        work[:3, :n], work[SIDE],
    )  # fmt: skip
    note_delays(types, ts, codes, heads, work[:3, :n], longer)
    return _give_out(state, floats, types, buffer, ts, codes, behind, maybe_late, work, out)


@compiled
def feed_sources(
    state: Ints, floats: Floats, types: Ints, buffer: Ints,
    rows: Ints, row_floats: Floats, windows: Ints, waiting: Ints, marks: Ints, common: Ints,
    leaves: Ints, pending: Ints, ts: Ints, codes: Codes, heads: Ints, sources: Any, certain: Ints,
    order: Ints, work: Ints, out: Ints,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Feed a batch whose events come from several sources, each with its own clock."""
    behind = _take_in(state, types, buffer, ts, codes, order, work, out)
    n = len(ts)
    maybe_late, longer = walk_sources(
        state, floats, types, buffer, rows, row_floats, windows, waiting, marks, common, leaves,
        pending, ts, codes, heads, sources, certain, work[3, :n], work[:3, :n], work[5, :n],
        work[SIDE],
    )  # fmt: skip
    note_delays_of_sources(
        types, rows, pending, ts, codes, heads, sources, work[:3, :n], work[5, :n], longer
    )
    state[SUSPECTS] = rows[:, SUSPECTS].sum()
    return _give_out(state, floats, types, buffer, ts, codes, behind, maybe_late, work, out)


@compiled
def look(state: Ints) -> None:
    """Attenuation 1 after less: buffer if nothing is out that is not settled, else look again.

    Until then, events are still released by the rule of speculation. How long that takes depends on
    nothing but arrivals, so it is the same for every cut of the stream; and since a look comes only
    after as many arrivals as are out, batches are rarely cut for it.
    """
    out = state[RELEASED]
    state[LOOK] = state[ARRIVALS] + max(out, LEAST_LOOK) if out else 0


@compiled
def _take_in(
    state: Ints, types: Ints, buffer: Ints, ts: Ints, codes: Codes, order: Ints,
    work: Ints, out: Ints,
) -> int:  # fmt: skip
    """Merge a batch into the buffer; return how many events landed before a released one."""
    n = len(ts)
    if n <= FEW:
        order = sort_few(types, ts, codes, work[5])
    state[OUT_REPLAYED] = state[OUT_RELEASED] = state[OUT_SETTLED] = 0
    work[SIDE, 0] = work[SIDE + 1, 0] = 0
    behind = 0
    if state[RELEASED] > 0:
        last = buffer[TS, state[HEAD] + state[RELEASED] - 1]
        while behind < len(order) and ts[order[behind]] < last:
            behind += 1
    places = work[4, : n if state[POLICY] == QUANTILE else 0]
    places[:] = -1
    lowest = merge(buffer, state, ts, codes, order, places)
    state[PEAK] = max(state[PEAK], state[SIZE])
    if len(places):
        find_successors(buffer, lowest, state[HEAD] + state[SIZE], places, work[3, :n], out[LINKS])
    return behind


@compiled
def _give_out(
    state: Ints, floats: Floats, types: Ints, buffer: Ints, ts: Ints, codes: Codes, behind: int,
    maybe_late: bool, work: Ints, out: Ints,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Release along the path, and count."""
    n = len(ts)
    path, spare, reach, side = work[:3, :n], work[3, :n], work[4:6, :n], work[SIDE:]
    if side[0, 0]:
        take_out(state, buffer, side[0])
    top = state[SETTLED_TOP]
    in_time = state[LOOK] == 0
    if in_time:
        release_in_time(state, buffer, path, spare, out[0])
    else:
        release_early(state, floats, buffer, path, reach, spare, behind, out)
    if maybe_late:
        find_late(state, top, types, ts, codes, out[0 if in_time else 2], spare, side[1])
    state[N_REPLAYED] += state[OUT_REPLAYED]
    state[N_RELEASED] += state[OUT_RELEASED] + behind
    state[N_SETTLED] += state[OUT_SETTLED]
    state[N_REJECTED] += side[0, 0]
    state[N_LATE] += side[1, 0]
    state[ARRIVALS] += n
    if state[LOOK] == state[ARRIVALS]:
        look(state)
    return (
        state[OUT_RELEASED], state[OUT_REPLAYED], -1 if in_time else state[OUT_SETTLED],
        side[0, 0], side[1, 0], state[SUSPECTS], state[HEAD] + state[SIZE],
        state[NOW], state[SLACK],
    )  # fmt: skip
