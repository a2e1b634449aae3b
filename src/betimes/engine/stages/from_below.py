"""Outputs of other stages that wait at a stage: which rows they are, and where they belong."""

from __future__ import annotations

from typing import Any

from betimes.engine.news.outputs import Outputs, Place
from betimes.engine.stages.tactic import Ints
from betimes.model.stored import Int, shaped

Made = tuple[str, Place]
"""The identity of an output of another stage, and its place."""


class FromBelow:
    """Outputs of other stages, by the unit's row number, until they are handed out."""

    def __init__(self) -> None:
        self._waiting: dict[int, Made] = {}
        self._rows: dict[str, int] = {}
        """Their rows, by identity."""

    def put(self, rows: Ints, outputs: Outputs) -> None:
        """Outputs arrive at these rows."""
        numbers = rows.tolist()
        self._waiting.update(
            zip(numbers, zip(outputs.ids, outputs.places, strict=True), strict=True)
        )
        self._rows.update(zip(outputs.ids, numbers, strict=True))

    def hand_out(self, rows: Ints) -> dict[int, Made]:
        """These rows are handed out: which of them are outputs."""
        found: dict[int, Made] = {}
        if self._waiting:
            for index, row in enumerate(rows.tolist()):
                made = self._waiting.pop(row, None)
                if made is not None:
                    found[index] = made
                    del self._rows[made[0]]
        return found

    def withdraw(self, match: str) -> int | None:
        """An output was taken back: its row, if it waits."""
        row = self._rows.pop(match, None)
        if row is not None:
            del self._waiting[row]
        return row

    def state_of(self) -> dict[int, Made]:
        """Everything needed to resume elsewhere."""
        return self._waiting

    def resume(self, kept: Any) -> None:
        """Resume from what `state_of` kept."""
        what = "what waits from other stages"
        self._waiting = shaped(kept, dict[Int, tuple[str, Place]], what)
        self._rows = {match: row for row, (match, _) in self._waiting.items()}
