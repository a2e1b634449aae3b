"""Payloads of the matches of compiled patterns, many at once."""

from __future__ import annotations

from collections.abc import Sequence
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
        takes = [step.takes for step in program.steps]
        self._names = [each[0][0] for each in takes] if all(len(t) == 1 for t in takes) else None
        """The names of the steps; None if a step has alternatives."""
        self._plain = pattern.select is None and self._names is not None

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
        return [*map(self.payload, zip(*(batch.rows() for batch in bound), strict=True))]

    def payload(self, events: Sequence[Event]) -> dict[str, Any]:
        """The payload of one match, from the event of each step."""
        names = self._names or [self._program.name(at, event) for at, event in enumerate(events)]
        return self._shape([*zip(names, events, strict=True)], events[-1].ts)
