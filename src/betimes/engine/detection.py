"""`detect`: a finished table in, its changes out."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.engine import Engine
from betimes.engine.hierarchy import Hierarchy
from betimes.engine.intake import Events
from betimes.engine.options import EngineOptions, signature
from betimes.model import EventError, OptionError
from betimes.model.batch import EventBatch
from betimes.model.change import Change, ChangeBatch
from betimes.model.duration import LONGEST

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
    final insert of one detected event, and the order of rows makes no difference. Only events of
    the same time stay in the order of their rows. For a stream that arrives out of order, use
    `Engine`.

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
    """The order in which to feed: that of time, or of a column; rows that are equal stay."""
    if arrival is None or not len(batch):
        return np.argsort(batch.ts, kind="stable")
    arrivals = batch.column(arrival)
    try:
        return np.array(sorted(range(len(arrivals)), key=arrivals.__getitem__), np.intp)
    except TypeError:
        raise EventError(
            f"expected arrival={arrival!r} to name a column with values that can be sorted, "
            "got some that cannot be compared; fill in what is missing"
        ) from None


detect.__signature__ = signature(detect, **PATIENT)  # type: ignore[attr-defined]
