"""About how much memory history takes: judged by samples, so the same in every run and fast."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from betimes.engine.news.outputs import Output, Outputs
from betimes.model.batch import EventBatch
from betimes.model.event import Event

ROW = 64
"""Bytes that a row of an event takes besides the event: its place, its arrival, its key."""
MADE = 600
"""Bytes that an output takes besides its event: identity, places, numbers, who has heard of it."""


def weight_of_event(event: Event) -> int:
    payload = event.payload
    return sys.getsizeof(event) + sys.getsizeof(event.ts) + weight_of_state(payload)


def weight_of_state(state: Any) -> int:
    """A container and what it holds, but not what that holds in turn."""
    held = state.values() if isinstance(state, dict) else ()
    return sys.getsizeof(state) + sum(map(sys.getsizeof, held))


def weight_of_outputs(outputs: Sequence[Output]) -> int:
    if not len(outputs):
        return 0
    if isinstance(outputs, Outputs) and not outputs.made_one_by_one:
        # Most of what columns take is their identities.
        return len(outputs) * MADE // 2
    return len(outputs) * (MADE + weight_of_event(outputs[0].event))


def weight_of_batch(batch: EventBatch) -> int:
    numbers = int(batch.ts.nbytes + batch.codes.nbytes)
    payload = batch.payload
    if isinstance(payload, pa.Table):
        return numbers + payload.nbytes
    return numbers + len(batch) * weight_of_event(batch[0]) if len(batch) else 0
