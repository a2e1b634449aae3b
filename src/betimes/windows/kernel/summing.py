"""The pass over windows; the package says how it works."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int8]

FUNCTIONS = ("sum", "avg", "count", "min", "max", "first", "last", "quantile")
"""By their numbers."""
FLOAT, INTEGER, NULL = range(3)
"""Kinds of results."""
_SUM, _AVG, _COUNT, _MIN, _MAX, _FIRST, _LAST, _QUANTILE = range(8)

EXACT = 2.0**53
"""Integers below this size are exact as floats."""


@compiled
def summarise(
    lows: Ints,
    highs: Ints,
    keys: Ints,
    at: Ints,
    since: int,
    wanted: Flags,
    values: Floats,
    whole: Flags,
    functions: Ints,
    columns: Ints,
    shares: Floats,
) -> tuple[bool, Ints, Floats, Kinds]:
    """Aggregates of the events `lows[w]` to `highs[w]`, for each wanted key among them.

    Returns whether all numbers are exact; of each slot the window, the key, how many events it has
    and the newest arrival from `since` on that handed one out (else -1); the results, and their
    kinds.
    """
    slots = _count_slots(lows, highs, keys, wanted)
    about = np.empty((4, slots), np.int64)
    results = np.zeros((len(functions), slots), np.float64)
    counts = np.zeros((len(functions), slots), np.int64)
    kinds = np.full((len(functions), slots), INTEGER, np.int8)
    slot_of = np.full(len(wanted), -1, np.int64)
    exact, used = True, 0
    for window in range(len(lows)):
        first = used
        for row in range(lows[window], highs[window]):
            key = keys[row]
            if not wanted[key]:
                continue
            slot = slot_of[key]
            if slot < first:
                slot = used
                slot_of[key] = slot
                used += 1
                about[0, slot], about[1, slot], about[2, slot] = window, key, 0
                about[3, slot] = -1
            about[2, slot] += 1
            if at[row] >= since:
                about[3, slot] = max(about[3, slot], at[row])
            for number in range(len(functions)):
                function, column = functions[number], columns[number]
                if column < 0:
                    results[number, slot] += 1.0
                    continue
                value = values[column, row]
                if function == _LAST or (function == _FIRST and about[2, slot] == 1):
                    results[number, slot] = value
                    kinds[number, slot] = NULL if np.isnan(value) else whole[column, row]
                    continue
                if function == _FIRST or np.isnan(value):
                    continue
                seen = counts[number, slot]
                counts[number, slot] = seen + 1
                if function == _COUNT:
                    results[number, slot] += 1.0
                elif function <= _AVG:
                    results[number, slot] += value
                    if not whole[column, row]:
                        kinds[number, slot] = FLOAT
                    if kinds[number, slot] == INTEGER and abs(results[number, slot]) >= EXACT:
                        exact = False
                elif function != _QUANTILE:
                    known = results[number, slot]
                    less = value < known if function == _MIN else value > known
                    if seen == 0 or less:
                        results[number, slot] = value
                        kinds[number, slot] = whole[column, row]
    for number in range(len(functions)):
        function = functions[number]
        if function == _QUANTILE:
            _quantiles(
                lows, highs, keys, wanted, values[columns[number]], shares[number], about,
                counts[number], results[number],
            )  # fmt: skip
        if function in (_AVG, _MIN, _MAX, _QUANTILE):
            for slot in range(slots):
                if counts[number, slot] == 0:
                    kinds[number, slot] = NULL
                    continue
                if function == _AVG:
                    results[number, slot] /= counts[number, slot]
                if function in (_AVG, _QUANTILE):
                    kinds[number, slot] = FLOAT
    return exact, about, results, kinds


@compiled
def _count_slots(lows: Ints, highs: Ints, keys: Ints, wanted: Flags) -> int:
    """How many pairs of a window and a key there are."""
    seen_in = np.full(len(wanted), -1, np.int64)
    slots = 0
    for window in range(len(lows)):
        for row in range(lows[window], highs[window]):
            key = keys[row]
            if wanted[key] and seen_in[key] < window:
                seen_in[key] = window
                slots += 1
    return slots


@compiled
def _quantiles(
    lows: Ints,
    highs: Ints,
    keys: Ints,
    wanted: Flags,
    values: Floats,
    share: float,
    about: Ints,
    counts: Ints,
    results: Floats,
) -> None:
    """Linear between the two nearest values, as in NumPy and polars."""
    slots = len(results)
    starts = np.zeros(slots + 1, np.int64)
    for slot in range(slots):
        starts[slot + 1] = starts[slot] + counts[slot]
    found = np.empty(starts[slots], np.float64)
    filled = starts[:-1].copy()
    slot_of = np.full(len(wanted), -1, np.int64)
    next_slot = 0
    for window in range(len(lows)):
        while next_slot < slots and about[0, next_slot] == window:
            slot_of[about[1, next_slot]] = next_slot
            next_slot += 1
        for row in range(lows[window], highs[window]):
            if wanted[keys[row]] and not np.isnan(values[row]):
                slot = slot_of[keys[row]]
                found[filled[slot]] = values[row]
                filled[slot] += 1
    for slot in range(slots):
        mine = found[starts[slot] : starts[slot + 1]]
        if len(mine) == 0:
            continue
        ordered = mine[np.argsort(mine, kind="mergesort")]  # equal ones stay in their order
        at = share * (len(ordered) - 1)
        low = int(at)
        high = min(low + 1, len(ordered) - 1)
        results[slot] = ordered[low] + (ordered[high] - ordered[low]) * (at - low)
