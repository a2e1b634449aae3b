"""A simulated match: its positions as a stream of tables, and what happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from betimes.apps.soccer.recording import cut
from betimes.apps.soccer.simulator.director import Director
from betimes.apps.soccer.simulator.physics import STEP
from betimes.apps.soccer.simulator.scene import Piece
from betimes.apps.soccer.simulator.sensors import SECOND, Sampler
from betimes.apps.soccer.simulator.truth import Chronicle
from betimes.apps.soccer.stadium import SIMULATED, Stadium
from betimes.model import OptionError


@dataclass
class Match:
    """A match of some seconds, generated from a seed."""

    seconds: float
    seed: int
    stadium: Stadium
    _truth: pa.Table | None = field(default=None, repr=False)

    @property
    def end(self) -> int:
        """The time at which the stream ends, in microseconds; it begins at 0."""
        return round(self.seconds * 1e6)

    def tables(self, rows: int = 100_000) -> Iterator[pa.Table]:
        """The positions in order of time, in tables of `rows` rows, generated as they are read."""
        if rows < 1:
            raise OptionError(f"expected rows to be 1 or more, got rows={rows}")
        yield from cut(self._seconds(), rows)

    @property
    def truth(self) -> pa.Table:
        """What happened: see `betimes.apps.soccer.simulator.truth` for kinds and columns."""
        if self._truth is None:
            chronicle = Chronicle(self.stadium)
            for piece in self._pieces(chronicle):
                if piece.step * STEP >= self.seconds:
                    break
            self._truth = chronicle.finished()
        return self._truth

    def write_truth(self, path: str | Path) -> None:
        """Write the truth, one JSON object per line."""
        with Path(path).open("w", encoding="utf-8") as file:
            for row in self.truth.to_pylist():
                file.write(json.dumps(row) + "\n")

    def _pieces(self, chronicle: Chronicle) -> Iterator[Piece]:
        for piece in Director(self.stadium, self.seed).pieces():
            chronicle.tell(fact for fact in piece.facts if fact.ts < self.end)
            yield piece

    def _seconds(self) -> Iterator[pa.Table]:
        """One table per second; the truth is known when all are generated."""
        chronicle = Chronicle(self.stadium)
        seconds = Sampler(self.stadium, self.seed).tables(self._pieces(chronicle))
        for number, table in enumerate(seconds, start=1):
            if number * SECOND * STEP < self.seconds:
                yield table
                continue
            yield table.filter(pa.array(table["ts"].to_numpy() < self.end))
            break
        self._truth = chronicle.finished()


def simulate(
    seconds: float = 65.0, *, seed: int = 1, stadium: Stadium = SIMULATED
) -> Match:  # fmt: skip
    """A match of the given length. The same seed gives the same match, position by position.

    >>> match = simulate(2.0, seed=7)
    >>> sum(len(table) for table in match.tables())
    68400
    >>> match.truth.select(["kind", "ts", "player"]).to_pylist()[0]
    {'kind': 'hit', 'ts': 1000000, 'player': 'A7'}
    """
    if not 0 < seconds <= 1e6:
        raise OptionError(f"expected seconds to be above 0, at most 1,000,000, got {seconds!r}")
    if not 0 <= seed < 2**63:
        raise OptionError(f"expected seed to be a whole number from 0, got seed={seed!r}")
    return Match(seconds, seed, stadium)
