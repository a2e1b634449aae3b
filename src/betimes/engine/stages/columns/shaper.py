"""Payloads of the matches of compiled patterns, one by one or many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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
        self._everything = pattern.select is None
        self._selected = pattern.selected_columns() or {}

    def payloads(self, bound: list[EventBatch]) -> list[dict[str, Any]] | pa.Table:
        """The payloads of matches, from the events of each step."""
        table = self._table(bound)
        if table is not None:
            return table
        return [*map(self.payload, zip(*(batch.rows() for batch in bound), strict=True))]

    def payload(self, events: Sequence[Event]) -> dict[str, Any]:
        """The payload of one match, from the event of each step."""
        names = self._names or [self._program.name(at, event) for at, event in enumerate(events)]
        return self._shape([*zip(names, events, strict=True)], events[-1].ts)

    def _table(self, bound: list[EventBatch]) -> pa.Table | None:
        """Columns, if the events have them, and nothing has to be computed."""
        if self._names is None or not all(isinstance(each.payload, pa.Table) for each in bound):
            return None
        columns: dict[str, Any] = {}
        if self._everything:
            for step, batch in zip(self._names, bound, strict=True):
                columns[f"{step}.ts"] = pa.array(batch.ts)
                assert isinstance(batch.payload, pa.Table)
                for column in batch.payload.column_names:
                    if column != "ts":
                        columns[f"{step}.{column}"] = batch.payload[column]
            return pa.table(columns)
        by_name = dict(zip(self._names, bound, strict=True))
        for name, (step, column) in self._selected.items():
            found = _column(by_name[step], column)
            if found is None:
                return None
            columns[name] = found
        return pa.table(columns) if columns else None


def _column(batch: EventBatch, name: str) -> Any:
    """A column whose values an expression would not change; None if there is no such column."""
    if name == "ts":
        return pa.array(batch.ts)
    assert isinstance(batch.payload, pa.Table)
    if name not in batch.payload.column_names:
        return None
    column = batch.payload[name]
    kind = column.type
    if pa.types.is_floating(kind):
        # In expressions, NaN is null; in an array, null is NaN.
        return None if np.isnan(column.to_numpy()).any() else column
    plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind)
    return column if plain else None
