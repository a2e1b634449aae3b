"""Arrivals that wait to be handed out, as event objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.engine.news.news import Output
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.coded import pick
from betimes.engine.stages.tactic import Ints
from betimes.model.event import Event

_SPARE = 4096
"""Up to this many rows more than needed are kept, so that dropping them is rare."""


class WaitingRows:
    """Arrivals that the detector takes, by the ordering unit's row number, until handed out."""

    def __init__(self) -> None:
        self.outputs: dict[int, Output] = {}
        self.rows: dict[str, int] = {}
        """The rows of outputs of other stages, by their identity."""
        self._rows: Ints = np.empty(0, np.int64)
        self._gaps = 0
        """From this index on, row numbers are consecutive."""
        self._events: list[Event] = []
        self._at: Ints = np.empty(0, np.int64)
        self._keys: list[Any] = []

    def put(self, first: int, arrivals: Arrivals) -> None:
        """Keep arrivals; `first` is the row number of the first."""
        at = arrivals.at
        if len(arrivals.wanted) < len(at):
            at = at[arrivals.wanted]
            self._gaps = len(self._rows) + len(at)
        if arrivals.events:
            self._rows = np.concatenate((self._rows, first + arrivals.wanted))
            self._at = np.concatenate((self._at, at))
            self._events += arrivals.events
            if arrivals.keys is not None:
                self._keys += arrivals.keys
        for index, output in arrivals.outputs.items():
            self.outputs[first + index] = output
            self.rows[output.id] = first + index

    def take(self, rows: Ints) -> tuple[list[Event], Ints, list[Any] | None]:
        """Events, arrival numbers and keys of these rows."""
        if not len(rows):
            return [], rows, None
        at = self._indices(rows)
        numbers = at.tolist()
        keys = pick(self._keys, numbers) if self._keys else None
        return pick(self._events, numbers), self._at[at], keys

    def _indices(self, rows: Ints) -> Ints:
        """Where these rows are; after the last gap, their numbers give the index."""
        gaps = self._gaps
        if gaps == len(self._rows):
            return self._rows.searchsorted(rows)
        at: Ints = rows - (self._rows[gaps] - gaps)
        before = np.flatnonzero(at < gaps)
        if len(before):
            at[before] = self._rows.searchsorted(rows[before])
        return at

    def trim(self, held: Ints) -> None:
        """Drop what is no longer held."""
        if len(self._rows) > 2 * len(held) + _SPARE:
            held = np.sort(held)
            kept = self._rows.searchsorted(held)
            # Clock events are held too, but not kept here.
            kept = kept[self._rows.take(kept, mode="clip") == held]
            self._rows, self._at = self._rows[kept], self._at[kept]
            self._gaps = len(kept)
            numbers = kept.tolist()
            self._events = pick(self._events, numbers)
            self._keys = pick(self._keys, numbers) if self._keys else []

    def state_of(self) -> dict[str, Any]:
        """Everything needed to resume elsewhere."""
        return {
            "outputs": {row: output.state_of() for row, output in self.outputs.items()},
            "rows": self._rows,
            "events": self._events,
            "at": self._at,
            "keys": self._keys,
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` kept."""
        self.outputs = {row: Output.resumed(o) for row, o in kept["outputs"].items()}
        self.rows = {output.id: row for row, output in self.outputs.items()}
        self._rows, self._events, self._at = kept["rows"], kept["events"], kept["at"]
        self._keys = kept["keys"]
        self._gaps = len(self._rows)
