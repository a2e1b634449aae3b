"""Payloads in checkpoints: Arrow columns in Arrow's own format, dictionaries as they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from betimes.model.batch import Payload


def written(payload: Payload | None) -> Any:
    """A payload as data."""
    if not isinstance(payload, pa.Table):
        return None if payload is None else list(payload)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, payload.schema) as writer:
        writer.write_table(payload)
    return sink.getvalue().to_pybytes()


def read(payload: Any) -> Payload | None:
    """The payload that `written` wrote."""
    if not isinstance(payload, bytes):
        rows: Payload | None = payload
        return rows
    with pa.ipc.open_stream(payload) as reader:
        return sound(reader.read_all())


def sound(table: pa.Table) -> pa.Table:
    """A table from a checkpoint whose offsets and indices were checked; an error otherwise."""
    table.validate(full=True)
    return table
