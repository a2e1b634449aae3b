"""Where the payloads of buffered events wait. The compiled loop moves numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.batch import Payload

Ints = npt.NDArray[np.int64]


class Payloads:
    """Payloads by row number: dictionaries one by one, Arrow columns as the tables they came in."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}
        self._tables: list[tuple[Ints, pa.Table]] = []
        self._held = 0

    def put(self, first: int, payload: Payload | None, wanted: Ints) -> None:
        """Keep the payloads of a batch; its first row has the number `first`.

        Of dictionaries only the `wanted` ones are kept; a table is kept whole, for a while.
        """
        if isinstance(payload, pa.Table):
            if payload.num_columns and payload.num_rows:
                self._tables.append((np.arange(first, first + payload.num_rows), payload))
                self._held += payload.num_rows
        elif payload is not None:
            for row in wanted.tolist():
                self._rows[first + row] = payload[row]

    def take(self, rows: Ints) -> Payload | None:
        """The payloads of these rows, in this order."""
        if not len(rows):
            return None
        if self._rows and not self._tables:
            return [self._rows.get(row, {}) for row in rows.tolist()]
        if not self._tables:
            return None
        parts, where = [], []
        for numbers, table in self._tables:
            at = np.searchsorted(numbers, rows)
            at[at == len(numbers)] = 0
            mine = np.flatnonzero(numbers[at] == rows)
            if len(mine):
                parts.append(table.take(at[mine]))
                where.append(mine)
        if len(parts) == 1 and len(where[0]) == len(rows):
            return parts[0]
        found = np.concatenate(where) if where else np.empty(0, np.intp)
        if len(found) == len(rows):
            whole = pa.concat_tables(parts, promote_options="permissive")
            return whole.take(np.argsort(found))
        mixed = [self._rows.get(row, {}) for row in rows.tolist()]
        for part, at in zip(parts, where, strict=True):
            for row, payload in zip(at.tolist(), part.to_pylist(), strict=True):
                mixed[row] = payload
        return mixed

    def forget(self, rows: Ints) -> None:
        """Drop the dictionaries of rows that will not be asked for again."""
        if self._rows:
            for row in rows.tolist():
                self._rows.pop(row, None)

    def tidy(self, held: Ints) -> None:
        """Drop rows of tables that are not held any more, once they outnumber the held by far."""
        if self._held <= 4 * len(held) + 4096:
            return
        needed, kept = np.sort(held), []
        for numbers, table in self._tables:
            mine = np.flatnonzero(np.isin(numbers, needed, assume_unique=True))
            if len(mine):
                kept.append((numbers[mine], table.take(mine)))
        self._tables = kept
        self._held = sum(len(numbers) for numbers, _ in kept)
