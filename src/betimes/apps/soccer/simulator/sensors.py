"""What the sensors report of the match: limbs around bodies, noise, and the stadium's numbers.

Legs swing back and forth around the body, faster and wider the faster a person runs, and arms in
the opposite direction. Around a contact, the limb that makes it reaches for the ball: for 120 ms
before and after with a leg, for 250 ms with the arms. Each sensor reports at a fixed moment within
the 5 ms (balls: 0.5 ms), so times differ. Velocity and acceleration are those of the true movement;
noise is added to everything, a few centimetres for people, a few millimetres for the ball.

Each second of the match is generated at once, with its own random generator. So the stream does not
depend on how it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from betimes.apps.soccer.recording import RAW, positions
from betimes.apps.soccer.recording import Ints as Column
from betimes.apps.soccer.simulator.physics import STEP, TICK, TICKS, Floats
from betimes.apps.soccer.simulator.scene import Piece, Swing, ball_phase
from betimes.apps.soccer.stadium import KINDS, Stadium

SECOND = 200
"""Steps in a second."""
_AHEAD = 60
"""Steps that must be known beyond a second, because limbs reach for the next contact."""
_REACHING = {"leg": 0.12, "arm": 0.25}
_HEIGHT = {"leg": 0.25, "arm": 1.05, "torso": 1.2}
_ASIDE = {"leg": 0.12, "arm": 0.28, "torso": 0.0}
_NOISE, _BALL_NOISE = (0.03, 0.1, 0.5), (0.005, 0.03, 1.5)
"""Standard deviations: position (m), velocity (m/s), acceleration (m/s²)."""


@dataclass
class _Limbs:
    """The sensors of persons, as columns."""

    sid: Column
    person: Column
    kind: Column
    """The index into `KINDS`."""
    side: Floats
    """-1 and 1 for left and right, 0 for the torso."""
    aside: Floats
    height: Floats
    swing: Floats
    """How much of the stride the limb takes part in, and in which direction."""
    phase: Column
    """Microseconds after each step at which the sensor reports."""


class Sampler:
    """Turns pieces of a match into tables of positions, one per second."""

    def __init__(self, stadium: Stadium, seed: int) -> None:
        self._stadium = stadium
        self._seed = seed
        self._limbs = _limbs_of(stadium)
        self._order, self._offsets, self._sids = self._pattern()
        self._stride = np.zeros(len(stadium.persons))
        """Everyone's phase in the stride."""

    def tables(self, pieces: Iterable[Piece]) -> Iterator[pa.Table]:
        """The positions, second by second, in order of time."""
        window = _Window()
        second = 0
        for piece in pieces:
            window.add(piece)
            while window.stop >= (second + 1) * SECOND + _AHEAD:
                yield self._second(window, second)
                second += 1
                window.drop(second * SECOND - 1)

    def _pattern(self) -> tuple[Column, Column, Column]:
        """The order of a second's positions, their times and sensors: the same every second."""
        balls = self._stadium.balls
        ticks = np.arange(SECOND * TICKS) * round(TICK * 1e6)
        steps = np.arange(SECOND) * round(STEP * 1e6)
        of_balls = [ticks + ball_phase(number) for number in range(len(balls))]
        of_limbs = [steps + int(phase) for phase in self._limbs.phase]
        times = np.concatenate(of_balls + of_limbs)
        sids = np.concatenate([
            np.repeat(np.array(balls, np.int64), len(ticks)),
            np.repeat(self._limbs.sid, len(steps)),
        ])  # fmt: skip
        order = np.lexsort((sids, times))
        return order, times[order], sids[order]

    def _second(self, window: _Window, second: int) -> pa.Table:
        rng = np.random.default_rng([self._seed, 1, second])
        balls = window.balls(second * SECOND * TICKS, SECOND * TICKS)
        limbs = self._limbs_at(window, second * SECOND)
        parts = [_noisy(rng, *balls, _BALL_NOISE), _noisy(rng, *limbs, _NOISE)]
        place, velocity, acceleration = (
            np.concatenate([part[k] for part in parts])[self._order] for k in range(3)
        )
        raw = _raw(place, velocity, acceleration)
        raw["sid"] = self._sids
        raw["ts"] = (self._offsets + second * 1_000_000) * 1_000_000
        return positions(raw, self._stadium)

    def _limbs_at(self, window: _Window, start: int) -> tuple[Floats, Floats, Floats]:
        """Place, velocity and acceleration of all sensors of persons (sensor, step, axis)."""
        limbs, steps = self._limbs, np.arange(start - 1, start + SECOND + 1)
        place, velocity, heading = window.people(start - 1, SECOND + 2)
        speed = np.hypot(velocity[..., 0], velocity[..., 1])
        pace = 2 * math.pi * (0.8 + 0.16 * speed)
        stride = self._stride + (np.cumsum(pace, axis=0) - pace[0]) * STEP
        self._stride = stride[SECOND]
        late = limbs.phase / 1e6
        who = limbs.person
        body = place[:, who] + velocity[:, who] * late[:, None]
        face = heading[:, who]
        angle = stride[:, who] + pace[:, who] * late + np.where(limbs.side > 0, math.pi, 0.0)
        reach = np.minimum(0.38, 0.085 * speed[:, who]) * limbs.swing * np.sin(angle)
        across = np.stack([-face[..., 1], face[..., 0]], axis=-1)
        flat = body + face * reach[..., None] + across * (limbs.side * limbs.aside)[:, None]
        lift = np.maximum(0.0, np.cos(angle)) * 0.03 * np.minimum(speed[:, who], 5.0)
        track = np.concatenate([flat, (limbs.height + lift)[..., None]], axis=-1)
        for swing in window.swings:
            self._reach(track, steps, swing)
        middle = track[1:-1]
        velocities = (track[2:] - track[:-2]) / (2 * STEP)
        accelerations = (track[2:] - 2 * middle + track[:-2]) / STEP**2
        # From step by step to sensor by sensor.
        return middle.swapaxes(0, 1), velocities.swapaxes(0, 1), accelerations.swapaxes(0, 1)

    def _reach(self, track: Floats, steps: Column, swing: Swing) -> None:
        """A limb at the ball at the time of a contact."""
        limbs, kind = self._limbs, swing.part
        own = np.flatnonzero((limbs.person == swing.person) & (limbs.kind == KINDS.index(kind)))
        if kind == "leg":
            own = own[swing.step % 2 : swing.step % 2 + 1]
        for limb in own:
            time = (steps - swing.step) * STEP + limbs.phase[limb] / 1e6
            weight = np.cos(np.clip(time / _REACHING[kind], -1, 1) * math.pi / 2)[:, None] ** 2
            back = np.array(swing.body) - swing.place[:2]
            back = back / max(math.hypot(*back), 1e-9) * 0.08
            x, y, z = swing.place
            goal = np.array([x + back[0], y + back[1], z + 0.04])
            track[:, limb] += weight * (goal - track[:, limb])


class _Window:
    """The pieces that are needed now."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self.swings: list[Swing] = []

    @property
    def stop(self) -> int:
        return self._pieces[-1].step + self._pieces[-1].steps

    def add(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self.swings += piece.swings

    def drop(self, step: int) -> None:
        """Drop what ended before a step."""
        self._pieces = [piece for piece in self._pieces if piece.step + piece.steps > step]
        self.swings = [swing for swing in self.swings if swing.step > step - _AHEAD]

    def people(self, start: int, steps: int) -> tuple[Floats, Floats, Floats]:
        """Everyone's position, velocity and heading; earlier steps are like the first."""
        first = self._pieces[0].step
        rows = np.clip(np.arange(start, start + steps), 0, None) - first
        need = rows[-1] + 1
        arrays = []
        for name in ("places", "velocities", "headings"):
            parts, have = [], 0
            for piece in self._pieces:
                parts.append(getattr(piece, name))
                have += piece.steps
                if have >= need:
                    break
            arrays.append(np.concatenate(parts)[rows])
        return arrays[0], arrays[1], arrays[2]

    def balls(self, start: int, ticks: int) -> tuple[Floats, Floats, Floats]:
        """Places, velocities and accelerations of all balls (ball, tick, axis)."""
        count = len(self._pieces[0].balls)
        places, velocities, accelerations = (np.zeros((count, ticks, 3)) for _ in range(3))
        for piece in self._pieces:
            begin = piece.step * TICKS - start
            low, high = max(begin, 0), min(begin + piece.path.ticks, ticks)
            if low >= high:
                continue
            part, active = slice(low - begin, high - begin), piece.active
            places[:, low:high] = piece.balls[:, None, :]
            places[active, low:high] = piece.path.places[part]
            velocities[active, low:high] = piece.path.velocities[part]
            accelerations[active, low:high] = piece.path.accelerations[part]
        return places, velocities, accelerations


def _limbs_of(stadium: Stadium) -> _Limbs:
    rows = [(sid, person, kind) for sid, (kind, person) in stadium.sensors.items()
            if kind != "ball"]  # fmt: skip
    seen: dict[tuple[int, str], int] = {}
    side = []
    for _, person, kind in rows:
        number = seen[person, kind] = seen.get((person, kind), 0) + 1
        side.append(0.0 if kind == "torso" else -1.0 if number % 2 else 1.0)
    kinds = [kind for _, _, kind in rows]
    swing = {"leg": 1.0, "arm": -0.5, "torso": 0.0}
    return _Limbs(
        np.array([sid for sid, _, _ in rows]),
        np.array([person for _, person, _ in rows]),
        np.array([KINDS.index(kind) for kind in kinds]),
        np.array(side),
        np.array([_ASIDE[kind] for kind in kinds]),
        np.array([_HEIGHT[kind] for kind in kinds]),
        np.array([swing[kind] for kind in kinds]),
        (np.arange(len(rows)) * 33 + 17) % 5000,
    )


def _noisy(
    rng: np.random.Generator, place: Floats, velocity: Floats, acceleration: Floats,
    noise: tuple[float, float, float],
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """One row per position, with the magnitude of the acceleration."""
    place, velocity = place.reshape(-1, 3), velocity.reshape(-1, 3)
    size = np.sqrt(np.einsum("ij,ij->i", a := acceleration.reshape(-1, 3), a))
    return (
        place + rng.normal(0.0, noise[0], place.shape),
        velocity + rng.normal(0.0, noise[1], velocity.shape),
        np.abs(size + rng.normal(0.0, noise[2], len(size))),
    )


def _raw(place: Floats, velocity: Floats, acceleration: Floats) -> dict[str, Column]:
    """Rounded as in a file, so that a stream reads the same after it was written."""
    speed = np.sqrt(np.einsum("ij,ij->i", velocity, velocity))
    direction = velocity / np.maximum(speed, 1e-9)[:, None]
    values = {"v": speed * 1e6, "a": acceleration * 1e6}
    for axis, name in enumerate("xyz"):
        values[name] = place[:, axis] * 1e3
        values[f"v{name}"] = direction[:, axis] * 1e4
    raw = {name: np.rint(values[name]).astype(np.int64) for name in values}
    missing = np.zeros(len(place), np.int64)
    return {name: raw.get(name, missing) for name in RAW}
