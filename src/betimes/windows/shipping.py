"""How messages for instances travel to other processes: events as columns, the rest as it is.

A run of events of one key becomes an Arrow batch, if each of its columns has values of one plain
type, so that they come back as they were. For a few events, or others, that does not pay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from betimes.model.event import Event
from betimes.windows.messages import EVENT, Message

EVENTS = "EVENTS"
"""A run of events: the key, the names of the columns of their payloads, and all columns."""
_FEW = 16
_PLAIN = frozenset({int, float, str, bool, bytes})


def shipped(messages: Iterable[Message]) -> list[Message]:
    """Messages as they travel."""
    found: list[Message] = []
    for kind, group in groupby(messages, key=_alike):
        run = list(group)
        block = _block(run) if kind is not None and len(run) >= _FEW else None
        found += run if block is None else [block]
    return found


def unshipped(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages that were sent."""
    for message in messages:
        if message[0] == EVENTS:
            yield from _events(*message[1:])
        else:
            yield message


def _alike(message: Message) -> tuple[Any, ...] | None:
    """Events that have the same of this may be in one batch."""
    if message[0] != EVENT:
        return None
    _, _, key, _, event = message
    return type(key), key, *event.payload


def _block(run: list[Message]) -> Message | None:
    """A run of events as columns; None if they are not plain."""
    events = [message[4] for message in run]
    names = list(events[0].payload)
    columns = [[message[1] for message in run], *zip(*(message[3] for message in run), strict=True)]
    columns += [[event.type for event in events], *([e.payload[n] for e in events] for n in names)]
    if any(len({*map(type, column)} - {type(None)}) > 1 for column in columns):
        return None
    if not all(type(value) in _PLAIN or value is None for column in columns for value in column):
        return None
    try:
        arrays = [pa.array(column) for column in columns]
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        return None  # integers that are too large, or text that is no Unicode
    batch = pa.record_batch(arrays, names=[str(number) for number in range(len(arrays))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return EVENTS, run[0][2], names, sink.getvalue().to_pybytes()


def _events(key: Any, names: list[str], data: bytes) -> Iterator[Message]:
    with pa.ipc.open_stream(data) as reader:
        columns = [column.to_pylist() for column in reader.read_all().columns]
    for revision, ts, rank, tie, kind, *values in zip(*columns, strict=True):
        event = Event(kind, ts, dict(zip(names, values, strict=True)))
        yield EVENT, revision, key, (ts, rank, tie), event
