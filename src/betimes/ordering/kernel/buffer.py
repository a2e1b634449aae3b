"""The sorted buffer: merging new events into it, and taking rejected ones out."""

from __future__ import annotations

from betimes.model.compiling import compiled

from betimes.ordering.kernel.layout import (  # isort: skip
    ARRIVALS, BUFFERED, CODE, Codes, FAR, HEAD, Ints, ROLE, ROW, SIZE, TS,
)  # fmt: skip


@compiled
def sort_few(types: Ints, ts: Ints, codes: Codes, order: Ints) -> Ints:
    """The indices of the events to be buffered, sorted by (ts, arrival).

    `order` has room for them. By insertion: they are nearly sorted, and calling NumPy would cost
    more than all of this.
    """
    count = 0
    for i in range(len(ts)):
        if types[ROLE, codes[i]] & BUFFERED:
            place = count
            while place > 0 and ts[order[place - 1]] > ts[i]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
            count += 1
    return order[:count]


@compiled
def move(buffer: Ints, at: int, to: int) -> None:
    """Move an event in the buffer.

    Field by field: for the assignment of one column to another, numba would compile a check of
    their lengths, with the words of its error, which takes longer than the rest of this module.
    """
    buffer[TS, to] = buffer[TS, at]
    buffer[ROW, to] = buffer[ROW, at]
    buffer[CODE, to] = buffer[CODE, at]


@compiled
def merge(buffer: Ints, state: Ints, ts: Ints, codes: Codes, order: Ints, places: Ints) -> int:
    """Merge the new events, sorted by `order`, into the sorted buffer; return the lowest place.

    `places` receives the place of each new event; pass an empty array if you do not need them.
    """
    head, size, row0 = state[HEAD], state[SIZE], state[ARRIVALS]
    old = head + size - 1
    new = len(order) - 1
    free = old + len(order)
    while new >= 0:
        i = order[new]
        # Not >=: of two equal times, the one that came earlier stays in front.
        while old >= head and buffer[TS, old] > ts[i]:
            move(buffer, old, free)
            old -= 1
            free -= 1
        buffer[TS, free] = ts[i]
        buffer[ROW, free] = row0 + i
        buffer[CODE, free] = codes[i]
        if len(places):
            places[i] = free
        free -= 1
        new -= 1
    state[SIZE] = size + len(order)
    return int(free + 1)


@compiled
def find_successors(
    buffer: Ints, lowest: int, end: int, places: Ints, successors: Ints, links: Ints
) -> None:
    """Find, for each new event, the next larger time that had arrived before it (FAR if none)."""
    for k in range(lowest, end):
        links[0, k - lowest] = k - 1
        links[1, k - lowest] = k + 1
    for i in range(len(places) - 1, -1, -1):
        k = places[i]
        if k < 0:
            continue
        after = links[1, k - lowest]
        before = links[0, k - lowest]
        # Equal times that arrived before are in front, so whatever follows is later.
        successors[i] = buffer[TS, after] if after < end else FAR
        if after < end:
            links[0, after - lowest] = before
        if before >= lowest:
            links[1, before - lowest] = after


@compiled
def take_out(state: Ints, buffer: Ints, rejected: Ints) -> None:
    """Take rejected suspects out of the buffer; they are far ahead, so search from its end."""
    for k in range(1, rejected[0] + 1):
        at = state[HEAD] + state[SIZE] - 1
        while at >= state[HEAD] and buffer[ROW, at] != rejected[k]:
            at -= 1
        if at >= state[HEAD]:
            for j in range(at, state[HEAD] + state[SIZE] - 1):
                move(buffer, j + 1, j)
            state[SIZE] -= 1
