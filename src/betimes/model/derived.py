"""What a per-batch detector returns, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.model.errors import EventError
from betimes.model.event import Event
from betimes.model.hints import known_options

Ints = npt.NDArray[np.int64]


@known_options
class Derived:
    """Events of one type that `on_batch` made, each with the row of the batch that completed it.

    `rows` says which row of the slice completed each event; it must not decrease. An event then
    counts as made when that row was handed over, however the stream was cut into slices. Without
    `ts`, each event has the time of its row. `payload` maps column names to arrays or lists.

    >>> made = Derived("peak", rows=[0, 2], ts=[5, 9], payload={"a": np.array([60.0, 70.5])})
    >>> made.events(np.array([5, 7, 9]))
    [Event(type='peak', ts=5, payload={'a': 60.0}), Event(type='peak', ts=9, payload={'a': 70.5})]
    """

    __slots__ = ("payload", "rows", "ts", "type")

    def __init__(
        self,
        type: str,
        *,
        rows: npt.ArrayLike,
        ts: npt.ArrayLike | None = None,
        payload: Mapping[str, npt.NDArray[Any] | Sequence[Any]] | None = None,
    ) -> None:
        self.type = type
        self.rows: Ints = np.asarray(rows, np.int64)
        self.ts: Ints | None = None if ts is None else np.asarray(ts, np.int64)
        self.payload = dict(payload or {})
        for name, column in (("ts", self.ts), *self.payload.items()):
            if column is not None and len(column) != len(self.rows):
                raise EventError(
                    f"expected {len(self.rows)} values in {name!r}, one per row, got "
                    f"{len(column)} for {type!r} events"
                )
        if len(self.rows) and (self.rows[0] < 0 or (np.diff(self.rows) < 0).any()):
            raise EventError(
                f"expected the rows of {type!r} events to be 0 or more and in ascending order, got "
                f"rows={self.rows}"
            )

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Derived({len(self)} {self.type!r} with {', '.join(self.payload) or 'no payload'})"

    def events(self, times: Ints) -> list[Event]:
        """The events, one by one; `times` are the times of the slice they were made from."""
        if len(self.rows) and self.rows[-1] >= len(times):
            raise EventError(
                f"expected the rows of {self.type!r} events to be rows of the batch, which has "
                f"{len(times)}, got row {self.rows[-1]}"
            )
        ts = (times[self.rows] if self.ts is None else self.ts).tolist()
        columns = [_values(column) for column in self.payload.values()]
        if not columns:
            return [Event(self.type, time) for time in ts]
        names = tuple(self.payload)
        rows = zip(*columns, strict=True)
        return [
            Event(self.type, time, dict(zip(names, row, strict=True)))
            for time, row in zip(ts, rows, strict=True)
        ]


def _values(column: npt.NDArray[Any] | Sequence[Any]) -> Sequence[Any]:
    values: Sequence[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values
