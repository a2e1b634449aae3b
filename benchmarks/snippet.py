"""A part of the simulated match, as the benchmarks feed it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from betimes.apps.soccer.disorder import Delays, disordered
from betimes.apps.soccer.simulator import simulate

MS = 1_000
BATCH = 100 * MS
"""Microseconds of arrivals per batch."""


@dataclass(frozen=True)
class Snippet:
    """Part of a match: positions in order of time and in order of arrival."""

    seconds: float
    in_order: pa.Table
    arrivals: pa.Table

    @classmethod
    def of(cls, seconds: float, delays: Delays) -> Snippet:
        match = simulate(seconds, seed=1)
        tables = list(match.tables())
        arrivals = pa.concat_tables(disordered(tables, delays, seed=1)).combine_chunks()
        return cls(seconds, pa.concat_tables(tables).combine_chunks(), arrivals)

    def batches(self) -> Iterator[tuple[int, pa.Table]]:
        """Arrivals in batches, each with the time by which all of it has arrived."""
        arrived = self.arrivals["arrived"].to_numpy()
        table = self.arrivals.drop_columns(["seq", "arrived"])
        ends = np.arange(BATCH, int(arrived[-1]) + BATCH, BATCH)
        borders = np.searchsorted(arrived, ends)
        low = 0
        for end, high in zip(ends.tolist(), borders.tolist(), strict=True):
            yield end, table.slice(low, high - low)
            low = high
