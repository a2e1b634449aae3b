"""The arrivals of one stage in one batch, and those that still wait to be handled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.history import pick
from betimes.engine.messages import Output
from betimes.model.batch import EventBatch
from betimes.model.event import Event

Ints = npt.NDArray[np.int64]


_SPARE = 1024
"""So many rows more than needed are kept, so that dropping them is rare."""


class Arrivals:
    """What arrives at a stage, in order: columns for the ordering unit, events for the detector."""

    __slots__ = ("at", "batch", "events", "keys", "outputs")

    def __init__(
        self,
        batch: EventBatch,
        events: list[Event],
        at: Ints,
        outputs: dict[int, Output],
        keys: list[Any] | None,
    ) -> None:
        self.batch = batch
        self.events = events
        self.at = at
        """The number of the input event with which each came."""
        self.outputs = outputs
        """Which of them are outputs of other stages, by index."""
        self.keys = keys
        """The key whose state each concerns; None if there is one state for all."""


class Waiting:
    """Arrivals by the ordering unit's row numbers, from the oldest that is not handled on."""

    def __init__(self) -> None:
        self.base = 0
        self.outputs: dict[int, Output] = {}
        self.rows: dict[str, int] = {}
        """The rows of outputs of other stages, by their identity."""
        self._events: list[Event] = []
        self._at: Ints = np.empty(0, np.int64)
        self._keys: list[Any] = []
        self._old: dict[int, tuple[Event, int, Any]] = {}

    def put(self, arrivals: Arrivals) -> int:
        """Keep arrivals; return the row number of the first."""
        first = self.base + len(self._events)
        self._events += arrivals.events
        self._at = np.concatenate((self._at, arrivals.at))
        if arrivals.keys is not None:
            self._keys += arrivals.keys
        for index, output in arrivals.outputs.items():
            self.outputs[first + index] = output
            self.rows[output.id] = first + index
        return first

    def take(self, rows: Ints) -> tuple[list[Event], Ints, list[Any] | None]:
        """Events, arrival numbers and keys of these rows."""
        at = rows - self.base
        if self._old and len(at) and at.min() < 0:
            every = [self._one(row) for row in rows.tolist()]
            keys = [key for *_, key in every] if self._keys else None
            return [event for event, *_ in every], np.array([at for _, at, _ in every]), keys
        numbers = at.tolist()
        keys = pick(self._keys, numbers) if self._keys else None
        return pick(self._events, numbers), self._at[at], keys

    def _one(self, row: int) -> tuple[Event, int, Any]:
        if row < self.base:
            return self._old.pop(row)
        at = row - self.base
        return self._events[at], int(self._at[at]), self._keys[at] if self._keys else None

    def state_of(self) -> dict[str, Any]:
        """All that must be kept to go on elsewhere."""
        return {
            "base": self.base,
            "outputs": {row: output.state_of() for row, output in self.outputs.items()},
            "events": self._events,
            "at": self._at,
            "keys": self._keys,
            "old": self._old,
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Go on from what `state_of` kept."""
        self.base = kept["base"]
        self.outputs = {row: Output.resumed(o) for row, o in kept["outputs"].items()}
        self.rows = {output.id: row for row, output in self.outputs.items()}
        self._events, self._at, self._keys = kept["events"], kept["at"], kept["keys"]
        self._old = kept["old"]

    def trim(self, held: Ints) -> None:
        """Drop what is not held any more; a few old rows do not keep the others."""
        count = len(self._events)
        if count <= 2 * len(held) + _SPARE:
            return
        keep = self.base + count - len(held) - _SPARE // 2
        old = held[held < keep].tolist()
        self._old.update((row, self._one(row)) for row in old)
        gone = keep - self.base
        self._at = self._at[gone:]
        del self._events[:gone], self._keys[:gone]
        self.base = keep
