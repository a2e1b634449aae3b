"""Between files and the engine: events as it can keep them, changes as sinks take them."""

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
    """The events of a table in order of arrival, and the rows that are none."""
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
    """Changes as columns, with rows about what was no event behind them.

    The engine numbers its changes; rows that never reached it take numbers too, so those that come
    after them move on by `rejected_before`. `last` is the newest number that was given.
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
    # There is no time to be had from such a row; a change has one, so it is the very first.
    return Change("insert", "final", identity, seq, REJECTED, 0, 0, 0, row, "", bad.reason)
