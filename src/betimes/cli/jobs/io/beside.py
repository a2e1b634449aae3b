"""Files of several sources, read side by side: the order in which their rows would have come.

If each machine writes its own file, reading one file after the other would make all but the first
late by as much as they cover. So the files are merged: each row comes when its own file has got as
far as its time, the largest so far, or its `arrival` if the job names one. Within a file, rows
keep their order, and with it their delays. The merged order does not depend on how files are read.
A time far ahead of its file (`max_skew`) is doubted as the engine doubts it: the row comes with the
ones before it, and the rest of the file when it would have come without it.

A file is opened when it is its turn, so a folder with a file per day is read day by day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine import CheckpointError
from betimes.model import times
from betimes.ordering.kernel import CONFIRM

Keys = npt.NDArray[Any]

NO_TIME = int(np.iinfo(np.int64).min)
"""The key of a row whose time cannot be read."""


class Reach:
    """How far a file has got, row by row: the largest key so far that is not in doubt.

    As in an ordering unit, a time more than `skew` ahead is doubted, and the third such time in a
    row is believed; so is the first time of all, unless the next three are as far behind it. Keys
    that are no times are all believed: `skew` is None.
    """

    def __init__(self, skew: int | None) -> None:
        self._skew = skew
        self._top: Any = None
        self._doubted = 0

    def of(self, keys: Keys) -> Keys:
        """How far the file has got with each of these rows, which follow those before."""
        if not len(keys):
            return keys
        top = keys[0] if self._top is None else self._top
        reach = np.maximum.accumulate(np.maximum(keys, top))
        if self._skew is not None and self._may_leap(keys, reach, self._skew):
            reach = np.fromiter(self._doubting(keys.tolist(), self._skew), np.int64)
        else:
            self._doubted = 0
        self._top = reach[-1]
        return reach

    def _may_leap(self, keys: Keys, reach: Keys, skew: int) -> bool:
        if self._top is None:
            return float(keys[0]) - float(keys[: CONFIRM + 1].min()) > skew or _leaps(reach, skew)
        return _leaps(np.append(self._top, reach), skew)

    def _doubting(self, keys: list[int], skew: int) -> Iterator[int]:
        top = NO_TIME if self._top is None else int(self._top)
        for row, key in enumerate(keys):
            if top == NO_TIME:
                after = keys[row + 1 : row + 1 + CONFIRM]
                behind = [other for other in after if NO_TIME < other < key - skew]
                doubtful = len(behind) == CONFIRM
            else:
                doubtful = key - top > skew and self._doubted < CONFIRM - 1
                self._doubted = self._doubted + 1 if doubtful else 0
            top = top if doubtful else max(top, key)
            yield top


def _leaps(reach: Keys, skew: int) -> bool:
    """Whether it ever grows by more than this; as floats, because integers would overflow."""
    return len(reach) > 1 and bool(np.diff(reach.astype(float)).max() > skew)


class Part:
    """One file: rows that are read, and not merged yet."""

    def __init__(
        self, name: str, done: int, rows: Iterator[tuple[pa.Table, Keys]], skew: int | None = None
    ) -> None:
        self.name = name
        self._rows = rows
        self._skip = done
        """How many rows are still to be left out, because they were merged before."""
        self._reach = Reach(skew)
        self.ended = False
        self.table: pa.Table | None = None
        self.keys: Keys = np.empty(0)

    def read(self) -> None:
        """Read some more rows."""
        table, keys = next(self._rows, (None, None))
        if table is None or keys is None:
            self.ended = True
            if self._skip:
                raise CheckpointError(
                    f"{self.name} has {self._skip} rows fewer than were read from it before the "
                    "stop; restore the file, or start over with --fresh"
                )
            return
        keys = self._reach.of(keys)
        skip = min(self._skip, len(table))
        self._skip -= skip
        table, keys = table.slice(skip), keys[skip:]
        if self.table is None or not len(self.keys):
            self.table, self.keys = table, keys
        else:
            self.table = pa.concat_tables([self.table, table])
            self.keys = np.concatenate([self.keys, keys])

    def take(self, count: int) -> tuple[pa.Table, Keys]:
        """The next rows and their keys."""
        assert self.table is not None
        taken = self.table.slice(0, count), self.keys[:count]
        self.table, self.keys = self.table.slice(count), self.keys[count:]
        return taken


def merged(
    names: list[str], first: Callable[[str], Any], open_: Callable[[str], Part]
) -> Iterator[tuple[pa.Table, list[str]]]:
    """The rows of files, merged, some at a time; with the name of the file of each row.

    `first` looks up the key with which a file begins, None if it is empty.
    """
    begins = {name: first(name) for name in names}
    closed = sorted((name for name in names if begins[name] is not None), key=begins.__getitem__)
    closed.reverse()
    parts: list[Part] = []
    while parts or closed:
        for part in parts:
            while not (part.ended or len(part.keys)):
                part.read()
        parts = sorted((part for part in parts if len(part.keys)), key=lambda part: part.name)
        # Up to here all rows are known: those that are still to be read come later.
        ends = [part.keys[-1] for part in parts if not part.ended]
        limit = min(ends, default=None)
        if closed and (not parts or limit is None or begins[closed[-1]] <= limit):
            parts.append(open_(closed.pop()))
            continue
        counts = [
            len(part.keys) if limit is None else int(np.searchsorted(part.keys, limit))
            for part in parts
        ]
        if not any(counts):
            for part in parts:
                if not part.ended and part.keys[-1] == limit:
                    part.read()
            continue
        taken = [part.take(count) for part, count in zip(parts, counts, strict=True)]
        order = np.argsort(np.concatenate([keys for _, keys in taken]), kind="stable")
        of = np.repeat(np.arange(len(parts)), counts)[order].tolist()
        yield pa.concat_tables([rows for rows, _ in taken]).take(order), [parts[n].name for n in of]


def keys_of(rows: pa.Table, time: str, arrival: str | None, unit: str | None) -> Keys:
    """What rows are merged by. Rows that have none come with the ones before them."""
    if arrival is None:
        ts, rejected = times.from_arrow(rows[time], time, unit)
        keys: Keys = ts.copy()
        keys[[bad.row for bad in rejected]] = NO_TIME
        return keys
    import pyarrow.compute as pc  # slow to load

    column = rows[arrival]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    lowest: Any = ""
    if pa.types.is_floating(column.type):
        column, lowest = column.cast(pa.float64()), -np.inf
        # NaN is neither before nor after anything, so merging would never get past it.
        column = pc.if_else(pc.is_nan(column), None, column)
    elif pa.types.is_integer(column.type):
        lowest = np.iinfo(str(column.type)).min
    return np.asarray(column.fill_null(lowest).to_numpy())
