"""What an engine lets in: events as one batch, of types that somebody reads, in the right unit."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from betimes.engine.hierarchy import Hierarchy
from betimes.model import Event, EventBatch, EventError, times
from betimes.model.event import RESERVED, refuse_reserved
from betimes.ordering.clock import EVERY

_log = logging.getLogger("betimes")

Events = EventBatch | pa.Table | pa.RecordBatch | Iterable[Event] | Event


class Intake:
    """Checks what arrives before anything is taken in."""

    def __init__(self, hierarchy: Hierarchy, unit: str | None) -> None:
        self._inputs = hierarchy.inputs
        self._unit = unit
        self._used = {type for node in hierarchy for type in node.on} | set(hierarchy.clocks or ())
        self._expected = self._used - RESERVED
        if self._inputs is not None:
            self._expected &= set(self._inputs)
        self._judged_unit = False
        """Whether times were seen that show their unit."""
        self.ignored: Counter[str] = Counter()
        """How many events no detector subscribes to, by type."""

    def single(self, events: Events) -> Event | None:
        """The event, if it is only one, and as usual: nothing about it has to be checked."""
        event = events[0] if type(events) is list and len(events) == 1 else events
        if type(event) is not Event or self._unit is not None or not self._judged_unit:
            return None
        ts, name = event.ts, event.type
        usual = type(ts) is int and type(name) is str and type(event.payload) is dict
        return event if usual and 0 <= ts <= times.LAST and name in self._expected else None

    def batch(self, events: Events) -> tuple[EventBatch, list[Event] | None]:
        """Events as a batch; and as rows if they came as rows that can be used as they are."""
        if isinstance(events, EventBatch):
            self._doubt_unit(events)
            return events, None
        rows: list[Event] | None = None
        if type(events) is Event:
            rows = [events] if type(events.ts) is int else None
        elif isinstance(events, list):
            rows = events
        elif isinstance(events, Iterator | set | tuple | deque):
            events = rows = list(events)
        batch = EventBatch.of(events, unit=self._unit)
        if self._unit is not None:
            return batch, None  # the times of the rows may count something else
        self._doubt_unit(batch)
        return batch, rows

    def _doubt_unit(self, batch: EventBatch) -> None:
        """Say so if the first times of the stream look as if they counted another unit."""
        if self._judged_unit or self._unit is not None or not len(batch):
            return
        self._judged_unit = True
        doubt = times.doubt(int(batch.ts.min()), int(batch.ts.max()))
        if doubt is not None:
            _log.warning("%s", doubt)

    def unread(self, batch: EventBatch) -> dict[str, int]:
        """Refuse types that are not declared as inputs; count events that no detector reads."""
        unread: dict[str, int] = {}
        if self._expected.issuperset(batch.types):
            return unread
        inputs = self._inputs
        if inputs is None and EVERY in self._used and RESERVED.isdisjoint(batch.types):
            return unread
        counts = np.bincount(batch.codes, minlength=len(batch.types)).tolist()
        for name, count in zip(batch.types, counts, strict=True):
            if count:
                refuse_reserved([name])
            if count and inputs is not None and name not in inputs:
                raise EventError(
                    f"expected events of the types {list(inputs)} (inputs=), got {name!r}; declare "
                    "it there, or filter such events out"
                )
            if count and not self._used.intersection((name, EVERY)):
                unread[name] = count
        return unread

    def resume(self, ignored: dict[str, int]) -> None:
        """Resume what a checkpoint kept; the unit was judged when the stream began."""
        self.ignored = Counter(ignored)
        self._judged_unit = True
