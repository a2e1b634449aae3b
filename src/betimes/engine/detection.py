"""`detect`: a finished table in, its changes out."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.engine import Engine
from betimes.engine.hierarchy import Hierarchy
from betimes.engine.intake import Events
from betimes.engine.options import EngineOptions, signature
from betimes.model import EventError, OptionError, times
from betimes.model.batch import EventBatch
from betimes.model.change import Change, ChangeBatch
from betimes.model.duration import LONGEST
from betimes.model.texts import comparable

PATIENT: dict[str, Any] = {"attenuation": 1.0, "slack": 0, "retention": LONGEST}
"""Options for events that are in order: nothing has to wait, and everything can be repaired."""


def detect(
    events: Events,
    hierarchy: Hierarchy,
    *,
    arrival: str | None = None,
    advance: bool = True,
    **options: Any,
) -> ChangeBatch:
    """Find what a hierarchy detects in events that are all there already.

    The events are sorted by time, fed to an `Engine` and finished, so each row of the answer is the
    final insert of one detected event. The order of rows makes no difference: events of the same
    time are sorted by type, then by the columns of the payload in alphabetical order. If your rows
    are in an order that counts, name a column with `arrival`. For a stream that arrives out of
    order, use `Engine`.

    Parameters
    ----------
    events
        A table (Arrow, pandas, polars) with the columns `ts` and `type`, an `EventBatch`, or
        `Event` objects, in any order.
    hierarchy
        The detectors and how they are wired.
    arrival : None
        The payload column that says in which order the events arrived. If you name one, they are
        fed in that order, and the defaults of the options are those of `Engine`: you get what a
        live stream would have given in the end.
    advance : True
        Whether time moves past every open window at the end, so that all of them close.
    **options
        Those of `Engine`; without `arrival`, nothing waits, and everything can be repaired.

    >>> from betimes import Event, pattern
    >>> touches = Hierarchy(clock="*")
    >>> touches.add(pattern("near hit", emits="touch", within="1s"))
    >>> found = detect([Event("hit", 5), Event("near", 3)], touches)
    >>> [(change.change_type, change.status, change.ts) for change in found]
    [('insert', 'final', 5)]
    """
    if isinstance(events, Hierarchy):
        raise OptionError("expected detect(events, hierarchy), got the hierarchy first; swap them")
    usual = PATIENT if arrival is None else {}
    wanted = EngineOptions.of(usual | options, function=detect)
    batch = EventBatch.of(events, unit=wanted.unit)
    ordered = batch.take(_order(batch, arrival))
    engine = Engine(hierarchy, wanted)
    standing: dict[str, Change] = {}
    for change in [*engine.feed(ordered), *engine.finish(advance=advance)]:
        standing.pop(change.match_id, None)
        if change.change_type != "delete":
            standing[change.match_id] = change
    return ChangeBatch([
        msgspec.structs.replace(change, change_type="insert", seq=seq)
        for seq, change in enumerate(standing.values(), start=1)
    ])  # fmt: skip


def _order(batch: EventBatch, arrival: str | None) -> npt.NDArray[np.intp]:
    """The order in which to feed: that of time and content, or of a column."""
    if arrival is None or not len(batch):
        return _by_content(batch)
    arrivals = batch.column(arrival)
    try:
        return np.array(sorted(range(len(arrivals)), key=arrivals.__getitem__), np.intp)
    except TypeError:
        raise EventError(
            f"expected arrival={arrival!r} to name a column with values that can be sorted, "
            "got some that cannot be compared; fill in what is missing"
        ) from None


def _by_content(batch: EventBatch) -> npt.NDArray[np.intp]:
    """By time; rows that share their time with others, and only those, by what is in them."""
    order = np.argsort(batch.ts, kind="stable")
    same = np.diff(batch.ts[order]) == 0
    if not same.any():
        return order
    places = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    rows = order[places]
    order[places] = rows[_contents(batch.take(rows))]
    return order


def _contents(batch: EventBatch) -> npt.NDArray[np.intp]:
    """The order of these rows by time, type and payload."""
    if isinstance(batch.payload, pa.Table):
        import pyarrow.compute as pc  # slow to load

        ranks = np.argsort(np.argsort(batch.types))
        keys: dict[str, Any] = {"ts": pa.array(batch.ts), "type": pa.array(ranks[batch.codes])}
        names = sorted(batch.payload.column_names)
        keys |= {f"column {name}": comparable(batch.payload[name]) for name in names}
        keys |= {f"zero {name}": zeros for name in names for zeros in _zeros(batch.payload[name])}
        with suppress(pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid):
            found = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
            return np.asarray(found).astype(np.intp)

    def content(row: int) -> tuple[int, str, list[tuple[str, Any]]]:
        event = batch[row]
        return (
            event.ts,
            event.type,
            [(k, _sortable(event.payload[k])) for k in sorted(event.payload)],
        )

    return np.array(sorted(range(len(batch)), key=content), np.intp)


def _zeros(column: Any) -> list[Any]:
    """What tells 0.0 from -0.0, which are equal, if a column has both."""
    if not pa.types.is_floating(column.type):
        return []
    values = column.to_numpy()
    minus = (values == 0) & np.signbit(values)
    return [pa.array(~minus)] if minus.any() else []


def _sortable(value: Any) -> tuple[int, Any, str]:
    """Values of different kinds cannot be compared: numbers, text, times, the rest, and nothing.

    Some that are equal still differ, such as 1, 1.0 and True: how they are written decides.
    """
    if value is None:
        return 6, 0, ""
    if isinstance(value, int | float):
        return (1, value, repr(value)) if value == value else (2, 0, "")
    if isinstance(value, str):
        return 3, value, ""
    if isinstance(value, datetime):
        return 4, times.from_values([value])[0][0], repr(value)
    return 5, repr(value), ""


detect.__signature__ = signature(detect, **PATIENT)  # type: ignore[attr-defined]
