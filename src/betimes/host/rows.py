"""Changes and rejected rows as tables with one schema, on every runtime.

The engine numbers its changes. Rejected rows never reach it but need numbers, too, so later changes
are numbered higher by the rejected rows before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa

from betimes.host.columns import BadRow
from betimes.model.change import REJECTED, Change, ChangeBatch
from betimes.model.rows import only_final

SLOT = "slot"
"""The column of the changes that says which slot found them."""
NUMBERS = ("seq", "ts", "detected_at", "slack")
COLUMNS: tuple[str, ...] = (SLOT, *Change.__struct_fields__)
"""The columns of the changes, in order."""
_KINDS = dict.fromkeys(NUMBERS, pa.int64()) | {SLOT: pa.int32()}
SCHEMA = pa.schema([pa.field(name, _KINDS.get(name, pa.string())) for name in COLUMNS])


def change_rows(changes: ChangeBatch, *, slot: int, skip: int, results: str) -> pa.Table:
    """Changes for readers; `skip` numbers were given to rejected rows before."""
    table = changes.to_arrow(payload="json")
    if skip:
        import pyarrow.compute as pc  # slow to load, and few streams have rejected rows

        place = table.column_names.index("seq")
        table = table.set_column(place, "seq", pc.add(table["seq"], skip))
    if results == "final" and len(table):
        table = only_final(table)
    return table.add_column(0, SLOT, pa.repeat(pa.scalar(slot, pa.int32()), len(table)))


def rejected_rows(bad: Sequence[BadRow], *, slot: int, after: int) -> pa.Table:
    """One row for each row that is not an event, numbered after `after`."""
    rows = [_rejected(found, slot, seq) for seq, found in enumerate(bad, after + 1)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rejected(bad: BadRow, slot: int, seq: int) -> dict[str, Any]:
    """It has a time only if that of the input is valid; what is left out here is null."""
    content = msgspec.json.encode([slot, seq, bad.row], enc_hook=repr)
    return {
        SLOT: slot,
        "change_type": "insert",
        "status": "final",
        "match_id": blake2b(content, digest_size=12).hexdigest(),
        "seq": seq,
        "type": REJECTED,
        "ts": bad.ts,
        "payload": msgspec.json.encode(bad.row, enc_hook=repr).decode(),
        "detector": "",
        "cause": bad.reason,
    }
