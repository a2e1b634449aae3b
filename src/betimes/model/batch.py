"""A batch of events as columns, in the order in which they arrived.

Everything inside betimes moves in batches. A batch has two NumPy columns that every part reads
(`ts` and the dictionary-coded `type`) and a payload. Only detectors read the payload, so it stays
as it came: rows of Python dictionaries if you feed events, Arrow columns if you feed a table. It is
not converted until someone asks for the other form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model import times
from betimes.model.errors import EventError
from betimes.model.event import Event
from betimes.model.hints import did_you_mean, known_options
from betimes.model.rows import as_arrow, decoded
from betimes.model.sifting import encode, faults, missing, one_a_row, plain_text
from betimes.model.times import Rejected

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Payload = Sequence[dict[str, Any]] | pa.Table

_SHOWN = 5
"""How many types `repr` lists."""


class EventBatch:
    """Events as columns: `ts` (int64 microseconds), `codes` into `types`, `payload`.

    >>> batch = EventBatch.from_rows([Event("A", 3, {"v": 1}), Event("B", 1, {"w": 2})])
    >>> len(batch), batch.ts.tolist(), batch[1]
    (2, [3, 1], Event(type='B', ts=1, payload={'w': 2}))
    >>> batch.to_arrow().to_pydict()
    {'ts': [3, 1], 'type': ['A', 'B'], 'v': [1, None], 'w': [None, 2]}
    >>> batch
    EventBatch(2 events: A, B)
    """

    __slots__ = ("_arrays", "codes", "head_start", "payload", "source", "ts", "types")

    def __init__(
        self,
        ts: Ints,
        codes: Codes,
        types: tuple[str, ...],
        payload: Payload | None = None,
        *,
        head_start: Ints | None = None,
        source: Ints | None = None,
    ) -> None:
        self.ts = ts
        self.codes = codes
        self.types = types
        self.payload = payload
        self.head_start = head_start
        """How much earlier than in settled order each event was made (0 for input events). This is
        the paper's K+; the unit above adds it to the measured delay."""
        self.source = source
        """The number of the source that each event comes from (0 for none), if they are told
        apart."""
        self._arrays: tuple[pa.Table, EventBatch | None] | None = None

    @classmethod
    @known_options
    def from_rows(cls, events: Iterable[Event], *, unit: str | None = None) -> EventBatch:
        """Build a batch from events; a bad time is an `EventError` that names the event."""
        batch, rejected = cls.sift_rows(events, unit=unit)
        times.refuse(rejected, unit)
        return batch

    @classmethod
    @known_options
    def sift_rows(
        cls, events: Iterable[Event], *, unit: str | None = None
    ) -> tuple[EventBatch, list[Rejected]]:
        """Like `from_rows`, but returns bad events alongside the batch instead of raising."""
        rows = events if isinstance(events, list) else list(events)
        for row, event in enumerate(rows):
            if type(event) is not Event:
                raise EventError(
                    f"expected Event objects, got {event!r} (a {type(event).__name__}) at row "
                    f"{row}; build events with Event(type, ts, payload) or feed an Arrow table"
                )
        ts, rejected = times.from_values([event.ts for event in rows], unit)
        names, payload = [event.type for event in rows], [event.payload for event in rows]
        rejected = one_a_row(rejected + faults(names, payload))
        if rejected:
            bad = {r.row for r in rejected}
            keep = [row for row in range(len(rows)) if row not in bad]
            ts, names = ts[keep], [names[row] for row in keep]
            payload = [payload[row] for row in keep]
        types = tuple(dict.fromkeys(names))
        number = {name: code for code, name in enumerate(types)}
        codes = np.array([number[name] for name in names], dtype=np.int32)
        return cls(ts, codes, types, payload if any(payload) else None), rejected

    @classmethod
    @known_options
    def from_arrow(
        cls,
        table: pa.Table | pa.RecordBatch,
        *,
        time: str = "ts",
        type: str = "type",
        arrival: str | None = None,
        unit: str | None = None,
    ) -> EventBatch:
        """Build a batch from Arrow columns; all columns except time and type become the payload.

        `arrival` names the column with the arrival order. Without it, rows are in arrival order.
        `unit` is what numbers in the time column count: "s", "ms", "us" or "ns", microseconds if
        you do not say. Timestamps know their unit; text is read as ISO 8601, in UTC if it has no
        zone.

        >>> table = pa.table({"ts": [1.5, 2.0], "type": ["A", "B"]})
        >>> EventBatch.from_arrow(table, unit="s").ts.tolist()
        [1500000, 2000000]
        """
        times.check_unit(unit)
        batch, rejected = cls.sift_arrow(table, time=time, type=type, arrival=arrival, unit=unit)
        times.refuse(rejected, unit)
        return batch

    @classmethod
    @known_options
    def sift_arrow(
        cls,
        table: pa.Table | pa.RecordBatch,
        *,
        time: str = "ts",
        type: str = "type",
        arrival: str | None = None,
        unit: str | None = None,
    ) -> tuple[EventBatch, list[Rejected]]:
        """Like `from_arrow`, but returns bad rows alongside the batch instead of raising."""
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        table = decoded(table)
        for role, name in (("time", time), ("type", type), ("arrival", arrival)):
            if name is not None and name not in table.column_names:
                raise EventError(
                    f"expected a column {name!r} for the {role}, got the columns "
                    f"{table.column_names}{did_you_mean(name, table.column_names)}; rename it, or "
                    f"name it, as in EventBatch.from_arrow(table, {role}='...')"
                )
        names = plain_text(table[type], type)
        ts, rejected = times.from_arrow(table[time], time, unit)
        rejected += missing(names, "the type is missing")
        if arrival is not None:
            rejected += missing(table[arrival], "the arrival is missing")
        rejected = one_a_row(rejected)
        table = table.drop_columns([time, type])
        if rejected:
            keep = np.ones(len(ts), dtype=bool)
            keep[[r.row for r in rejected]] = False
            mask = pa.array(keep)
            ts, names, table = ts[keep], names.filter(mask), table.filter(mask)
        if arrival is not None and not _in_order(table[arrival]):
            import pyarrow.compute as pc  # slow to load, and streams mostly come in order

            order = pc.sort_indices(table[arrival])
            ts, names, table = ts[order.to_numpy()], names.take(order), table.take(order)
        codes, types = encode(names)
        return cls(ts, codes, types, table), rejected

    @classmethod
    @known_options
    def of(
        cls,
        events: EventBatch | pa.Table | pa.RecordBatch | Iterable[Event] | Event,
        *,
        unit: str | None = None,
    ) -> EventBatch:
        """Make a batch from events in any form that `feed` accepts.

        `unit` is what numbers count that stand for times; a batch has microseconds already.
        """
        if isinstance(events, EventBatch):
            return events
        if isinstance(events, Event):
            return cls._of_one(events) if unit is None else cls.from_rows([events], unit=unit)
        if isinstance(events, pa.Table | pa.RecordBatch):
            return cls.from_arrow(events, unit=unit)
        if hasattr(events, "__arrow_c_stream__"):
            return cls.from_arrow(as_arrow(events), unit=unit)
        if not isinstance(events, Iterable):
            raise EventError(
                "expected events as an EventBatch, a table (Arrow, pandas, polars), or Event "
                f"objects, got {events!r}"
            )
        return cls.from_rows(events, unit=unit)

    @classmethod
    def _of_one(cls, event: Event) -> EventBatch:
        """A single event: feeding events one by one must not cost as much as feeding a table."""
        ts, name, payload = event.ts, event.type, event.payload
        usual = type(ts) is int and type(name) is str and type(payload) is dict
        if usual and 0 <= ts <= times.LAST and name.isascii() and name:
            columns = np.array((ts,), np.int64), np.zeros(1, np.int32)
            return cls(*columns, (name,), [payload] if payload else None)
        return cls.from_rows([event])

    @classmethod
    def concat(cls, batches: Sequence[EventBatch], *, exact: bool = False) -> EventBatch:
        """Join batches that follow each other in arrival order.

        If they are tables with different columns, what is missing is null; with `exact`, events
        keep the columns that they had.
        """
        if len(batches) == 1:
            return batches[0]
        number: dict[str, int] = {}
        codes = []
        for batch in batches:
            table = [number.setdefault(name, len(number)) for name in batch.types]
            same = table == list(range(len(table)))
            codes.append(batch.codes if same else np.array(table, dtype=np.int32)[batch.codes])
        return cls(
            np.concatenate([b.ts for b in batches]) if batches else np.empty(0, np.int64),
            np.concatenate(codes) if batches else np.empty(0, np.int32),
            tuple(number),
            _concat_payload(batches, exact=exact),
            head_start=_concat_numbers(batches, [b.head_start for b in batches]),
            source=_concat_numbers(batches, [b.source for b in batches]),
        )

    def take(self, rows: npt.NDArray[np.intp] | Ints) -> EventBatch:
        """The given rows, in the given order."""
        payload = self.payload
        if isinstance(payload, pa.Table):
            payload = payload.take(rows)
        elif payload is not None:
            payload = pick(payload, rows.tolist())
        head = None if self.head_start is None else self.head_start.take(rows)
        source = None if self.source is None else self.source.take(rows)
        ts, codes = self.ts.take(rows), self.codes.take(rows)
        return EventBatch(ts, codes, self.types, payload, head_start=head, source=source)

    def part(self, start: int, stop: int) -> EventBatch:
        """Rows `start` to `stop`, without copying columns."""
        payload = self.payload
        if isinstance(payload, pa.Table):
            if (whole := self._in_arrays(payload)) is not None:
                return whole.part(start, stop)
            payload = payload.slice(start, stop - start)
        elif payload is not None:
            payload = payload[start:stop]
        head = None if self.head_start is None else self.head_start[start:stop]
        source = None if self.source is None else self.source[start:stop]
        ts, codes = self.ts[start:stop], self.codes[start:stop]
        return EventBatch(ts, codes, self.types, payload, head_start=head, source=source)

    def _in_arrays(self, payload: pa.Table) -> EventBatch | None:
        """The same with its payload as arrays, which are cut faster; None if that takes a copy."""
        if self._arrays is None or self._arrays[0] is not payload:
            from betimes.model.arrays import without_copy  # which is made of batches

            self._arrays = payload, without_copy(self, payload)
        return self._arrays[1]

    def without_payload(self) -> EventBatch:
        """Only the columns that ordering needs."""
        if self.payload is None:
            return self
        return EventBatch(
            self.ts, self.codes, self.types, head_start=self.head_start, source=self.source
        )

    def column(self, name: str) -> list[Any]:
        """One payload column as Python values; an `EventError` if there is no such column."""
        if isinstance(self.payload, pa.Table) and name in self.payload.column_names:
            return list(self.payload[name].to_pylist())
        if self.payload is not None and not isinstance(self.payload, pa.Table):
            missing = next((i for i, row in enumerate(self.payload) if name not in row), None)
            if missing is None:
                return [row[name] for row in self.payload]
            have = f"row {missing} has {sorted(self.payload[missing])}"
        else:
            names = [] if self.payload is None else self.payload.column_names
            have = f"the batch has {sorted(names)}"
        raise EventError(f"expected a payload column {name!r}, but {have}")

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """One payload column as an array of numbers; null is NaN."""
        if isinstance(self.payload, pa.Table):
            number = self.payload.schema.get_field_index(name)
            if number >= 0:
                return self.payload.column(number).to_numpy()
        return np.array(self.column(name))

    def to_arrow(self) -> pa.Table:
        """Columns `ts`, `type` and those of the payload; null where an event has no value."""
        names = pa.DictionaryArray.from_arrays(self.codes, pa.array(self.types, type=pa.string()))
        table = pa.table({"ts": pa.array(self.ts), "type": names.cast(pa.string())})
        payload = self.payload
        if payload is not None and not isinstance(payload, pa.Table):
            columns = dict.fromkeys(name for row in payload for name in row)
            payload = pa.table({name: _column(name, payload) for name in columns})
        if payload is not None:
            for name in payload.column_names:
                if name in ("ts", "type"):
                    raise EventError(
                        f"the payload has a column {name!r}, a name that is reserved for the event "
                        "itself; rename it in the payload"
                    )
                table = table.append_column(name, payload[name])
        return table

    def __len__(self) -> int:
        return len(self.ts)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.rows())

    def rows(self) -> list[Event]:
        """The events, one by one."""
        names, ts, payload = self.type_names(), self.ts.tolist(), self.payload
        if isinstance(payload, pa.Table):
            payload = payload.to_pylist() if payload.num_columns else None
        return [*map(Event, names, ts)] if payload is None else [*map(Event, names, ts, payload)]

    def type_names(self) -> list[str]:
        """The type of each event."""
        types = self.types
        if len(types) == 1:
            return [types[0]] * len(self)
        codes = self.codes
        if len(codes) > _SHOWN and (codes == codes[0]).all():
            return [types[int(codes[0])]] * len(self)
        names: list[str] = np.array(types, object)[codes].tolist()
        return names

    def rows_without_payload(self) -> list[Event]:
        """The events, one by one, with only their types and times."""
        return self.without_payload().rows()

    @overload
    def __getitem__(self, row: int) -> Event: ...
    @overload
    def __getitem__(self, row: slice) -> EventBatch: ...
    def __getitem__(self, row: int | slice) -> Event | EventBatch:
        if isinstance(row, slice):
            start, stop, step = row.indices(len(self))
            if step == 1:
                return self.part(start, max(start, stop))
            return self.take(np.arange(start, stop, step))
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} is outside a batch of {len(self)} events")
        row %= len(self)
        return next(iter(self.part(row, row + 1)))

    def __repr__(self) -> str:
        shown = ", ".join(self.types[:_SHOWN]) + (", ..." if len(self.types) > _SHOWN else "")
        events = "1 event" if len(self) == 1 else f"{len(self):,} events"
        return f"EventBatch({events}: {shown})" if len(self) else "EventBatch(empty)"


def pick(column: Sequence[Any] | dict[int, Any], rows: list[int]) -> list[Any]:
    """The values of a column in these rows, as fast as Python can."""
    if len(rows) < 2:
        return [column[row] for row in rows]
    return list(itemgetter(*rows)(column))


def _in_order(arrivals: pa.ChunkedArray[Any]) -> bool:
    """Whether the rows are already in order of arrival, as they usually are."""
    if not pa.types.is_integer(arrivals.type):
        return False
    numbers = arrivals.to_numpy()
    return bool((numbers[1:] >= numbers[:-1]).all())


def in_rows(batch: EventBatch, rows: Ints | None = None) -> EventBatch:
    """The same events, or some of them, with their payloads as dictionaries."""
    payload = batch.payload
    if not isinstance(payload, pa.Table):
        return batch if rows is None else batch.take(rows)
    bare = batch.without_payload()
    part = bare if rows is None else bare.take(rows)
    part.payload = _dictionaries(payload, rows) if payload.num_columns else None
    return part


def _dictionaries(table: pa.Table, rows: Ints | None) -> list[dict[str, Any]]:
    if rows is None:
        return table.to_pylist()
    columns = []
    for column in table.columns:
        kind = column.type
        if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            # Arrow's own `take` costs more than all of this if there are few rows.
            columns.append(column.to_numpy()[rows].tolist())
        else:
            columns.append([column[row].as_py() for row in rows.tolist()])
    names = table.column_names
    if len(names) == 1:
        return [{names[0]: value} for value in columns[0]]
    return [dict(zip(names, values)) for values in zip(*columns)]  # noqa: B905 - slow


def _column(name: str, rows: Sequence[dict[str, Any]]) -> pa.Array[Any]:
    try:
        column: pa.Array[Any] = pa.array([row.get(name) for row in rows])
        return column
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise EventError(
            f"the payload column {name!r} has values that do not fit one Arrow type ({error}); "
            "convert them to one type"
        ) from error


def _concat_numbers(batches: Sequence[EventBatch], columns: list[Ints | None]) -> Ints | None:
    """A column that only some batches have, with 0 where it is missing; None if all lack it."""
    if all(column is None for column in columns):
        return None
    return np.concatenate(
        [np.zeros(len(b), np.int64) if c is None else c
         for b, c in zip(batches, columns, strict=True)]
    )  # fmt: skip


def _concat_payload(batches: Sequence[EventBatch], *, exact: bool) -> Payload | None:
    payloads = [batch.payload for batch in batches]
    if all(payload is None for payload in payloads):
        return None
    tables = [payload for payload in payloads if isinstance(payload, pa.Table)]
    if len(tables) == len(payloads):
        alike = all(table.schema.equals(tables[0].schema) for table in tables[1:])
        if alike or not exact:
            try:
                return pa.concat_tables(tables, promote_options="none" if alike else "permissive")
            except (pa.ArrowTypeError, pa.ArrowInvalid):
                # A column has changed its type, or whole numbers are too large for floats; rows can
                # hold anything.
                pass
    rows: list[dict[str, Any]] = []
    for batch, payload in zip(batches, payloads, strict=True):
        if payload is None or (isinstance(payload, pa.Table) and not payload.num_columns):
            rows.extend({} for _ in range(len(batch)))
        else:
            rows.extend(payload.to_pylist() if isinstance(payload, pa.Table) else payload)
    return rows
