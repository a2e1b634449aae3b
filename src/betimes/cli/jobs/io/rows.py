"""Between files and the engine: rows become events, and changes become rows for the sinks."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa

from betimes.model import EventBatch, Rejected
from betimes.model.change import REJECTED, Change, ChangeBatch
from betimes.model.rows import only_final, plain

SLOT = "slot"


def events_of(
    table: pa.Table, *, time: str, type: str, arrival: str | None
) -> tuple[EventBatch, list[tuple[Rejected, dict[str, Any]]]]:
    """The events of a table in order of arrival, and the rows that are not valid events."""
    rows = plain(table)
    batch, rejected = EventBatch.sift_arrow(rows, time=time, type=type, arrival=arrival)
    return batch, [(bad, rows.slice(bad.row, 1).to_pylist()[0]) for bad in rejected]


def change_rows(
    changes: ChangeBatch,
    bad: list[tuple[Rejected, dict[str, Any]]],
    *,
    rejected_before: int,
    last: int,
    results: str,
) -> pa.Table:
    """Changes as columns, followed by one row per rejected row of the input.

    The engine numbers its changes. Rejected rows never reach it but need numbers, too, so the
    numbers of later changes grow by `rejected_before`. `last` is the highest number so far.
    """
    rows = [_moved(change, rejected_before) for change in changes]
    last = rows[-1].seq if rows else last
    rows += [_rejected(found, row, last + n) for n, (found, row) in enumerate(bad, start=1)]
    table = ChangeBatch(rows).to_arrow()
    if results == "final":
        table = only_final(table)
    return table.add_column(0, SLOT, pa.array([0] * len(table), pa.int32()))


def _moved(change: Change, by: int) -> Change:
    return msgspec.structs.replace(change, seq=change.seq + by) if by else change


def _rejected(bad: Rejected, row: dict[str, Any], seq: int) -> Change:
    content = msgspec.json.encode([0, seq, row], enc_hook=repr)
    identity = blake2b(content, digest_size=12).hexdigest()
    # Such a row has no usable time, but a change needs one: 0, the earliest.
    return Change("insert", "final", identity, seq, REJECTED, 0, 0, 0, row, "", bad.reason)
