"""Simulated matches that several tests look at, each made once."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from betimes.apps.soccer.simulator import Match, simulate


@cache
def match(seconds: float = 65.0, seed: int = 1) -> Match:
    return simulate(seconds, seed=seed)


@cache
def positions(seconds: float = 65.0, seed: int = 1) -> pa.Table:
    """All positions of a match, in order of time."""
    return pa.concat_tables(match(seconds, seed).tables()).combine_chunks()
