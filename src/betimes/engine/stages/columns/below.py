"""What a stage of columns knows of its events: payloads, and which came from other stages."""

from __future__ import annotations

from typing import Any

from betimes.engine.news.outputs import Output, Place
from betimes.engine.stages.columns.reader import Below
from betimes.engine.stages.columns.store import Store
from betimes.engine.stages.tactic import Ints


class Known(Store):
    """Events by number; those that other stages made, with their identities and places."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = False
        """Whether there may be outputs of other stages among the events."""
        self._made: dict[int, tuple[str, Place]] = {}
        self._numbers: dict[str, int] = {}
        """The numbers of outputs that concern the pattern, by identity."""
        self._waiting: dict[int, str] = {}
        """Outputs that have not been handed out, by the unit's row number."""
        self._rows: dict[str, int] = {}
        """Their rows, by identity."""

    def derived(self, number: int) -> tuple[str, Place] | None:
        """If another stage made it: the identity of the output, and its place."""
        return self._made.get(number)

    def hear(self, row: int, below: Below, numbers: Ints) -> None:
        """Outputs of other stages arrive; `numbers` are those of all that was found."""
        self.mixed = True
        ids, places = below.outputs.ids, below.outputs.places
        rows = (row + below.now).tolist()
        self._waiting.update(zip(rows, ids, strict=True))
        self._rows.update(zip(ids, rows, strict=True))
        for number, n in zip(numbers[below.found].tolist(), below.wanted.tolist(), strict=True):
            self._made[number] = ids[n], places[n]
            self._numbers[ids[n]] = number

    def hand_out(self, rows: Ints) -> None:
        """The unit hands these rows out."""
        for row in rows.tolist() if self._waiting else ():
            match = self._waiting.pop(row, None)
            if match is not None:
                del self._rows[match]

    def withdraw(self, output: Output) -> tuple[int | None, int | None]:
        """An output was taken back: its row if it waits, its number if it was handed out."""
        row, number = self._rows.pop(output.id, None), self._numbers.pop(output.id, None)
        if row is not None:
            del self._waiting[row]
        if number is not None:
            del self._made[number]
        return row, None if row is not None else number

    def forget(self, before: int, bound: Ints) -> None:
        super().forget(before, bound)
        gone = [number for number in self._made if number < before]
        for number in gone:
            match, _ = self._made.pop(number)
            if self._numbers.get(match) == number:
                del self._numbers[match]

    def state_of(self) -> dict[str, Any]:
        return super().state_of() | {"below": (self.mixed, self._made, self._waiting)}

    def resume(self, kept: dict[str, Any]) -> None:
        super().resume(kept)
        self.mixed, self._made, self._waiting = kept["below"]
        self._numbers = {match: number for number, (match, _) in self._made.items()}
        self._rows = {match: row for row, match in self._waiting.items()}
