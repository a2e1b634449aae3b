"""Level 1: detectors that read raw positions, per batch and as columns.

A stadium sends tens of thousands of positions per second; this level publishes about
sixty events. Each detector here is a compiled loop (`kernel.py`) with its state in arrays.

| detector | publishes |
|---|---|
| `Proximity` | `joins`, `leaves`: a player comes within 1 m of a ball, or leaves it |
|  | `near`, `not_near`: of those within 1 m he is the nearest, or no longer |
| `Strikes` | `kick`: a ball is accelerated by 55 m/s2 or more |
|  | `peak`: that has ended; velocity before and after |
| `Crossings` | `crossed`: a ball leaves the pitch, and where |
| `BallTrack` | `ball_track`: position and velocity of a ball on the pitch, fifty times a second |
| `PlayerTrack` | `frame`: position and speed of all players, ten times a second |
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from betimes.apps.soccer.detectors import kernel
from betimes.apps.soccer.detectors.sensors import Floats, Ints, Sensors, columns_of, look_up
from betimes.apps.soccer.stadium import NUREMBERG, Goal, Stadium
from betimes.model import Derived, EventBatch

KICK = 55.0
"""Acceleration in m/s2 from which the challenge counts a hit."""
REACH = 1.0
"""How near a player's sensor must be to a ball for him to hit it, in metres."""
LEAVE = 1.25
"""From which distance a player is no longer near: larger, or noise would make him come and go."""
HOLD = 3_000
"""A peak ends when the acceleration has been low for this long, in microseconds."""
LONGEST = 20_000
"""No contact lasts longer than this: a peak is published by then."""
STALE = 250_000
"""A position of a limb older than this is ignored."""
TICK = 100_000
"""The time between two frames."""
BALL_TICK = 20_000
"""The time between two reports of a ball."""
SPAN = 5
"""Speed is measured over this many ticks; with fewer, each stride would show."""
BACK = 0.1
"""A ball that was out is in again when it is this far inside, in metres."""


class _Raw:
    """What all these detectors have in common: the stadium."""

    stadium: ClassVar[Stadium] = NUREMBERG
    sensors: ClassVar[Sensors] = Sensors(NUREMBERG)

    @property
    def _pitch(self) -> Floats:
        pitch = self.stadium.pitch
        return np.array([pitch.left, pitch.right, pitch.bottom, pitch.top])


def _through(goal: Goal, x: float, z: float) -> bool:
    return goal.left < x < goal.right and z < goal.height


class Strikes(_Raw):
    """A ball is accelerated as only a contact can; when that ends, its velocity before and after.

    Reads nothing but balls, so a kick is known long before it is clear who was near.
    """

    columns = ("sid", "x", "y", "z", "vx", "vy", "vz", "acceleration")

    def __init__(self) -> None:
        balls = len(self.stadium.balls)
        self.state: Ints = np.zeros((balls, kernel.N_PEAK), np.int64)
        self.held: Floats = np.zeros((balls, 17))

    def on_batch(self, batch: EventBatch) -> list[Derived]:
        ball = look_up(self.sensors.balls, batch.numbers("sid"))
        columns = columns_of(batch, self.columns[1:])
        n = len(batch)
        kicks, rows, starts = (np.empty(n, np.int64) for _ in range(3))
        found = np.empty((n, 14))
        risen, count = kernel.peaks(
            batch.ts, ball, columns, KICK, HOLD, LONGEST,
            self.state, self.held, kicks, rows, starts, found,
        )  # fmt: skip
        made = []
        if count:
            made.append(self._peaks(rows[:count], starts[:count], found[:count]))
        if risen:
            made.append(self._kicks(kicks[:risen], ball, columns))
        return made

    def _kicks(self, rows: Ints, ball: Ints, columns: Floats) -> Derived:
        payload: dict[str, Any] = {"ball": [self.stadium.balls[b] for b in ball[rows]]}
        payload |= zip("xyza", np.round(columns[[0, 1, 2, 6]][:, rows], 3), strict=True)
        return Derived("kick", rows=rows, payload=payload)

    def _peaks(self, rows: Ints, starts: Ints, found: Floats) -> Derived:
        before, after = ("x", "y", "z", "vx", "vy", "vz"), ("x1", "y1", "z1", "vx1", "vy1", "vz1")
        places = np.round(found[:, :13].T, 3)
        payload: dict[str, Any] = dict(zip((*before, *after, "a"), places, strict=True))
        payload["ball"] = [self.stadium.balls[int(b)] for b in found[:, 13]]
        payload["start"] = starts
        return Derived("peak", rows=rows, payload=payload)


class Proximity(_Raw):
    """Who joins those around a ball and leaves them, and who of them is nearest to it.

    At most one player is near a ball, because one player hits it: if another one comes nearer, the
    first is no longer near. Only `leaves` waits until he is a bit farther away.
    """

    columns = ("sid", "x", "y", "z")
    kinds: ClassVar = (
        (kernel.LEAVES, "leaves"),
        (kernel.JOINS, "joins"),
        (kernel.NOT_NEAR, "not_near"),
        (kernel.NEAR, "near"),
    )

    def __init__(self) -> None:
        balls, limbs = len(self.stadium.balls), len(self.sensors.person_of)
        self.limbs: Floats = np.full((limbs, 3), np.inf)
        self.seen: Ints = np.full(limbs, -STALE, np.int64)
        self.there: Ints = np.zeros((balls, len(self.sensors.names)), np.int64)
        self.near: Ints = np.full(balls, -1, np.int64)

    def on_batch(self, batch: EventBatch) -> list[Derived]:
        sids, columns = batch.numbers("sid"), columns_of(batch, self.columns[1:])
        ball, limb = look_up(self.sensors.balls, sids), look_up(self.sensors.limbs, sids)
        room = (len(self.sensors.names) + 2) * int(np.count_nonzero(ball >= 0))
        rows, kinds, balls, persons = (np.empty(room, np.int64) for _ in range(4))
        count = kernel.proximity(
            batch.ts, ball, limb, columns, self.sensors.person_of, REACH, LEAVE, STALE,
            self.limbs, self.seen, self.there, self.near, rows, kinds, balls, persons,
        )  # fmt: skip
        made = []
        for kind, type in self.kinds:
            which = np.flatnonzero(kinds[:count] == kind)
            if len(which):
                payload = self._who(balls[which], persons[which])
                made.append(Derived(type, rows=rows[which], payload=payload))
        return made

    def _who(self, balls: Ints, persons: Ints) -> dict[str, Any]:
        names = [self.sensors.names[p] for p in persons]
        players = [self.stadium.persons[self.stadium.numbers[name]] for name in names]
        return {
            "player": names,
            "team": [player.team for player in players],
            "keeper": [player.role == "keeper" for player in players],
            "ball": [self.stadium.balls[b] for b in balls],
        }


class Crossings(_Raw):
    """A ball crosses a line outwards: which line, where, and whether through a goal."""

    columns = ("sid", "x", "y", "z")

    def __init__(self) -> None:
        balls = len(self.stadium.balls)
        self.inside: Ints = np.zeros(balls, np.int64)
        self.last: Floats = np.zeros((balls, 3))
        self.last_ts: Ints = np.zeros(balls, np.int64)

    def on_batch(self, batch: EventBatch) -> Derived | None:
        ball = look_up(self.sensors.balls, batch.numbers("sid"))
        n = len(batch)
        rows, times, lines = (np.empty(n, np.int64) for _ in range(3))
        found = np.empty((n, 5))
        count = kernel.crossings(
            batch.ts, ball, columns_of(batch, self.columns[1:]), self._pitch, BACK,
            self.inside, self.last, self.last_ts, rows, times, lines, found,
        )  # fmt: skip
        if count == 0:
            return None
        places = np.round(found[:count, :3], 3).tolist()
        # The first goal is at the high end.
        ends = (1 - found[:count, 4].astype(int)).tolist()
        goal_line = (lines[:count] == kernel.GOAL_LINE).tolist()
        goals = [
            line and _through(self.stadium.pitch.goals[end], x, z)
            for line, end, (x, _, z) in zip(goal_line, ends, places, strict=True)
        ]
        payload: dict[str, Any] = {
            "ball": [self.stadium.balls[int(b)] for b in found[:count, 3]],
            "line": ["goal" if line else "touch" for line in goal_line],
            "end": ends,
            "goal": goals,
        } | {axis: [place[n] for place in places] for n, axis in enumerate("xyz")}
        return Derived("crossed", rows=rows[:count], ts=times[:count], payload=payload)


class BallTrack(_Raw):
    """Where a ball on the pitch is and how it moves, fifty times a second."""

    columns = ("sid", "x", "y", "z", "vx", "vy", "vz")

    def __init__(self) -> None:
        self.told: Ints = np.full(len(self.stadium.balls), -1, np.int64)

    def on_batch(self, batch: EventBatch) -> Derived | None:
        sids = batch.numbers("sid")
        columns = columns_of(batch, self.columns[1:])
        rows = np.empty(len(batch), np.int64)
        ball = look_up(self.sensors.balls, sids)
        count = kernel.ticks(batch.ts, ball, columns, self._pitch, 0.5, BALL_TICK, self.told, rows)
        if count == 0:
            return None
        rows = rows[:count]
        found = np.round(columns[:, rows], 3)
        payload: dict[str, Any] = {"ball": sids[rows]}
        payload |= zip(self.columns[1:], found, strict=True)
        return Derived("ball_track", rows=rows, payload=payload)


class PlayerTrack(_Raw):
    """Where all players are and how fast they run, ten times a second.

    A player's position is the mean of his two legs over a tick; his speed is the distance he
    covered in the last half second. The sway of a stride cancels out.
    """

    columns = ("sid", "x", "y")
    tick: ClassVar[int] = TICK
    span: ClassVar[int] = SPAN

    def __init__(self) -> None:
        players = len(self.sensors.names)
        self.now: Ints = np.full(1, -1, np.int64)
        self.sums: Floats = np.zeros((2 * players, 3))
        self.legs: Floats = np.full((2 * players, 2), np.inf)
        self.past: Floats = np.zeros((players, self.span + 1, 2))
        self.known: Ints = np.zeros(players, np.int64)
        self.last: Ints = np.full(players, -2, np.int64)

    def on_batch(self, batch: EventBatch) -> Derived | None:
        leg = look_up(self.sensors.legs, batch.numbers("sid"))
        room = int(np.count_nonzero(np.diff(batch.ts // self.tick))) + 2
        rows, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        out = np.empty((room, len(self.sensors.names), 3))
        count = kernel.frames(
            batch.ts, leg, columns_of(batch, self.columns[1:]), self.tick,
            self.now, self.sums, self.legs, self.past, self.known, self.last,
            rows, ends, out,
        )  # fmt: skip
        if count == 0:
            return None
        names, frames = self.sensors.names, np.round(out[:count], 6)
        payload: dict[str, Any] = {"player": [], "x": [], "y": [], "speed": []}
        for frame in frames:
            there = np.flatnonzero(~np.isnan(frame[:, 0]))
            payload["player"].append([names[player] for player in there.tolist()])
            for name, values in zip(("x", "y", "speed"), frame[there].T.tolist(), strict=True):
                payload[name].append(values)
        return Derived("frame", rows=rows[:count], ts=ends[:count], payload=payload)
