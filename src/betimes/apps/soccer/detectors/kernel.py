"""The compiled loops of the lowest level: from raw positions to few events.

A loop goes over rows in order of time, keeps its state in arrays that the detector hands in, and
writes what it finds into arrays, with the row that completed it. It looks at one row at a time, so
it does not matter where the rows are cut into slices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# What a sample of acceleration does to the peak of its ball.
QUIET, RISES, LASTS, ENDS = range(4)
# Columns of the state of a ball's peak.
ACTIVE, ABOVE, START, N_PEAK = range(4)
# What the loop of proximity tells.
LEAVES, JOINS, NOT_NEAR, NEAR = range(4)
# Which line a ball has crossed.
TOUCH_LINE, GOAL_LINE = range(2)


@compiled
def _peak(state: Ints, ts: int, a: float, kick: float, hold: int, longest: int) -> int:
    """Follow one ball's acceleration: a contact is one peak, even if it dips for a moment.

    A peak that lasts longer than any contact is over by then, and the next one cannot rise before
    the acceleration has fallen.
    """
    if a >= kick:
        state[ABOVE] = ts
        if state[ACTIVE] == 0:
            state[ACTIVE], state[START] = 1, ts
            return RISES
        if state[ACTIVE] == 1 and ts - state[START] >= longest:
            state[ACTIVE] = 2
            return ENDS
        return LASTS
    if state[ACTIVE] != 0 and ts - state[ABOVE] >= hold:
        told = state[ACTIVE] == 2
        state[ACTIVE] = 0
        return QUIET if told else ENDS
    return LASTS if state[ACTIVE] == 1 else QUIET


@compiled
def peaks(
    ts: Ints, ball: Ints, columns: Floats, kick: float, hold: int, longest: int,
    state: Ints, held: Floats, kicks: Ints, rows: Ints, starts: Ints, found: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Peaks of acceleration: each is told when it rises, and again when it is over.

    `kicks` are the rows at which a peak rises. `columns` are x, y, z, vx, vy, vz, a. `held` has,
    for each ball, place and velocity before the peak, the largest acceleration in it, the last
    velocity, sums of place and velocity since the acceleration has fallen, and how many rows these
    are. Of each peak `found` has place and velocity before, place and velocity after, the largest
    acceleration, and the ball. What comes after is a mean over the rows in which the peak was seen
    to be over: one alone is noisy.
    """
    risen, count = 0, 0
    for row in range(len(ts)):
        b = ball[row]
        if b < 0:
            continue
        a = columns[6, row]
        step = _peak(state[b], ts[row], a, kick, hold, longest)
        if step == RISES:
            held[b, 0:3] = columns[0:3, row]
            held[b, 3:6] = held[b, 7:10]
            held[b, 6] = a
            kicks[risen] = row
            risen += 1
        elif step != QUIET:
            held[b, 6] = max(held[b, 6], a)
        if step == RISES or (step == LASTS and a >= kick):
            held[b, 10:17] = 0.0
        elif step != QUIET:
            held[b, 10:16] += columns[0:6, row]
            held[b, 16] += 1.0
        if step == ENDS:
            rows[count], starts[count] = row, state[b, START]
            found[count, 0:6] = held[b, 0:6]
            found[count, 6:12] = held[b, 10:16] / held[b, 16]
            found[count, 12], found[count, 13] = held[b, 6], b
            count += 1
        held[b, 7:10] = columns[3:6, row]
    return risen, count


@compiled
def _distances(
    x: float, y: float, z: float, now: int, limbs: Floats, seen: Ints, person_of: Ints,
    reach: float, stale: int, nearest: Floats,
) -> None:  # fmt: skip
    """How far each person's nearest limb is from a point; infinite beyond `reach`."""
    nearest[:] = np.inf
    for limb in range(len(limbs)):
        dx = limbs[limb, 0] - x
        dy = limbs[limb, 1] - y
        if abs(dx) > reach or abs(dy) > reach or now - seen[limb] > stale:
            continue
        dz = limbs[limb, 2] - z
        distance = np.sqrt(dx * dx + dy * dy + dz * dz)
        person = person_of[limb]
        if distance < nearest[person]:
            nearest[person] = distance


@compiled
def proximity(
    ts: Ints, ball: Ints, limb: Ints, columns: Floats, person_of: Ints,
    enter: float, leave: float, stale: int,
    limbs: Floats, seen: Ints, there: Ints, near: Ints,
    rows: Ints, kinds: Ints, balls: Ints, persons: Ints,
) -> int:  # fmt: skip
    """Who joins those around a ball and who leaves them, and who of them is nearest to it.

    `columns` are x, y, z. `there` says for each ball who is around it, `near` who is nearest to it
    and within reach, -1 if nobody is.
    """
    nearest = np.empty(there.shape[1])
    count = 0
    for row in range(len(ts)):
        if limb[row] >= 0:
            limbs[limb[row]] = columns[0:3, row]
            seen[limb[row]] = ts[row]
        b = ball[row]
        if b < 0:
            continue
        x, y, z = columns[0, row], columns[1, row], columns[2, row]
        _distances(x, y, z, ts[row], limbs, seen, person_of, leave, stale, nearest)
        first, least = -1, np.inf
        for person in range(len(nearest)):
            distance = nearest[person]
            if distance <= enter and distance < least:
                first, least = person, distance
            inside = there[b, person] == 1
            if distance <= enter and not inside:
                there[b, person] = 1
                kinds[count] = JOINS
            elif distance > leave and inside:
                there[b, person] = 0
                kinds[count] = LEAVES
            else:
                continue
            rows[count], balls[count], persons[count] = row, b, person
            count += 1
        if first == near[b]:
            continue
        for person, kind in ((near[b], NOT_NEAR), (first, NEAR)):
            if person >= 0:
                rows[count], kinds[count], balls[count] = row, kind, b
                persons[count] = person
                count += 1
        near[b] = first
    return count


@compiled
def crossings(
    ts: Ints, ball: Ints, columns: Floats, pitch: Floats, back: float,
    inside: Ints, last: Floats, last_ts: Ints,
    rows: Ints, times: Ints, lines: Ints, found: Floats,
) -> int:  # fmt: skip
    """Balls that leave the pitch: where and when the path crossed the line.

    `pitch` is x and y of the lines, low and high. A ball is on the pitch again when it is inside by
    `back`. `columns` are x, y, z. Of each crossing `found` has place, ball and which end.
    """
    count = 0
    for row in range(len(ts)):
        b = ball[row]
        if b < 0:
            continue
        x, y = columns[0, row], columns[1, row]
        if inside[b] == 0:
            well = pitch[0] + back < x < pitch[1] - back and pitch[2] + back < y < pitch[3] - back
            if well:
                inside[b] = 1
        elif not (pitch[0] <= x <= pitch[1] and pitch[2] <= y <= pitch[3]):
            inside[b] = 0
            share, line, end = 2.0, TOUCH_LINE, 0
            for side in range(4):
                axis = side // 2
                now, before, limit = columns[axis, row], last[b, axis], pitch[side]
                beyond = now < limit if side % 2 == 0 else now > limit
                if beyond and now != before:
                    at = (limit - before) / (now - before)
                    if at < share:
                        share, line, end = at, axis, side % 2
            share = min(max(share, 0.0), 1.0)
            rows[count], lines[count] = row, line
            times[count] = last_ts[b] + np.int64(np.round(share * (ts[row] - last_ts[b])))
            for axis in range(3):
                found[count, axis] = last[b, axis] + share * (columns[axis, row] - last[b, axis])
            found[count, 3], found[count, 4] = b, end
            count += 1
        last[b] = columns[0:3, row]
        last_ts[b] = ts[row]
    return count


@compiled
def ticks(
    ts: Ints, ball: Ints, columns: Floats, pitch: Floats, margin: float, tick: int,
    state: Ints, rows: Ints,
) -> int:  # fmt: skip
    """The first row of each ball on the pitch in every tick."""
    count = 0
    for row in range(len(ts)):
        b = ball[row]
        if b < 0 or ts[row] // tick == state[b]:
            continue
        x, y = columns[0, row], columns[1, row]
        if (
            pitch[0] - margin <= x <= pitch[1] + margin
            and pitch[2] - margin <= y <= pitch[3] + margin
        ):
            state[b] = ts[row] // tick
            rows[count] = row
            count += 1
    return count


@compiled
def _close(now: int, tick: int, sums: Floats, limbs: Floats, past: Floats, known: Ints,
           last: Ints, out: Floats) -> None:  # fmt: skip
    """End a tick: each person's place is the mean of the mean places of his legs."""
    span = past.shape[1] - 1
    for person in range(len(known)):
        x, y, legs, fresh = 0.0, 0.0, 0, False
        for limb in range(2 * person, 2 * person + 2):
            if sums[limb, 2] > 0:
                limbs[limb, 0] = sums[limb, 0] / sums[limb, 2]
                limbs[limb, 1] = sums[limb, 1] / sums[limb, 2]
                fresh = True
            if not np.isinf(limbs[limb, 0]):
                x += limbs[limb, 0]
                y += limbs[limb, 1]
                legs += 1
            sums[limb] = 0.0
        out[person] = np.nan
        if not fresh:
            continue
        if last[person] != now - 1:
            known[person] = 0
        last[person] = now
        for back in range(span, 0, -1):
            past[person, back] = past[person, back - 1]
        past[person, 0, 0], past[person, 0, 1] = x / legs, y / legs
        steps = min(known[person], span)
        known[person] = steps + 1
        out[person, 0:2] = past[person, 0]
        out[person, 2] = 0.0
        if steps > 0:
            moved = past[person, 0] - past[person, steps]
            length = np.sqrt(moved[0] * moved[0] + moved[1] * moved[1])
            out[person, 2] = length / (steps * tick * 1e-6)


@compiled
def frames(
    ts: Ints, limb: Ints, columns: Floats, tick: int,
    now: Ints, sums: Floats, limbs: Floats, past: Floats, known: Ints, last: Ints,
    rows: Ints, ends: Ints, out: Floats,
) -> int:  # fmt: skip
    """Where everybody was and how fast, once a tick; told by the first row after the tick.

    `columns` are x, y. `out` has x, y and speed of each person, NaN if there was no report.
    """
    count = 0
    for row in range(len(ts)):
        at = ts[row] // tick
        if at != now[0]:
            if now[0] >= 0:
                _close(now[0], tick, sums, limbs, past, known, last, out[count])
                rows[count], ends[count] = row, (now[0] + 1) * tick
                count += 1
            now[0] = at
        which = limb[row]
        if which >= 0:
            sums[which, 0] += columns[0, row]
            sums[which, 1] += columns[1, row]
            sums[which, 2] += 1.0
    return count
