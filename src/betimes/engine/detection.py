"""`detect`: a finished table in, its changes out."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from betimes.engine.engine import Engine, Events
from betimes.engine.hierarchy import Hierarchy
from betimes.engine.options import EngineOptions, signature
from betimes.model import OptionError
from betimes.model.batch import EventBatch
from betimes.model.change import Change, ChangeBatch
from betimes.model.duration import LONGEST

PATIENT: dict[str, Any] = {"attenuation": 1.0, "slack": 0, "retention": LONGEST}
"""Options for events that are in order: nothing has to wait, and everything can be repaired."""


def detect(
    events: Events, hierarchy: Hierarchy, *, advance: bool = True, **options: Any
) -> ChangeBatch:
    """Find what a hierarchy detects in events that are all there already.

    The events are sorted by time, fed to an `Engine` and finished, so each row of the answer is the
    final insert of one detected event. For a stream that arrives out of order, use `Engine`.

    Parameters
    ----------
    events
        A table (Arrow, pandas, polars) with the columns `ts` and `type`, an `EventBatch`, or
        `Event` objects, in any order.
    hierarchy
        The detectors and how they are wired.
    advance : True
        Whether time moves past every open window at the end, so that all of them close.
    **options
        Those of `Engine`; by default nothing waits, and everything can be repaired.

    >>> from betimes import Event, pattern
    >>> touches = Hierarchy(clock="*")
    >>> touches.add(pattern("near hit", emits="touch", within="1s"))
    >>> found = detect([Event("hit", 5), Event("near", 3)], touches)
    >>> [(change.change_type, change.status, change.ts) for change in found]
    [('insert', 'final', 5)]
    """
    if isinstance(events, Hierarchy):
        raise OptionError("expected detect(events, hierarchy), got the hierarchy first; swap them")
    wanted = EngineOptions.of(PATIENT | options, function=detect)
    batch = EventBatch.of(events, unit=wanted.unit)
    ordered = batch.take(np.argsort(batch.ts, kind="stable"))
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


detect.__signature__ = signature(detect, **PATIENT)  # type: ignore[attr-defined]
