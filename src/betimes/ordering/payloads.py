"""The payloads of buffered events. The compiled loop handles numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.batch import Payload

Ints = npt.NDArray[np.int64]

_CHUNKS = 16


class Payloads:
    """Payloads by row number: dictionaries row by row, Arrow columns as the tables they came in."""

    def __init__(self) -> None:
        self.used = False
        """Whether there ever were any."""
        self._rows: dict[int, dict[str, Any]] = {}
        self._numbers: Ints = np.empty(0, np.int64)
        self._table: pa.Table | None = None
        self._chunks = 0

    def put(self, first: int, payload: Payload | None, wanted: Ints) -> None:
        """Keep the payloads of a batch whose first row has the number `first`.

        Dictionaries are kept only for the `wanted` rows; a table is kept whole until `tidy`.
        """
        self.used = True
        if isinstance(payload, pa.Table):
            if payload.num_columns and payload.num_rows:
                numbers = np.arange(first, first + payload.num_rows)
                self._numbers = np.concatenate([self._numbers, numbers])
                self._append(payload)
        elif payload is not None:
            rows = wanted.tolist()
            if len(rows) == len(payload):
                self._rows.update(zip(range(first, first + len(rows)), payload, strict=True))
            else:
                for row in rows:
                    self._rows[first + row] = payload[row]

    def put_one(self, row: int, payload: dict[str, Any]) -> None:
        """Keep the payload of a single event."""
        self.used = True
        self._rows[row] = payload

    def _append(self, table: pa.Table) -> None:
        if self._table is None:
            self._table = table
            self._chunks = _CHUNKS
        else:
            self._table = pa.concat_tables([self._table, table], promote_options="permissive")
            self._chunks += 1
        if self._chunks >= _CHUNKS:
            self._table = self._table.combine_chunks()
            self._chunks = 1

    def take(self, rows: Ints) -> Payload | None:
        """The payloads of these rows, in this order."""
        if not len(rows):
            return None
        if self._table is None:
            return [self._rows.get(row, {}) for row in rows.tolist()] if self._rows else None
        at = np.searchsorted(self._numbers, rows)
        at[at == len(self._numbers)] = 0
        found = self._numbers[at] == rows
        if found.all():
            return self._table.take(at)
        mixed = [self._rows.get(row, {}) for row in rows.tolist()]
        mine = np.flatnonzero(found)
        part = self._table.take(at[mine])
        for row, payload in zip(mine.tolist(), part.to_pylist(), strict=True):
            mixed[row] = payload
        return mixed

    def forget(self, rows: Ints) -> None:
        """Drop the dictionaries of rows that nobody will ask for again."""
        if self._rows:
            known = self._rows
            for row in rows.tolist():
                known.pop(row, None)

    @property
    def has_tables(self) -> bool:
        return self._table is not None

    def tidy(self, held: Ints) -> None:
        """Drop table rows that are no longer held, once they far outnumber those that are."""
        if self._table is None or len(self._numbers) <= 4 * len(held) + 4096:
            return
        mine = np.flatnonzero(np.isin(self._numbers, held, assume_unique=True))
        self._numbers = self._numbers[mine]
        self._table = self._table.take(mine) if len(mine) else None
        self._chunks = _CHUNKS
