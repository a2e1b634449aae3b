"""Changes and rejected rows, as Spark takes them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from betimes.model.change import REJECTED, Change, ChangeBatch
from betimes.model.rows import only_final
from betimes.model.times import Rejected
from betimes.spark.job import SLOT, Job

NUMBERS = ("seq", "ts", "detected_at", "slack")
COLUMNS: tuple[str, ...] = (SLOT, *Change.__struct_fields__)
"""The columns of the changes, in order."""


def change_schema() -> StructType:
    """The schema of the DataFrame of changes; only rejected rows have nulls."""
    kinds: dict[str, DataType] = dict.fromkeys(NUMBERS, LongType()) | {SLOT: IntegerType()}
    return StructType([StructField(name, kinds.get(name, StringType())) for name in COLUMNS])


_ARROW = pa.schema(
    [
        pa.field(name, pa.int32() if name == SLOT else pa.int64())
        if name in (SLOT, *NUMBERS)
        else pa.field(name, pa.string())
        for name in COLUMNS
    ]
)


def change_rows(slot: int, changes: ChangeBatch, *, skip: int, results: str) -> pa.Table:
    """Changes as Spark takes them; `skip` numbers were given to rejected rows before."""
    table = changes.to_arrow()
    if skip:
        place = table.column_names.index("seq")
        table = table.set_column(place, "seq", pc.add(table["seq"], skip))
    if results == "final" and len(table):
        table = only_final(table)
    return table.add_column(0, SLOT, pa.array([slot] * len(table), pa.int32()))


def rejected_rows(
    job: Job, slot: int, bad: list[tuple[Rejected, dict[str, Any]]], *, after: int
) -> pa.Table:
    """One row for each row that is not an event, numbered after `after`."""
    rows = [_rejected_row(job, slot, after + n, *item) for n, item in enumerate(bad, 1)]
    return pa.Table.from_pylist(rows, schema=_ARROW)


def _rejected_row(
    job: Job, slot: int, seq: int, bad: Rejected, row: dict[str, Any]
) -> dict[str, Any]:
    content = msgspec.json.encode([slot, seq, row], enc_hook=repr)
    ts = row[job.time]
    return {
        SLOT: slot,
        "change_type": "insert",
        "status": "final",
        "match_id": blake2b(content, digest_size=12).hexdigest(),
        "seq": seq,
        "type": REJECTED,
        "ts": ts if isinstance(ts, int) else None,
        "payload": msgspec.json.encode(row, enc_hook=repr).decode(),
        "detector": "",
        "cause": bad.reason,
    }
