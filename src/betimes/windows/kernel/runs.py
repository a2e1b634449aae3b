"""Windows that are runs of the events of one key: where they begin and end.

Events of all keys are in one order. Each has its *position* among those of its key; a session is
known by the position of its first event. When the past of a key changes at some time, everything up
to that time stays as it was cut. So the last event of the key before it says how to go on, and from
where on its events are needed: those of the first window that may have changed. `gather` walks back
to there and lists the events by key; `cut_counts` and `cut_gaps` go through the lists.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

END = 2**63 - 1


@compiled
def first_window(position: int, size: int, slide: int) -> int:
    """The position at which the first window begins that ends at a position or later."""
    late = position - size + 1
    return 0 if late <= 0 else (late + slide - 1) // slide * slide


@compiled
def gather(
    keys: Ints,
    ts: Ints,
    positions: Ints,
    starts: Ints,
    codes: Ints,
    changed: Ints,
    known: Flags,
    every: int,
    firsts: Ints,
    passed: int,
    size: int,
    slide: int,
    gap: int,
) -> tuple[Ints, Ints]:
    """The events of some keys that their windows need which end after these times.

    `codes` are the keys, of `every` key there is, and `known` says which had events before. Returns
    rows, by key and in order, and where those of each key begin. `firsts` gets the position of the
    first of them, unless nothing comes before the change. Windows are sessions if there is a `gap`.
    """
    count, many = len(ts), len(codes)
    slot_of = np.full(every, -1, np.int64)
    left = 0
    for slot in range(many):
        slot_of[codes[slot]] = slot
        left += known[slot]
    need = np.full(many, -1, np.int64)
    row = count
    while row > 0 and left > 0:
        row -= 1
        slot = slot_of[keys[row]]
        if slot < 0 or need[slot] == END or ts[row] >= changed[slot]:
            continue
        if need[slot] < 0:
            firsts[slot] = positions[row] + 1
            if gap == 0:
                need[slot] = first_window(positions[row] + 1, size, slide)
            elif ts[row] + gap <= min(changed[slot], passed):
                need[slot] = positions[row] + 1  # its session is over, and stays what it is
            else:
                need[slot] = starts[row] if starts[row] >= 0 else ~starts[row]
        if positions[row] >= need[slot] and starts[row] >= 0:
            firsts[slot] = positions[row]
        if positions[row] < need[slot] or (positions[row] == need[slot] and starts[row] >= 0):
            left -= 1
            need[slot] = END
    low = min(row, np.searchsorted(ts, changed.min())) if many else count
    offsets = np.zeros(many + 1, np.int64)
    for row in range(low, count):
        slot = slot_of[keys[row]]
        if slot >= 0 and _is_needed(row, slot, ts, positions, changed, firsts):
            offsets[slot + 1] += 1
    for slot in range(many):
        offsets[slot + 1] += offsets[slot]
    rows, filled = np.empty(offsets[many], np.int64), offsets[:-1].copy()
    for row in range(low, count):
        slot = slot_of[keys[row]]
        if slot >= 0 and _is_needed(row, slot, ts, positions, changed, firsts):
            rows[filled[slot]] = row
            filled[slot] += 1
    return rows, offsets


@compiled
def _is_needed(row: int, slot: int, ts: Ints, positions: Ints, changed: Ints, firsts: Ints) -> bool:
    before = firsts[slot] >= 0 and positions[row] >= firsts[slot]
    return bool(ts[row] >= changed[slot] or before)


@compiled
def cut_counts(
    rows: Ints,
    offsets: Ints,
    ts: Ints,
    at: Ints,
    positions: Ints,
    changed: Ints,
    firsts: Ints,
    newest: Ints,
    size: int,
    slide: int,
    ends: bool,
) -> Ints:
    """Count windows: number those of each key, and list the windows that have changed.

    Of each window: where it begins and ends among the rows, the slot of its key, the time of its
    cause, the newest arrival that it depends on, and whether it is complete.
    """
    many = len(changed)
    room = 2 * len(rows) if ends else len(rows)  # at most one window begins with an event
    windows = np.empty((6, room), np.int64)
    found = 0
    for slot in range(many):
        low, high, first, known = offsets[slot], offsets[slot + 1], firsts[slot], newest[slot]
        for index in range(low, high):
            row = rows[index]
            position = first + index - low
            positions[row] = position
            if ts[row] < changed[slot]:
                continue
            known = max(known, at[row])
            begins = position - size + 1
            if begins >= first and begins % slide == 0:
                windows[0, found], windows[1, found] = low + begins - first, index + 1
                windows[2, found], windows[3, found] = slot, ts[row]
                windows[4, found], windows[5, found] = known, 1
                found += 1
        if ends:
            total = first + high - low
            for begins in range(max(first_window(total, size, slide), first), total, slide):
                windows[0, found], windows[1, found] = low + begins - first, high
                windows[2, found], windows[3, found] = slot, END
                windows[4, found], windows[5, found] = known, 0
                found += 1
    return windows[:, :found]


@compiled
def cut_gaps(
    rows: Ints,
    offsets: Ints,
    ts: Ints,
    at: Ints,
    positions: Ints,
    starts: Ints,
    changed: Ints,
    firsts: Ints,
    newest: Ints,
    gap: int,
    limit: int,
    passed: int,
    lowest: Ints,
    deadlines: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Sessions: list those that are over.

    An event beyond the limit of its session is left out; the start of such an event is inverted.
    `lowest` gets the causes from which on sessions of a key are listed, `deadlines` when the open
    one ends. Returns the windows as `cut_counts` does, the rows without those that are left out,
    and the rows that are newly left out or newly not.
    """
    windows = np.empty((6, len(rows)), np.int64)
    kept, flips = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    found = taken = flipped = 0
    for slot in range(len(changed)):
        position, known = firsts[slot], newest[slot]
        begins, start, last = taken, 0, 0
        for index in range(offsets[slot], offsets[slot + 1]):
            row = rows[index]
            if taken > begins and ts[row] - last >= gap:
                windows[0, found], windows[1, found] = begins, taken
                windows[2, found], windows[3, found] = slot, last + gap
                windows[4, found], windows[5, found] = known, 1
                found += 1
                begins = taken
            if ts[row] >= changed[slot]:
                known = max(known, at[row])
            if begins == taken:
                start = position
            is_out, was_out = taken - begins == limit, starts[row] < 0
            if is_out != was_out:
                flips[flipped] = row
                flipped += 1
            if is_out:
                positions[row], starts[row] = position - 1, ~start
                continue
            positions[row], starts[row] = position, start
            kept[taken] = row
            taken += 1
            position += 1
            last = ts[row]
            if last < changed[slot]:
                lowest[slot] = last + gap
        deadlines[slot] = END
        if taken > begins:
            if last + gap <= passed:
                windows[0, found], windows[1, found] = begins, taken
                windows[2, found], windows[3, found] = slot, last + gap
                windows[4, found], windows[5, found] = known, 1
                found += 1
            else:
                deadlines[slot] = last + gap
    return windows[:, :found], kept[:taken], flips[:flipped]


@compiled
def needed(
    keys: Ints,
    ts: Ints,
    positions: Ints,
    starts: Ints,
    count: int,
    before: int,
    size: int,
    slide: int,
    gap: int,
    dropped: Ints,
) -> Flags:
    """Which of the first events belong to windows that end at a time or later, or begin there.

    `dropped` gets how many events of each key come before those.
    """
    need = np.full(len(dropped), -1, np.int64)
    stays = np.zeros(count, np.bool_)
    for row in range(count - 1, -1, -1):
        key, position = keys[row], positions[row]
        if need[key] < 0:
            if gap == 0:
                need[key] = first_window(position + 1, size, slide)
            elif ts[row] + gap >= before:
                need[key] = starts[row] if starts[row] >= 0 else ~starts[row]
            else:
                need[key] = position + 1
        stays[row] = position >= need[key]
        if not stays[row]:
            dropped[key] = max(dropped[key], need[key])
    return stays
