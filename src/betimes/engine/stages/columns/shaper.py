"""Payloads of the matches of compiled patterns, many at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.patterns import Pattern
from betimes.patterns.compiled import Program


class Shaper:
    """Makes payloads from the events bound to each step."""

    def __init__(self, pattern: Pattern, program: Program) -> None:
        _, self._shape = pattern.shapes()["match"]
        self._program = program
        self._plain = pattern.select is None and all(len(step.takes) == 1 for step in program.steps)

    def payloads(self, bound: list[EventBatch]) -> list[dict[str, Any]] | pa.Table:
        """The payloads of matches, from the events of each step."""
        if self._plain and all(isinstance(batch.payload, pa.Table) for batch in bound):
            columns: dict[str, Any] = {}
            for step, batch in zip(self._program.steps, bound, strict=True):
                columns[f"{step.name}.ts"] = pa.array(batch.ts)
                assert isinstance(batch.payload, pa.Table)
                for column in batch.payload.column_names:
                    if column != "ts":
                        columns[f"{step.name}.{column}"] = batch.payload[column]
            return pa.table(columns)
        rows = zip(*(self._named(at, batch) for at, batch in enumerate(bound)), strict=True)
        return [self._shape(pairs, pairs[-1][1].ts) for pairs in rows]

    def _named(self, at: int, batch: EventBatch) -> list[tuple[str, Event]]:
        """The events bound to a step, each with the name of the alternative that it matches."""
        return list(zip(self._program.names(at, batch), batch.rows(), strict=True))
