"""From arrivals to the events of the loop: which concern the pattern, and which are handed out."""

from __future__ import annotations

import numpy as np

from betimes.model.compiling import compiled

from betimes.patterns.kernel.layout import (  # isort: skip
    ARRIVAL, AT, Codes, Flags, Floats, Ints, KEY, KILL, NUMBER, TAKE, TS,
)  # fmt: skip


@compiled
def sort_out(
    ts: Ints, codes: Codes, at: Ints, first: int, keys: Ints, table: Ints,
    steps: Ints, asked: Flags, events: Ints, rows: Ints,
) -> int:  # fmt: skip
    """Pick the arrivals that a pattern asks for by type; return how many, or -1 if a key is new.

    `steps` and `asked` tell by type which steps take and forbid it, and whether any does. `at` are
    the numbers of the arrivals; what arrived as number `first + i` has the key `keys[i]`, and its
    number is `table[keys[i]]`. Without keys, all have the number `table[0]`.
    """
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        if not asked[code]:
            continue
        value = keys[at[i] - first] if len(keys) else 0
        key = table[value] if 0 <= value < len(table) else -1
        if key < 0:
            return -1
        rows[count] = i
        events[TS, count] = ts[i]
        events[ARRIVAL, count] = at[i]
        events[KEY, count] = key
        events[TAKE, count] = steps[0, code]
        events[KILL, count] = steps[1, code]
        events[NUMBER, count] = -1
        events[AT, count] = -1
        count += 1
    return count


@compiled
def hand_out(
    known: Ints, events: Ints, values: Floats, low: int, high: int, rows: Ints, at: Ints,
    out: Ints, out_values: Floats, start: int, which: Ints,
) -> int:  # fmt: skip
    """Copy the events of these rows that are known, in this order; return how many.

    `known` are the rows of `events`, sorted; those from `low` to `high` count. `at` is when each
    row is handed out. Copies go to `out`, from `start` on; `which` receives the indices of those
    rows that are known, unless it is empty.
    """
    size, count = high - low, 0
    if size == 0:
        return 0
    first = known[low]
    span = known[high - 1] - first + 1
    steps = 1
    while 1 << steps < size:
        steps += 1
    # Most rows that are handed out are near each other: then a table is faster than a search.
    tabled = size < span < 4 * len(rows) * steps
    places = np.empty(span if tabled else 0, np.int64)
    if tabled:
        places[:] = -1
        for k in range(low, high):
            places[known[k] - first] = k
    for i in range(len(rows)):
        row = rows[i]
        k = -1
        if row < first or row >= first + span:
            continue
        if span == size:
            k = low + row - first
        elif tabled:
            k = places[row - first]
        else:
            least, most = low, high - 1
            while least < most:
                middle = (least + most) // 2
                if known[middle] < row:
                    least = middle + 1
                else:
                    most = middle
            if known[least] == row:
                k = least
        if k < 0:
            continue
        to = start + count
        for field in range(AT):
            out[field, to] = events[field, k]
        out[AT, to] = at[i]
        for column in range(values.shape[0]):
            out_values[column, to] = values[column, k]
        if len(which):
            which[count] = i
        count += 1
    return count
