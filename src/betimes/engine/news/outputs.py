"""Outputs: events that a detector made, with everything that changes and upper stages need.

They are rows or columns, as they were made, and become the other when somebody asks: what a Python
detector made stays rows until a reader wants columns, and the matches of a compiled pattern stay
columns until somebody wants a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import lt
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news import stored
from betimes.engine.news.digests.columns import spelled as spelled_digests
from betimes.engine.news.digests.columns import text_column, words_of
from betimes.engine.news.digests.kernel import Words
from betimes.model.batch import EventBatch
from betimes.model.coded import pick
from betimes.model.event import Event
from betimes.model.payloads import written

Ints = npt.NDArray[np.int64]

Place = tuple[int, int, Any]
"""The position of an event in the order: (ts, rank, tie).

Input events have rank 0 and their arrival number as tie. The rank of a derived event is the level
of its detector; its tie is the detector's name, the place of its cause and its number among the
cause's outputs (for a per-batch detector, the key comes before these). So events of the same time
have one order, whatever order they arrived in. A deadline comes before all events of its time, with
the rank `TIME`; its tie is the key.
"""
TIME = -1

TS, CAUSE, AT, DETECTED, SLACK, HEAD, COPY = range(7)
"""The rows of `Outputs.numbers`."""


class Output(msgspec.Struct, gc=False):
    """An event that a detector made. Nobody changes it once it was told."""

    id: str
    event: Event
    place: Place
    """Its place in the order of any stage that subscribes to it."""
    cause: Place
    """The place of the event that completed it, in the order of the stage that made it."""
    cause_type: str
    at: int
    """The arrival at which it was made."""
    detected_at: int
    slack: int
    head_start: int
    """How much earlier than settled order it was made: the paper's K+."""
    group: Any
    """The part of the stream that it belongs to, if the engine splits the stream."""
    key: Any
    """The key whose state made it."""
    copy: int
    """Its number among its equals, which share a digest."""

    @property
    def base(self) -> str:
        """The digest of its content."""
        return self.id[:24]

    @property
    def number(self) -> int:
        """Its number among the outputs of its cause."""
        number: int = self.place[2][-1]
        return number

    def numbers(self) -> tuple[int, ...]:
        """By the names above."""
        return (
            self.event.ts, self.cause[0], self.at, self.detected_at, self.slack, self.head_start,
            self.copy,
        )  # fmt: skip


Places = list[Place] | Callable[[], list[Place]]
"""Places, or how to find them out: most are never asked for."""


_Events = EventBatch | tuple[EventBatch, Ints] | Callable[[], EventBatch]
"""Events, some rows of a batch, or how to find them out: what is picked is often picked again."""


def spelled(places: Places) -> list[Place]:
    """The places themselves."""
    return places if isinstance(places, list) else places()


class Outputs(Sequence[Output]):
    """Outputs of one detector; nobody changes them."""

    __slots__ = (
        "_cause_types", "_causes", "_digests", "_events", "_groups", "_ids", "_keys", "_numbers",
        "_places", "_rows", "_ties",
    )  # fmt: skip

    def __init__(
        self,
        ids: list[str] | Words,
        numbers: Ints,
        events: _Events,
        places: Places,
        causes: Places,
        cause_types: Sequence[str],
        groups: list[Any] | None,
        keys: Sequence[Any] | Ints,
        ties: Ints | None = None,
    ) -> None:
        self._ids: list[str] | None = ids if isinstance(ids, list) else None
        self._digests: Words | None = None if isinstance(ids, list) else ids
        self._numbers: Ints | None = numbers
        self._events: _Events | None = events
        self._places: Places | None = places
        self._causes: Places | None = causes
        self._cause_types: Sequence[str] | None = cause_types
        self._groups = groups
        self._keys: Sequence[Any] | Ints | None = keys
        self._rows: list[Output] | None = None
        self._ties = ties

    @classmethod
    def of(cls, rows: list[Output], digests: Words | None = None) -> Outputs:
        """Outputs that were made one by one; perhaps with their digests."""
        self = cls.__new__(cls)
        self._rows, self._digests = rows, digests
        self._ids = self._numbers = self._events = self._places = self._causes = None
        self._cause_types = self._groups = self._keys = self._ties = None
        return self

    # Rows

    @property
    def rows(self) -> list[Output]:
        """One by one."""
        if self._rows is None:
            numbers = self.numbers.tolist()
            groups = [None] * len(self) if self.groups is None else self.groups
            keys = self.keys.tolist() if isinstance(self.keys, np.ndarray) else self.keys
            self._rows = [*map(
                Output, self.ids, self.events.rows(), self.places, self.causes, self.cause_types,
                *numbers[AT:COPY], groups, keys, numbers[COPY],
            )]  # fmt: skip
        return self._rows

    def __len__(self) -> int:
        if self._rows is not None:
            return len(self._rows)
        assert self._numbers is not None
        return int(self._numbers.shape[1])

    def __iter__(self) -> Iterator[Output]:
        return iter(self.rows)

    def __getitem__(self, row: Any) -> Any:
        return self.pick(np.arange(len(self))[row]) if isinstance(row, slice) else self.rows[row]

    def __repr__(self) -> str:
        return f"Outputs({self.ids})"

    # Columns

    @property
    def ids(self) -> list[str]:
        if self._ids is None:
            if self._digests is None or self._rows is not None:
                self._ids = [row.id for row in self.rows]
            else:
                self._ids = self._spelled(self._digests)
        return self._ids

    def _spelled(self, digests: Words) -> list[str]:
        bases, copies = spelled_digests(digests), self.numbers[COPY]
        if not copies.any():
            return bases
        pairs = zip(bases, copies.tolist(), strict=True)
        return [f"{base}-{copy}" if copy else base for base, copy in pairs]

    @property
    def digests(self) -> Words:
        """The digests of their contents, as numbers."""
        if self._digests is None:
            self._digests = words_of(self.bases)
        return self._digests

    def id_column(self) -> list[str] | pa.Array[Any]:
        """Their identities for a table: if they were never spelled, without an object for any."""
        if self._ids is None and self._digests is not None and not self.numbers[COPY].any():
            return text_column(self._digests)
        return self.ids

    @property
    def numbers(self) -> Ints:
        """One row for each of the names above, TS to COPY."""
        if self._numbers is None:
            found = np.array([row.numbers() for row in self.rows], np.int64)
            self._numbers = found.reshape(-1, COPY + 1).T
        return self._numbers

    @property
    def events(self) -> EventBatch:
        """The events themselves."""
        events = self._events
        if events is None:
            events = EventBatch.from_rows([row.event for row in self.rows])
        elif isinstance(events, tuple):
            whole, rows = events
            events = whole.take(rows)
        elif not isinstance(events, EventBatch):
            events = events()
        self._events = events
        return events

    @property
    def types(self) -> tuple[str, ...]:
        """The types that their events may have."""
        return self.coded_types()[0]

    def coded_types(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        """The types that their events may have, and which of them each has."""
        if self._events is None:
            names = [row.event.type for row in self.rows]
            types = tuple(dict.fromkeys(names))
            return types, np.array([*map(types.index, names)], np.int32)
        if isinstance(self._events, tuple):
            whole, rows = self._events
            return whole.types, whole.codes.take(rows)
        return self.events.types, self.events.codes

    @property
    def places(self) -> list[Place]:
        if self._places is None:
            self._places = [row.place for row in self.rows]
        self._places = places = spelled(self._places)
        return places

    @property
    def causes(self) -> list[Place]:
        """The places of the events that completed them."""
        if self._causes is None:
            self._causes = [row.cause for row in self.rows]
        self._causes = causes = spelled(self._causes)
        return causes

    @property
    def cause_types(self) -> Sequence[str]:
        """The types of these events."""
        if self._cause_types is None:
            self._cause_types = [row.cause_type for row in self.rows]
        return self._cause_types

    @property
    def groups(self) -> list[Any] | None:
        """The parts of the stream that they belong to; None if the stream is not split."""
        if self._groups is None and self._rows is not None:
            self._groups = [row.group for row in self._rows]
        return self._groups

    @property
    def keys(self) -> Sequence[Any] | Ints:
        """The keys whose states made them."""
        if self._keys is None:
            self._keys = [row.key for row in self.rows]
        return self._keys

    @property
    def ties(self) -> Ints | None:
        """The arrivals of their causes, and the number of each among the outputs of its cause.

        With the times, these say as much as places do. None unless all causes are input events.
        """
        if self._ties is None and self._rows is not None:
            causes = [(row.cause[1], row.cause[2], row.number) for row in self._rows]
            if all(rank == 0 for rank, _, _ in causes):
                found = np.array([pair for _, *pair in causes], np.int64)
                self._ties = found.reshape(-1, 2).T
        return self._ties

    @property
    def bases(self) -> list[str]:
        """The digests of their contents."""
        return [match[:24] for match in self.ids] if self.copied else self.ids

    @property
    def copied(self) -> bool:
        """Whether any of them has the same content as another output."""
        return bool(self.numbers[COPY].any()) if self._rows is None else any(r.copy for r in self)

    @property
    def made_one_by_one(self) -> bool:
        """Whether rows are there already."""
        return self._rows is not None

    # Parts

    def pick(self, rows: Ints) -> Outputs:
        """Some of them, in this order."""
        if self._rows is not None:
            return self._pick_rows(rows.tolist())
        if len(rows) == len(self) and (rows == np.arange(len(rows))).all():
            return self
        if not len(rows):
            return NO_OUTPUTS
        some = rows.tolist()
        keys = self.keys
        ids = pick(self.ids, some) if self._digests is None else self._digests.take(rows, axis=1)
        return Outputs(
            ids,
            self.numbers.take(rows, axis=1),
            self._some_events(rows),
            lambda: pick(self.places, some),
            lambda: pick(self.causes, some),
            pick(list(self.cause_types), some),
            None if self.groups is None else pick(self.groups, some),
            keys.take(rows) if isinstance(keys, np.ndarray) else pick(list(keys), some),
            None if self._ties is None else self._ties.take(rows, axis=1),
        )

    def _some_events(self, rows: Ints) -> _Events:
        if isinstance(self._events, tuple):
            whole, mine = self._events
            return whole, mine.take(rows)
        if isinstance(self._events, EventBatch):
            return self._events, rows
        return lambda: self.events.take(rows)

    def without(self, rows: Ints) -> Outputs:
        """All but these."""
        if not len(rows):
            return self
        left = np.ones(len(self), np.bool_)
        left[rows] = False
        return self.pick(np.flatnonzero(left))

    def _pick_rows(self, rows: list[int]) -> Outputs:
        if not rows:
            return NO_OUTPUTS
        assert self._rows is not None
        return self if rows == [*range(len(self._rows))] else Outputs.of(pick(self._rows, rows))

    def where(self, wanted: Callable[[str], bool]) -> Outputs:
        """Those with a wanted identity."""
        rows = [row for row, match in enumerate(self.ids) if wanted(match)]
        if self._rows is not None:
            return self._pick_rows(rows)
        return self.pick(np.array(rows, np.int64))

    def caused_by(self, time: int) -> tuple[Outputs, Outputs]:
        """Those whose causes are not later than this, and the others."""
        if self._rows is not None:
            sure = [row.cause[0] <= time for row in self._rows]
            rows = range(len(sure))
            return (
                self._pick_rows([row for row in rows if sure[row]]),
                self._pick_rows([row for row in rows if not sure[row]]),
            )
        final = self.numbers[CAUSE] <= time
        return self.pick(np.flatnonzero(final)), self.pick(np.flatnonzero(~final))

    @classmethod
    def concat(cls, parts: Sequence[Outputs]) -> Outputs:
        """All of them."""
        if not parts:
            return NO_OUTPUTS
        parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else NO_OUTPUTS
        if all(part._rows is not None for part in parts):
            return cls.of([row for part in parts for row in part.rows])
        keys: Any = [part.keys for part in parts]
        if all(isinstance(each, np.ndarray) for each in keys):
            keys = np.concatenate(keys)
        else:
            keys = [key for each in keys for key in each]
        grouped = any(part.groups is not None for part in parts)
        ids: list[str] | Words
        if any(part._digests is not None for part in parts):
            ids = np.concatenate([part.digests for part in parts], axis=1)
        else:
            ids = [match for part in parts for match in part.ids]
        ties = [each for part in parts if (each := part.ties) is not None]
        return cls(
            ids,
            np.concatenate([part.numbers for part in parts], axis=1),
            lambda: EventBatch.concat([part.events for part in parts]),
            lambda: [place for part in parts for place in part.places],
            lambda: [place for part in parts for place in part.causes],
            [name for part in parts for name in part.cause_types],
            [g for part in parts for g in part.groups or [None] * len(part)] if grouped else None,
            keys,
            np.concatenate(ties, axis=1) if len(ties) == len(parts) else None,
        )

    def order(self) -> Ints | None:
        """The rows by place; None if they are in order."""
        if len(self) < 2:
            return None
        if self._rows is not None:
            times = [row.event.ts for row in self._rows]
            if all(map(lt, times, times[1:])):
                return None
        else:
            ts = self.numbers[TS]
            if (ts[1:] > ts[:-1]).all():
                return None
            if self.ties is not None:
                arrivals, numbers = self.ties
                by_place: Ints = np.lexsort((numbers, arrivals, self.numbers[CAUSE], ts))
                return by_place
        return np.array(sorted(range(len(self)), key=self.places.__getitem__), np.int64)

    def in_order(self) -> Outputs:
        """By place."""
        order = self.order()
        return self if order is None else self.pick(order)

    # Elsewhere

    def state_of(self) -> list[Any]:
        """Everything needed to resume elsewhere."""
        if self._rows is not None:
            fields = Output.__struct_fields__
            return [[tuple(getattr(row, name) for name in fields) for row in self._rows]]
        events = self.events
        return [
            self.ids, self.numbers, (events.codes, events.types, written(events.payload)),
            self.places, self.causes, list(self.cause_types), self.groups, self.keys,
        ]  # fmt: skip

    @classmethod
    def resumed(cls, kept: list[Any]) -> Outputs:
        """What `state_of` kept."""
        if len(kept) == 1:
            rows = stored.rows(kept[0])
            return cls.of([Output(*row) for row in rows]) if rows else NO_OUTPUTS
        ids, numbers, events, *rest = stored.columns(kept)
        return cls(ids, numbers, events, *rest)


NO_OUTPUTS = Outputs.of([])
