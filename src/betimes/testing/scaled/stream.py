"""The input of the scaled hierarchy: how far each player is from the ball, and its acceleration.

The ball goes from player to player, every 150 to 450 ms. Its sensor reports every 5 ms, those of
the players every 40 ms, each in its own rhythm. A player is within 1 m from 120 ms before he kicks
the ball until 60 ms after; noise makes some of the others come near for a moment.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model import Event
from betimes.model.hints import known_options
from betimes.testing.scaled.hierarchy import players

Floats = npt.NDArray[np.float64]
MS = 1_000
BALL, PLAYER = 5 * MS, 40 * MS
"""How often sensors report."""
BEFORE, AFTER = 120 * MS, 60 * MS
"""How long a player is near before he kicks the ball, and after."""
TO_MATE = 0.7
"""The share of kicks after which the ball stays in the team."""


@known_options
def scaled_stream(
    seconds: float, *, seed: int = 0, each: int = 11, stragglers: float = 0.01
) -> list[Event]:
    """Events in order of arrival, for `scaled_hierarchy` with as many players in `each` team.

    Balls are 0 to 5 ms late, players 5 to 45 ms; a share of all, `stragglers`, 45 to 150 ms.

    >>> stream = scaled_stream(1.0, seed=1)
    >>> len(stream), stream[0].type
    (750, 'ball')
    """
    rng = np.random.default_rng(seed)
    end = round(seconds * 1e6)
    names = [name for team in players(each).values() for name in team]
    times, who = _kicks(rng, end, each)
    made = _ball(rng, end, times)
    for number, name in enumerate(names):
        made += _player(rng, end, name, times[who == number])
    delays = np.array([rng.uniform(0, 5) if e.type == "ball" else rng.uniform(5, 45) for e in made])
    late = rng.random(len(made)) < stragglers
    delays[late] = rng.uniform(45, 150, int(late.sum()))
    arrived = np.array([event.ts for event in made]) + delays * MS
    return [made[n] for n in np.argsort(arrived, kind="stable")]


def _kicks(rng: np.random.Generator, end: int, each: int) -> tuple[Floats, Floats]:
    """When the ball is kicked, and by whom: the first `each` numbers are one team."""
    times, who = [], []
    ts, player = 200 * MS, 0
    while ts < end:
        times.append(ts)
        who.append(player)
        ts += int(rng.integers(150, 451)) * MS
        team = player // each if rng.random() < TO_MATE else 1 - player // each
        player = team * each + int(rng.integers(each))
    return np.array(times), np.array(who)


def _ball(rng: np.random.Generator, end: int, kicks: Floats) -> list[Event]:
    ts = np.arange(0, end, BALL)
    a = rng.uniform(0, 20, len(ts))
    a[np.searchsorted(ts, kicks[kicks <= ts[-1]])] += 60
    return [
        Event("ball", t, {"a": v}) for t, v in zip(ts.tolist(), a.round(2).tolist(), strict=True)
    ]


def _player(rng: np.random.Generator, end: int, name: str, kicks: Floats) -> list[Event]:
    ts = np.arange(int(rng.integers(PLAYER)), end, PLAYER)
    d = rng.uniform(1.5, 30, len(ts))
    d[rng.random(len(ts)) < 0.002] = 0.9
    near = np.zeros(len(ts), bool)
    for kick in kicks:
        near |= (ts >= kick - BEFORE) & (ts <= kick + AFTER)
    d[near] = rng.uniform(0.2, 0.9, int(near.sum()))
    type = f"distance_{name}"
    return [Event(type, t, {"d": v}) for t, v in zip(ts.tolist(), d.round(2).tolist(), strict=True)]
