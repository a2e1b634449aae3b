"""A batch of input events as the stages read it: what several stages need is made once.

Many stages take the same types; most upper stages take no input events and only need the clock.
Which rows concern a stage depends on the types alone, so a mask identifies a selection: for each
type of the batch, whether it is wanted. Events become Python objects when a detector gets them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.reading.arrivals import Arrivals
from betimes.model.arrays import in_arrays
from betimes.model.batch import EventBatch, in_rows, pick
from betimes.model.coded import Coded
from betimes.model.errors import EventError
from betimes.model.event import Event
from betimes.model.unmade import Events, Unmade

Ints = npt.NDArray[np.int64]
Mask = tuple[bool, ...]
"""For each type of a batch, whether its events are wanted."""

_NOTHING: Ints = np.empty(0, np.int64)
_NO_CODES: npt.NDArray[np.int32] = np.empty(0, np.int32)
_COMPARED = 4
"""Up to this many types, each is compared with all events."""


class Inputs:
    """Input events of one batch, in order of arrival."""

    def __init__(
        self,
        batch: EventBatch,
        groups: Coded | None,
        first: int,
        events: list[Event] | None = None,
    ) -> None:
        self.batch = batch
        self.groups = groups
        """The part of the stream that each belongs to, if the engine splits the stream."""
        self.first = first
        """The number of the first arrival."""
        self._every = events
        self._known: dict[Any, Any] = {}
        """What was made, by what it is: a small batch should not pay for what nobody asks for."""
        self._arrays: EventBatch | None = None

    def rows(self, mask: Mask) -> Ints:
        """The rows of the wanted types."""
        known: Ints | None = self._known.get((mask, "rows"))
        if known is None:
            known = self._known[mask, "rows"] = _where(mask, self.batch)
        return known

    def columns(self, mask: Mask) -> tuple[EventBatch, Ints]:
        """The columns that ordering needs of the wanted types, and their arrival numbers."""
        known: tuple[EventBatch, Ints] | None = self._known.get(mask)
        if known is None:
            batch = self.batch
            if all(mask):
                at = np.arange(self.first, self.first + len(batch.ts))
                known = batch.without_payload(), at
            elif not any(mask):
                none = None if batch.source is None else _NOTHING
                known = EventBatch(_NOTHING, _NO_CODES, batch.types, source=none), _NOTHING
            else:
                rows = self.rows(mask)
                source = None if batch.source is None else batch.source.take(rows)
                ts, codes = batch.ts.take(rows), batch.codes.take(rows)
                part = EventBatch(ts, codes, batch.types, source=source)
                known = part, self.first + rows
            self._known[mask] = known
        return known

    def clock_only(self, mask: Mask) -> Arrivals:
        """What arrives at a stage that takes nothing of the batch, but hears the wanted types.

        Most upper stages only need the clock, and it is the same for them.
        """
        known: Arrivals | None = self._known.get((mask, "clock"))
        if known is None:
            part, at = self.columns(mask)
            known = Arrivals(part, at, _NOTHING, [], None, self.event_at(at))
            self._known[mask, "clock"] = known
        return known

    def event_at(self, at: Ints) -> Callable[[int], Event]:
        """Makes events of arrivals, by their index among those with these numbers."""
        batch, first = self.batch, self.first  # not `self`, which keeps what refers to this

        def event(index: int) -> Event:
            return batch[int(at[index]) - first]

        return event

    def among(self, mask: Mask, others: Mask) -> Ints:
        """Where the wanted types are in the columns of `others`, which includes them."""
        if all(others):
            return self.rows(mask)
        if not any(mask):
            return _NOTHING
        known: Ints | None = self._known.get((mask, others))
        if known is None:
            known = self._known[mask, others] = _where(mask, self.columns(others)[0])
        return known

    def part(self, mask: Mask, columns: tuple[str, ...] | None = None, who: str = "") -> EventBatch:
        """The events of the wanted types, with their whole payload or some of its columns."""
        known: EventBatch | None = self._known.get((mask, "part", columns))
        if known is None:
            rows = None if all(mask) else self.rows(mask)
            known = self._known[mask, "part", columns] = (
                _taken(self.batch, rows)
                if columns is None
                else selected(self.batch, rows, columns, who)
            )
        return known

    def arrays(self) -> EventBatch:
        """All events, with their payloads as arrays if they are plain numbers."""
        if self._arrays is None:
            self._arrays = in_arrays(self.batch)
        return self._arrays

    def part_in_rows(self, mask: Mask) -> EventBatch:
        """The events of the wanted types, with payloads as dictionaries."""
        known: EventBatch | None = self._known.get((mask, "in rows"))
        if known is None:
            rows = None if all(mask) else self.rows(mask)
            known = self._known[mask, "in rows"] = in_rows(self.batch, rows)
        return known

    def events(self, mask: Mask) -> Events:
        """The events of the wanted types, to be handed out one by one."""
        if not any(mask):
            return []
        known: Events | None = self._known.get((mask, "events"))
        if known is None:
            if self._every is None:
                known = Unmade.of(self.part_in_rows(mask))
            else:
                known = self._every if all(mask) else pick(self._every, self.rows(mask).tolist())
            self._known[mask, "events"] = known
        return known

    def groups_of(self, mask: Mask) -> Coded | None:
        """The engine's own keys of the wanted types."""
        if self.groups is None or all(mask):
            return self.groups
        return self.groups.take(self.rows(mask))


def _where(mask: Mask, batch: EventBatch) -> Ints:
    if all(mask):
        return np.arange(len(batch))
    if not any(mask):
        return _NOTHING
    return _is_wanted(mask, batch.codes).nonzero()[0]


def _is_wanted(mask: Mask, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Whether each type is wanted: a few comparisons are faster than looking up every event."""
    wanted, others = _sides(mask)
    side = wanted if len(wanted) <= len(others) else others
    if len(side) > _COMPARED:
        found: npt.NDArray[np.bool_] = np.array(mask).take(codes)
        return found
    if side is others:
        found = codes != side[0]
        for code in side[1:]:
            found &= codes != code
    else:
        found = codes == side[0]
        for code in side[1:]:
            found |= codes == code
    return found


@lru_cache(maxsize=256)
def _sides(mask: Mask) -> tuple[list[int], list[int]]:
    """The types that are wanted, and the others."""
    wanted = [code for code, each in enumerate(mask) if each]
    return wanted, [code for code, each in enumerate(mask) if not each]


def _taken(batch: EventBatch, rows: Ints | None, *, arrays: bool = False) -> EventBatch:
    if isinstance(batch.payload, pa.Table) and not batch.payload.num_columns:
        batch = batch.without_payload()
    if arrays:
        batch = in_arrays(batch)
    return batch if rows is None else batch.take(rows)


def selected(
    batch: EventBatch, rows: Ints | None, columns: tuple[str, ...], who: str
) -> EventBatch:
    """The rows with some columns of their payload; a missing column is an error."""
    payload = batch.payload
    if isinstance(payload, pa.Table):
        names = payload.column_names
        known = [name for name in columns if name in names]
        batch = EventBatch(batch.ts, batch.codes, batch.types, payload.select(known))
        part = _taken(batch, rows, arrays=True)
        if len(part) and len(known) < len(columns):
            missing = next(name for name in columns if name not in known)
            raise EventError(
                f"{who} declares columns={columns}, but the batch has no {missing!r}, only "
                f"{names}; add the column, or declare only what is there"
            )
        return part
    part = _taken(batch, rows)
    return EventBatch(part.ts, part.codes, part.types, _some(part, columns, who))


def _some(part: EventBatch, columns: tuple[str, ...], who: str) -> list[dict[str, Any]] | None:
    """Some columns of a payload of dictionaries."""
    payload = part.payload or [{}] * len(part)
    assert not isinstance(payload, pa.Table)
    for row, whole in enumerate(payload):
        for name in columns:
            if name not in whole:
                raise EventError(
                    f"{who} declares columns={columns}, but {part[row]!r} has no {name!r}; add the "
                    "column, or declare only what is there"
                )
    return [{name: whole[name] for name in columns} for whole in payload] if columns else None
