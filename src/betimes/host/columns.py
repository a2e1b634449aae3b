"""Which columns of a table say when, what and in which order; and rows that are not events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from betimes.model import EventBatch, times
from betimes.model.event import OWN, RESERVED
from betimes.model.identity import Facts
from betimes.model.rows import plain


class BadRow(NamedTuple):
    """A row of the input that is not a valid event, and its time, as far as that is valid."""

    reason: str
    row: dict[str, Any]
    ts: int | None = None


@dataclass(frozen=True)
class Columns:
    """The names of the columns that every event has."""

    time: str = "ts"
    type: str = "type"
    arrival: str | None = None
    """The column that gives the order of arrival; None if the rows are in that order."""

    def sift(
        self, table: pa.Table, unit: str | None = None, *, source: str | None = None
    ) -> tuple[EventBatch, list[BadRow]]:
        """The events of a table in order of arrival, and the rows that are not valid events.

        `unit` is what numbers in the column of times count. With `source`, events must have a value
        in this column.

        >>> events, bad = Columns(time="at").sift(pa.table({"at": [1, None], "type": ["A", "B"]}))
        >>> len(events), bad
        (1, [BadRow(reason='the time is missing', row={'at': None, 'type': 'B'}, ts=None)])
        """
        rows = plain(table)
        if self.time in rows.column_names and pa.types.is_timestamp(table[self.time].type):
            unit = None  # they have become microseconds
        found: list[tuple[str, dict[str, Any]]] = []
        if source is not None and source in rows.column_names and rows[source].null_count:
            nowhere = rows.filter(rows[source].is_null()).to_pylist()
            found += [("the source is missing", row) for row in nowhere]
            rows = rows.filter(rows[source].is_valid())
        batch, rejected = EventBatch.sift_arrow(
            rows, time=self.time, type=self.type, arrival=self.arrival, unit=unit
        )
        found += [(bad.reason, rows.slice(bad.row, 1).to_pylist()[0]) for bad in rejected]
        bad = [
            BadRow(reason, _theirs(row), times.of(row[self.time], unit)) for reason, row in found
        ]
        if self.arrival is not None and self.arrival.startswith(OWN):
            assert isinstance(batch.payload, pa.Table)
            batch.payload = batch.payload.drop_columns([self.arrival])
        if not RESERVED.isdisjoint(batch.types):
            own = np.array([name in RESERVED for name in batch.types])[batch.codes]
            for event in batch.take(np.flatnonzero(own)):
                row = {self.time: event.ts, self.type: event.type, **event.payload}
                bad.append(BadRow("the type is one of betimes' own", row, event.ts))
            batch = batch.take(np.flatnonzero(~own))
        return batch, bad

    def facts(self) -> Facts:
        """What a stored state depends on."""
        return {
            "time": self.time,
            "type": self.type,
            "arrival": self.arrival or "order of the rows",
        }


def _theirs(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the columns that betimes has added."""
    return {name: value for name, value in row.items() if not name.startswith(OWN)}
