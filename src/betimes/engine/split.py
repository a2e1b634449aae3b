"""Streams whose keys run on times of their own: one engine for each key.

Devices that were offline, or a backfill, report hours after the others. In a shared ordering unit
they would be late; with `order="key"` every key has its own clock, slack and snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from betimes.model.batch import EventBatch
from betimes.model.change import Change, ChangeBatch
from betimes.model.duration import Duration

if TYPE_CHECKING:
    from betimes.engine.engine import Engine


class Split:
    """The engines of the keys, made when a key is first seen."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self.engines: dict[Any, Engine] = {}
        self.seq = 0

    def feed(self, batch: EventBatch, groups: list[Any]) -> ChangeBatch:
        """Hand each event to the engine of its key."""
        mine: dict[Any, list[int]] = {}
        for row, group in enumerate(groups):
            mine.setdefault(group, []).append(row)
        changes: list[Change] = []
        for group, numbers in mine.items():
            if group not in self.engines:
                self.engines[group] = self._make()
            changes += self.engines[group].feed(batch.take(np.array(numbers)))
        return self._numbered(changes)

    def advance(self, by: Duration | Mapping[Any, Duration]) -> ChangeBatch:
        """Time passes for all keys, or for some of them."""
        passed = by if isinstance(by, Mapping) else dict.fromkeys(self.engines, by)
        every = (self.engines[key].advance(time) for key, time in passed.items())
        return self._numbered([change for changes in every for change in changes])

    def finish(self, *, advance: bool) -> ChangeBatch:
        every = (engine.finish(advance=advance) for engine in self.engines.values())
        return self._numbered([change for changes in every for change in changes])

    def resume(self, kept: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.seq = kept["seq"]
        for key, checkpoint in kept["parts"]:
            self.engines[key] = self._make()
            self.engines[key].restore(checkpoint)

    def _numbered(self, changes: list[Change]) -> ChangeBatch:
        numbered = []
        for change in changes:
            self.seq += 1
            numbered.append(msgspec.structs.replace(change, seq=self.seq))
        return ChangeBatch(numbered)
