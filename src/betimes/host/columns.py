"""Which columns of a table say when, what and in which order; and rows that are not events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model import EventBatch, Rejected, times
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
        reasons: dict[int, str] = {}
        good = np.arange(len(rows))
        if source is not None and source in rows.column_names and rows[source].null_count:
            there = np.asarray(rows[source].is_valid())
            reasons |= dict.fromkeys(good[~there].tolist(), "the source is missing")
            good = good[there]
        batch, rejected = self._sifted(rows, good, unit)
        if not RESERVED.isdisjoint(batch.types):
            names = rows[self.type].take(good).to_pylist()
            own = np.array([name in RESERVED for name in names])
            reasons |= dict.fromkeys(good[own].tolist(), "the type is one of betimes' own")
            good = good[~own]
            batch, rejected = self._sifted(rows, good, unit)
        reasons |= {int(good[bad.row]): bad.reason for bad in rejected}
        bad = []
        for number, reason in sorted(reasons.items()):
            (row,) = rows.slice(number, 1).to_pylist()
            bad.append(BadRow(reason, _theirs(row), times.of(row[self.time], unit)))
        if self.arrival is not None and self.arrival.startswith(OWN):
            assert isinstance(batch.payload, pa.Table)
            batch.payload = batch.payload.drop_columns([self.arrival])
        return batch, bad

    def _sifted(
        self, rows: pa.Table, good: npt.NDArray[np.intp], unit: str | None
    ) -> tuple[EventBatch, list[Rejected]]:
        """The events of these rows, and those that are none."""
        if len(good) < len(rows):
            rows = rows.take(good)
        return EventBatch.sift_arrow(
            rows, time=self.time, type=self.type, arrival=self.arrival, unit=unit
        )

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
