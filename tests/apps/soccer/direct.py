"""The four queries by direct formulas over all positions at once: no detectors, no streams.

Short on purpose. `positions` are columns: sid, ts (microseconds), x, y, z (metres), a (m/s2) and
vx, vy, vz (m/s), in order of time.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.apps.soccer.stadium import Stadium

Columns = dict[str, npt.NDArray[Any]]
Track = dict[str, dict[int, tuple[float, float]]]
KMH = (1, 11, 14, 17, 24)
LIMBS = ("leg", "arm", "torso")
NAMES = ("stand", "trot", "low", "medium", "high", "sprint")


def from_csv(path: Path, *, header: bool) -> Columns:
    """The recording's own columns, scaled as its description says."""
    raw = np.loadtxt(path, delimiter=",", skiprows=int(header), dtype=np.int64)
    return {
        "sid": raw[:, 0],
        "ts": raw[:, 1] // 10**6,
        "x": raw[:, 2] / 1e3,
        "y": raw[:, 3] / 1e3,
        "z": raw[:, 4] / 1e3,
        "a": raw[:, 6] / 1e6,
    } | {f"v{axis}": raw[:, 5] * 1e-6 * raw[:, n] * 1e-4 for n, axis in enumerate("xyz", start=7)}


def from_tables(tables: Iterable[pa.Table]) -> Columns:
    """The columns of positions that were simulated."""
    table = pa.concat_tables(tables)
    names = ("sid", "ts", "x", "y", "z", "vx", "vy", "vz")
    columns = {name: table[name].to_numpy() for name in names}
    columns["sid"] = columns["sid"].astype(np.int64)
    return columns | {"a": table["acceleration"].to_numpy()}


def _owner(stadium: Stadium, sid: int, kinds: tuple[str, ...]) -> str | None:
    kind, person = stadium.sensors[sid]
    return stadium.persons[person].name if kind in kinds and stadium.persons[person].plays else None


def track(positions: Columns, stadium: Stadium) -> Track:
    """Of each player, by tenth of a second: the mean over his legs of their mean places.

    The last tenth may be cut off, and is left out.
    """
    tick = positions["ts"] // 100_000
    key, of, count = np.unique(
        positions["sid"] * 10**9 + tick, return_inverse=True, return_counts=True
    )
    means = [np.bincount(of, weights=positions[axis]) / count for axis in "xy"]
    legs: dict[str, dict[int, dict[int, tuple[float, float]]]] = defaultdict(dict)
    end = 0
    for code, x, y in zip(key.tolist(), *(mean.tolist() for mean in means), strict=True):
        sid, t = divmod(code, 10**9)
        end = max(end, t if _owner(stadium, sid, LIMBS) else 0)
        name = _owner(stadium, sid, ("leg",))
        if name is not None:
            legs[name].setdefault(sid, {})[t] = x, y
    places: Track = {}
    for name, reports in legs.items():
        places[name] = {}
        last: dict[int, tuple[float, float]] = {}
        for t in sorted({t for leg in reports.values() for t in leg if t < end}):
            last |= {sid: leg[t] for sid, leg in reports.items() if t in leg}
            xs, ys = zip(*last.values(), strict=True)
            places[name][t] = sum(xs) / len(xs), sum(ys) / len(ys)
    return places


def _speeds(places: dict[int, tuple[float, float]]) -> Iterator[tuple[int, float]]:
    """By tick: the way of the last half second, as far as there are reports, by its time."""
    for t in places:
        since = t
        while since > t - 5 and since - 1 in places:
            since -= 1
        yield t, 0.0 if since == t else math.dist(places[t], places[since]) / ((t - since) * 0.1)


def runs(places: dict[int, tuple[float, float]]) -> list[tuple[str, int, int, float]]:
    """Intensity, begin, end (microseconds) and metres; what is below a second joins the next."""
    found: list[tuple[str, int, int, float]] = []
    pieces = [
        (kind, [t for t, _ in group])
        for kind, group in groupby(
            _speeds(places), key=lambda p: bisect.bisect_left(KMH, p[1] * 3.6)
        )
    ]
    speed = dict(_speeds(places))
    waiting: list[int] = []
    for number, (kind, ticks) in enumerate(pieces):
        waiting += ticks
        if len(waiting) >= 10 or number == len(pieces) - 1:
            metres = sum(speed[t] * 0.1 for t in waiting)
            found.append((NAMES[kind], waiting[0] * 100_000, (waiting[-1] + 1) * 100_000, metres))
            waiting = []
    return found


def totals(
    finished: list[tuple[str, int, int, float]], window: int | None
) -> dict[str, tuple[float, float]]:
    """Seconds and metres by intensity in the window that ends with the last run."""
    start = 0 if window is None else finished[-1][2] - window
    sums: dict[str, tuple[float, float]] = {}
    for kind, begin, end, metres in finished:
        inside = end - max(begin, start)
        if inside > 0:
            seconds, way = sums.get(kind, (0.0, 0.0))
            sums[kind] = seconds + inside / 1e6, way + metres * inside / (end - begin)
    return sums


def heat(
    places: dict[int, tuple[float, float]], stadium: Stadium, across: int, along: int
) -> npt.NDArray[np.float64]:
    """Every second counts the same, and in it every tenth."""
    pitch, cells = stadium.pitch, np.zeros((along, across))
    seconds = [t // 10 for t in places]
    for t, (x, y) in places.items():
        column = int((x - pitch.left) / (pitch.right - pitch.left) * across)
        row = int((y - pitch.bottom) / (pitch.top - pitch.bottom) * along)
        column, row = min(max(column, 0), across - 1), min(max(row, 0), along - 1)
        cells[row, column] += 1 / seconds.count(t // 10)
    shares: npt.NDArray[np.float64] = cells / cells.sum()
    return shares


def hits(positions: Columns, stadium: Stadium) -> list[tuple[int, int, str]]:
    """When, which ball and by whom it was hit: |a| >= 55, and a limb of somebody within 1 m.

    One contact is one hit: the next begins when the acceleration has been below for 3 ms.
    """
    limbs = [
        (name, positions["sid"] == sid)
        for sid in stadium.sensors
        if (name := _owner(stadium, sid, LIMBS)) is not None
    ]
    paths = [
        (name, positions["ts"][mine], _places(positions, mine))
        for name, mine in limbs
        if mine.any()
    ]
    found = []
    for ball in stadium.balls:
        hard = np.flatnonzero((positions["sid"] == ball) & (positions["a"] >= 55))
        before, told = -(10**9), False
        for row, ts in zip(hard.tolist(), positions["ts"][hard].tolist(), strict=True):
            told, before = told and ts - before <= 3_000, ts
            here = _places(positions, np.array([row]))[0]
            near = []
            for name, times, places in paths:
                last = int(np.searchsorted(times, ts, side="right")) - 1
                if last >= 0 and ts - times[last] <= 250_000:
                    near.append((float(np.linalg.norm(places[last] - here)), name))
            if not told and near and min(near)[0] <= 1.0:
                told = True
                found.append((ts, ball, min(near)[1]))
    return sorted(found)


def _places(positions: Columns, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.stack([positions[axis][rows] for axis in "xyz"], axis=1)


def possessions(positions: Columns, stadium: Stadium) -> list[tuple[str, int, int | None]]:
    """Who, from his first hit to another player's, or until that ball is out."""
    pitch, found = stadium.pitch, []
    kicks = hits(positions, stadium)
    inside = (positions["x"] >= pitch.left) & (positions["x"] <= pitch.right)
    inside &= (positions["y"] >= pitch.bottom) & (positions["y"] <= pitch.top)
    has: tuple[str, int] | None = None
    for (ts, ball, player), (until, *_) in zip(kicks, [*kicks[1:], (2**62,)], strict=True):
        if has is not None and has[0] != player:
            found.append((*has, ts))
            has = None
        has = has or (player, ts)
        left = positions["ts"][(positions["sid"] == ball) & ~inside]
        left = left[(left > ts + 5_000) & (left < until)]
        if len(left):
            found.append((*has, int(left[0])))
            has = None
    return [*found, *([] if has is None else [(*has, None)])]


def shots_on_goal(positions: Columns, stadium: Stadium) -> list[tuple[int, str]]:
    """Hits after which, 7 ms later, the ball is on its way into the goal of the others."""
    found = []
    for ts, ball, player in hits(positions, stadium):
        after = (positions["ts"] >= ts + 7_000) & (positions["sid"] == ball)
        rows = np.flatnonzero(after)[:1]
        if not len(rows):
            continue
        x, y, z, vx, vy, vz = (
            float(positions[name][rows[0]]) for name in ("x", "y", "z", "vx", "vy", "vz")
        )
        goal = stadium.attacked(player[0], ts)
        t = (goal.y - y) / vy
        height = z + vz * t - 9.81 / 2 * t * t
        if 0 < t <= 1.5 and goal.left <= x + vx * t <= goal.right and height <= goal.height:
            found.append((ts, player))
    return found
