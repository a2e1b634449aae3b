"""What a stage of columns knows of its events: payloads, and which came from other stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from betimes.engine.news.outputs import Outputs
from betimes.engine.stages.columns.shelves import SHELVES
from betimes.engine.stages.columns.store import Store
from betimes.engine.stages.from_below import Made
from betimes.engine.stages.tactic import Ints
from betimes.model.batch import EventBatch
from betimes.model.volumes import VolumeReader, VolumeWriter


class Known(Store):
    """Events by number; those that other stages made, with their identities and places."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = False
        """Whether there may be outputs of other stages among the events."""
        self._made: dict[int, Made] = {}
        self._numbers: dict[str, int] = {}
        """Their numbers, by identity."""

    def derived(self, number: int) -> Made | None:
        """If another stage made it: the identity of the output, and its place."""
        return self._made.get(number)

    def hear(self, outputs: Outputs, numbers: Ints, which: Ints) -> None:
        """Outputs of other stages arrive; some of them concern the pattern and have numbers."""
        self.mixed = True
        ids, places = outputs.ids, outputs.places
        for number, n in zip(numbers.tolist(), which.tolist(), strict=True):
            self._made[number] = ids[n], places[n]
            self._numbers[ids[n]] = number

    def withdraw(self, match: str) -> int | None:
        """An output was taken back: its number, if it concerns the pattern."""
        number = self._numbers.pop(match, None)
        if number is not None:
            del self._made[number]
            self._old.touch(number // SHELVES)
        return number

    def forget(self, before: int, bound: Ints) -> None:
        super().forget(before, bound)
        for number in [number for number in self._made if number < before]:
            match, _ = self._made.pop(number)
            if self._numbers.get(match) == number:
                del self._numbers[match]

    def state_of(self, volumes: VolumeWriter, what: str) -> dict[str, Any]:
        return super().state_of(volumes, what) | {"mixed": self.mixed}

    def _cut(self) -> Callable[[int, int], Any]:
        cut, known = super()._cut(), np.array(sorted(self._made), np.int64)

        def with_made(low: int, high: int) -> Any:
            first, end = known.searchsorted((low * SHELVES, high * SHELVES))
            return cut(low, high), {n: self._made[n] for n in known[first:end].tolist()}

        return with_made

    def resume(self, kept: dict[str, Any], volumes: VolumeReader, what: str) -> None:
        super().resume(kept, volumes, what)
        self.mixed = kept["mixed"]
        self._numbers = {match: number for number, (match, _) in self._made.items()}

    def _read(self, chunks: Any) -> Iterator[tuple[int, Ints, EventBatch]]:
        events, made = chunks
        self._made |= made
        return super()._read(events)
