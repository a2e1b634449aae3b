"""Payloads of the matches of compiled patterns, one by one or many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from betimes.engine.news.digests.few import FIELDS
from betimes.engine.stages.columns.shelves import COLUMNS, TS, TYPE, words_of
from betimes.engine.stages.tactic import Ints
from betimes.model.arrays import Arrays
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.patterns import Pattern
from betimes.patterns.compiled import Program
from betimes.patterns.payloads import Shape


class Plan(NamedTuple):
    """How to make matches of events whose columns are numbers."""

    names: tuple[str, ...]
    """The fields of a match."""
    fields: Ints
    """Where they are: the row of the word, times the number of steps, plus the step.

    The time and the type of the last event come first.
    """
    kinds: tuple[np.dtype[Any], ...]
    schema: pa.Schema
    exact: bool
    """Whether all fields are whole numbers that fit a word with a sign."""
    huge: bool
    """Whether some fields are whole numbers that do not."""

    def values(self, block: Ints) -> Ints:
        """The values of each field, as words."""
        return block.reshape(-1, block.shape[-1]).take(self.fields[FIELDS:], axis=0)

    def taken_apart(self, rows: Ints) -> tuple[list[int], list[int], list[dict[str, Any]]]:
        """The times, types and payloads of a few matches, from a row of words for each."""
        names, columns = self.names, rows.T.tolist()
        if not self.exact:
            for at, kind in enumerate(self.kinds, FIELDS):
                if kind.kind == "f":
                    columns[at] = rows[:, at].view(np.float64).tolist()
        times, types, *values = columns
        return times, types, [dict(zip(names, row)) for row in zip(*values)]  # noqa: B905 - slow

    def arrays(self, values: Ints) -> Arrays:
        """As columns."""
        return {
            name: column.view(words_of(kind)).astype(kind, copy=False)
            for name, column, kind in zip(self.names, values, self.kinds, strict=True)
        }


class Shaper:
    """Makes payloads from the events bound to each step."""

    def __init__(self, pattern: Pattern, program: Program, shape: Shape) -> None:
        """`shape` builds the payload of one match."""
        self._shape = shape
        self._program = program
        takes = [step.takes for step in program.steps]
        self._names = [each[0][0] for each in takes] if all(len(t) == 1 for t in takes) else None
        """The names of the steps; None if a step has alternatives."""
        self._everything = pattern.select is None
        self._selected = pattern.selected_columns() or {}
        self._planned: tuple[pa.Schema | None, Plan | None] = None, None
        """The columns of the events that came last, and the plan for them."""

    def payloads(self, bound: list[EventBatch]) -> list[dict[str, Any]] | pa.Table:
        """The payloads of matches, from the events of each step."""
        table = self._table(bound)
        if table is not None:
            return table
        return [*map(self.payload, zip(*(batch.rows() for batch in bound), strict=True))]

    def plan(self, schema: pa.Schema) -> Plan | None:
        """How to make matches of events that have these columns of numbers.

        None if that takes more than picking columns.
        """
        if schema is not self._planned[0]:
            self._planned = schema, self._plan(schema)
        return self._planned[1]

    def _plan(self, schema: pa.Schema) -> Plan | None:
        if self._names is None:
            return None
        rows = {name: COLUMNS + row for row, name in enumerate(schema.names)} | {"ts": TS}
        kinds = [pa.int64()] * COLUMNS + schema.types
        fields: dict[str, tuple[int, int]] = {}
        if self._everything:
            for at, step in enumerate(self._names):
                fields[f"{step}.ts"] = at, TS
                fields |= {f"{step}.{name}": (at, row) for name, row in rows.items()}
        for name, (step, column) in self._selected.items():
            at = self._names.index(step)
            # In expressions, NaN is null.
            if column not in rows or pa.types.is_floating(kinds[rows[column]]):
                return None
            fields[name] = at, rows[column]
        if not fields:
            return None
        of_field, steps = [kinds[row] for _, row in fields.values()], len(self._names)
        places = [(steps - 1, TS), (steps - 1, TYPE), *fields.values()]
        of_kind = tuple(np.dtype(kind.to_pandas_dtype()) for kind in of_field)
        return Plan(
            (*fields,),
            np.array([row * steps + at for at, row in places]),
            of_kind,
            pa.schema([*zip(fields, of_field, strict=True)]),
            exact=all(words_of(kind) is np.int64 for kind in of_kind),
            huge=any(words_of(kind) is np.uint64 for kind in of_kind),
        )

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
