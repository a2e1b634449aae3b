"""Outputs: events that a detector made, with everything that changes and upper stages need.

They are rows or columns, as they were made, and become the other when somebody asks: what a Python
detector made stays rows until a reader wants columns, and the matches of a compiled pattern stay
columns until somebody wants a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import lt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news import stored
from betimes.engine.news.digests.columns import spelled as spelled_digests
from betimes.engine.news.digests.columns import text_column, words_of
from betimes.engine.news.digests.kernel import Words
from betimes.engine.news.output import Output
from betimes.engine.news.places import (
    TIME,
    Origin,
    Place,
    Places,
    arrived_at,
    made_at,
    origin_of,
    spelled,
)
from betimes.model.batch import EventBatch, pick
from betimes.model.coded import Coded
from betimes.model.payloads import written

__all__ = [
    "AT", "CAUSE", "COPY", "DETECTED", "HEAD", "NO_OUTPUTS", "SLACK", "TIME", "TS", "Output",
    "Outputs", "Place", "Places", "spelled",
]  # fmt: skip

Ints = npt.NDArray[np.int64]

TS, CAUSE, AT, DETECTED, SLACK, HEAD, COPY = range(7)
"""The rows of `Outputs.numbers`."""

_Events = EventBatch | tuple[EventBatch, Ints] | Callable[[], EventBatch]
"""Events, some rows of a batch, or how to find them out: what is picked is often picked again."""


class Outputs(Sequence[Output]):
    """Outputs of one detector; nobody changes them."""

    __slots__ = (
        "_cause_types", "_causes", "_digests", "_events", "_groups", "_ids", "_keys", "_numbers",
        "_origin", "_places", "_rows", "_ties",
    )  # fmt: skip

    def __init__(
        self,
        ids: list[str] | Words,
        numbers: Ints,
        events: _Events,
        places: Places | None,
        causes: Places | None,
        cause_types: Coded,
        groups: list[Any] | None,
        keys: Sequence[Any] | Ints,
        ties: Ints | None = None,
        origin: Origin | None = None,
    ) -> None:
        """`places` and `causes` are None if `ties` and `origin` tell them."""
        self._ids: list[str] | None = ids if isinstance(ids, list) else None
        self._digests: Words | None = None if isinstance(ids, list) else ids
        self._numbers: Ints | None = numbers
        self._events: _Events | None = events
        self._places = places
        self._causes = causes
        self._cause_types: Coded | None = cause_types
        self._groups = groups
        self._keys: Sequence[Any] | Ints | None = keys
        self._rows: list[Output] | None = None
        self._ties = ties
        self._origin = origin

    @classmethod
    def of(cls, rows: list[Output], digests: Words | None = None) -> Outputs:
        """Outputs that were made one by one; perhaps with their digests."""
        self = cls.__new__(cls)
        self._rows, self._digests = rows, digests
        self._ids = self._numbers = self._events = self._places = self._causes = None
        self._cause_types = self._groups = self._keys = self._ties = self._origin = None
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
                Output, self.ids, self.events.rows(), self.places, self.causes,
                self.cause_types.spelled(),
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
                self._ids = _spelled(self._digests, self.numbers[COPY])
        return self._ids

    @property
    def digests(self) -> Words:
        """The digests of their contents, as numbers."""
        if self._digests is None:
            self._digests = words_of(self.bases)
        return self._digests

    @property
    def identities(self) -> Words:
        """The same with the number of each among its equals: these are their identities."""
        words = self.digests
        if self.copied:
            words = words.copy()
            words[1] |= self.numbers[COPY].astype(np.uint64) << np.uint64(32)
        return words

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

    def coded_types(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        """The types that their events may have, and which of them each has."""
        if self._events is None:
            coded = Coded.named([row.event.type for row in self.rows])
            return (*coded.values,), coded.codes.astype(np.int32)
        if isinstance(self._events, tuple):
            whole, rows = self._events
            return whole.types, whole.codes.take(rows)
        return self.events.types, self.events.codes

    @property
    def places(self) -> list[Place]:
        if self._places is None:
            if self._rows is not None:
                self._places = [row.place for row in self._rows]
            else:
                assert self._ties is not None
                assert self._origin is not None
                ts, origin = self.numbers[TS], self._origin
                self._places = made_at(ts, origin, self.causes, self._ties[1])
        self._places = places = spelled(self._places)
        return places

    @property
    def causes(self) -> list[Place]:
        """The places of the events that completed them."""
        if self._causes is None:
            if self._rows is not None:
                self._causes = [row.cause for row in self._rows]
            else:
                assert self._ties is not None
                self._causes = arrived_at(self.numbers[CAUSE], self._ties[0])
        self._causes = causes = spelled(self._causes)
        return causes

    def place(self, row: int) -> Place:
        """The place of one of them, without spelling those of others if that can be."""
        if self._rows is not None:
            return self._rows[row].place
        if self._places is not None or self._ties is None or self._origin is None:
            return self.places[row]
        (level, name), numbers, ties = self._origin, self.numbers, self._ties
        cause = numbers.item(CAUSE, row), 0, ties.item(0, row)
        return numbers.item(TS, row), level, (name, cause, ties.item(1, row))

    def ids_of(self, rows: Ints) -> list[str]:
        """The identities of some of them, without spelling others if that can be."""
        if self._ids is None and self._digests is not None and self._rows is None:
            return _spelled(self._digests.take(rows, axis=1), self.numbers[COPY].take(rows))
        return pick(self.ids, rows.tolist())

    @property
    def cause_types(self) -> Coded:
        """The types of these events."""
        if self._cause_types is None:
            self._cause_types = Coded.named([row.cause_type for row in self.rows])
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
    def origin(self) -> Origin | None:
        """The level and the name of their detector, if these and `ties` tell their places."""
        if self._origin is None and self._rows is not None and self.ties is not None:
            self._origin = origin_of([row.place for row in self._rows])
        return self._origin

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
        keys, known = self.keys, self._origin is not None
        ids = (
            pick(self.ids, rows.tolist())
            if self._digests is None
            else self._digests.take(rows, axis=1)
        )
        return Outputs(
            ids,
            self.numbers.take(rows, axis=1),
            self._some_events(rows),
            None if known else lambda: pick(self.places, rows.tolist()),
            None if known else lambda: pick(self.causes, rows.tolist()),
            self.cause_types.take(rows),
            None if self.groups is None else pick(self.groups, rows.tolist()),
            keys.take(rows) if isinstance(keys, np.ndarray) else pick(list(keys), rows.tolist()),
            None if self._ties is None else self._ties.take(rows, axis=1),
            self._origin,
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
        if len(parts) > 1:
            parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts and len(parts[0]) else NO_OUTPUTS
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
        origins = {part.origin for part in parts}
        origin = origins.pop() if len(origins) == 1 and len(ties) == len(parts) else None
        return cls(
            ids,
            np.concatenate([part.numbers for part in parts], axis=1),
            lambda: EventBatch.concat([part.events for part in parts], exact=True),
            None if origin else lambda: [place for part in parts for place in part.places],
            None if origin else lambda: [place for part in parts for place in part.causes],
            Coded.concat([part.cause_types for part in parts]),
            [g for part in parts for g in part.groups or [None] * len(part)] if grouped else None,
            keys,
            np.concatenate(ties, axis=1) if len(ties) == len(parts) else None,
            origin,
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
            self.places, self.causes, self.cause_types.spelled(), self.groups, self.keys,
        ]  # fmt: skip

    @classmethod
    def resumed(cls, kept: list[Any]) -> Outputs:
        """What `state_of` kept."""
        if len(kept) == 1:
            rows = stored.rows(kept[0])
            return cls.of([Output(*row) for row in rows]) if rows else NO_OUTPUTS
        ids, numbers, events, places, causes, names, *rest = stored.columns(kept)
        return cls(ids, numbers, events, places, causes, Coded.named(names), *rest)


def _spelled(digests: Words, copies: Ints) -> list[str]:
    bases = spelled_digests(digests)
    if not copies.any():
        return bases
    pairs = zip(bases, copies.tolist(), strict=True)
    return [f"{base}-{copy}" if copy else base for base, copy in pairs]


NO_OUTPUTS = Outputs.of([])
