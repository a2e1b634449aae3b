"""Simulated matches and what the hierarchy makes of them: made once for all tests."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pyarrow as pa

import betimes as bt
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.simulator import Match, simulate
from betimes.apps.soccer.stadium import SIMULATED

SECONDS = 65.0
"""As long as the snippet of the papers."""


@cache
def match(seed: int, seconds: float = SECONDS) -> tuple[Match, list[pa.Table]]:
    """A match, and its positions in order of time."""
    played = simulate(seconds, seed=seed)
    return played, list(played.tables(34_000))


def run(tables: Iterable[pa.Table], attenuation: float) -> list[bt.Change]:
    """What the hierarchy makes of positions."""
    engine = bt.Engine(soccer(SIMULATED), attenuation=attenuation)
    changes = [change for table in tables for change in engine.feed(table)]
    return [*changes, *engine.finish()]


@cache
def in_order(seed: int, seconds: float = SECONDS) -> list[bt.Change]:
    """What it makes of them in order of time."""
    return run(match(seed, seconds)[1], 1)
