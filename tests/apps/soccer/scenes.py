"""Short scenes for tests of detectors: positions made by hand, not by the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import betimes as bt
from betimes.apps.soccer.stadium import NUREMBERG

START = 10_760_000_000
"""Some time in the first half of the recording, in microseconds; a full second."""
LEGS = {
    person.name: [
        sid for sid, (kind, who) in NUREMBERG.sensors.items() if kind == "leg" and who == number
    ]
    for number, person in enumerate(NUREMBERG.persons)
}


def position(
    sid: int,
    ms: float,
    place: Sequence[float],
    velocity: Sequence[float] = (0.0, 0.0, 0.0),
    a: float = 0.0,
) -> bt.Event:
    """One position, `ms` milliseconds after the beginning of the scene."""
    kind, _ = NUREMBERG.sensors.get(sid, ("leg", 0))
    payload = dict(zip(("x", "y", "z"), map(float, place), strict=True))
    payload |= dict(zip(("vx", "vy", "vz"), map(float, velocity), strict=True))
    payload |= {"speed": float(np.linalg.norm(velocity)), "acceleration": float(a)}
    time = START + round(ms * 1000)
    return bt.Event("ball" if kind == "ball" else "player", time, {"sid": sid, **payload})


def standing(player: str, x: float, y: float, until: float, since: float = 0.0) -> list[bt.Event]:
    """Both legs of a player, every 5 ms, 30 cm apart."""
    return [
        position(sid, ms, (x + side, y, 0.1))
        for ms in np.arange(since, until, 5.0)
        for sid, side in zip(LEGS[player], (-0.15, 0.15), strict=True)
    ]


def kicked(
    times: Iterable[tuple[float, Sequence[float]]],
    place: Sequence[float],
    until: float,
    *,
    sid: int = 4,
    step: float = 0.5,
) -> list[bt.Event]:
    """A ball that is at rest, and at each of the given times takes 4 ms to take on a velocity."""
    kicks = list(times)
    at, velocity = np.array(place, float), np.zeros(3)
    made: list[bt.Event] = []
    for ms in np.arange(0.0, until, step):
        a = 0.0
        for begin, target in kicks:
            if begin <= ms < begin + 4.0:
                before = velocity
                velocity = velocity + (np.array(target) - velocity) * step / (begin + 4.0 - ms)
                a = float(np.linalg.norm(velocity - before)) / step * 1000.0
        made.append(position(sid, ms, at.tolist(), velocity.tolist(), a))
        at = at + velocity * step / 1000.0
    return made


def ordered(*parts: Iterable[bt.Event]) -> list[bt.Event]:
    return sorted((event for part in parts for event in part), key=lambda event: event.ts)


def run(detector: Any, events: Iterable[bt.Event], *, cut: int | None = None) -> list[bt.Event]:
    """What a detector per batch makes of events, in slices of `cut` events."""
    rows = list(events)
    made: list[tuple[int, int, bt.Event]] = []
    for low in range(0, len(rows), cut or len(rows)):
        batch = bt.EventBatch.from_rows(rows[low : low + (cut or len(rows))])
        result = detector.on_batch(batch)
        for item in [] if result is None else result if isinstance(result, list) else [result]:
            made += [
                (low + row, n, event)
                for n, (row, event) in enumerate(
                    zip(item.rows.tolist(), item.events(batch.ts), strict=True)
                )
            ]
    return [event for _, _, event in sorted(made, key=lambda entry: entry[0])]
