"""About how much memory history takes.

Weights are judged by samples, so that it is fast, and by what is kept, not by how Python keeps it:
the same content weighs the same after a restart.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
import pyarrow as pa

from betimes.model.arrays import ArrayBatch
from betimes.model.batch import EventBatch
from betimes.model.event import Event

ROW = 64
"""Bytes that a row of an event takes besides the event: its place, its arrival, its key."""
MADE = 900
"""Bytes that an output takes: event, identity, places, numbers, who has heard of it."""
OBJECT, ENTRY = 120, 50
"""Bytes that an object takes, and one of the things that it holds."""


_NUMBERS = frozenset({int, float, bool, type(None)})
"""What most payloads are made of, and holds nothing."""


def weight_of_event(event: Event) -> int:
    return OBJECT + weight_of_state(event.payload)


def weight_of_state(state: Any) -> int:
    """An object and what it holds, one level deep."""
    if isinstance(state, dict):
        return OBJECT + sum(ENTRY + _content(value) for value in state.values())
    return OBJECT + _content(state)


def _content(value: Any) -> int:
    if type(value) in _NUMBERS:
        return 0
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, str | bytes):
        return len(value)
    return ENTRY * len(value) if isinstance(value, Sized) else 0


def weight_of_batch(batch: EventBatch) -> int:
    numbers = int(batch.ts.nbytes + batch.codes.nbytes)
    if isinstance(batch, ArrayBatch):
        return numbers + batch.nbytes
    payload = batch.payload
    if isinstance(payload, pa.Table):
        return numbers + payload.nbytes
    return numbers + len(batch) * weight_of_event(batch[0]) if len(batch) else 0
