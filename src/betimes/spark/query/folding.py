"""Reading changes: the table as it stands, late rows, rejected rows.

A table that is merged by `match_id` is always right: `insert` and `confirm` put a row there,
`delete` takes it away. Of all changes with one `match_id`, which all come from one slot, the newest
says whether the row stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from betimes.model import OptionError
from betimes.model.change import LATE, REJECTED
from betimes.spark.query.detection import job_of, marked, names_of
from betimes.spark.query.places import is_remote


def table(
    changes: DataFrame, type: str | None = None, *, schema: StructType | str | None = None
) -> DataFrame:
    """The result as it stands: what was detected, of one `type` or of all, without what was undone.

    With `schema`, the payload becomes columns: give their types (`"player string, a double"`), or
    `"infer"` to have them found in the data. `changes` is what `detect` made of a batch, or what a
    sink of `write` holds.
    """
    if changes.isStreaming:
        raise OptionError(
            "expected changes that are at rest, got a stream: a stream has no table; read the sink "
            "that write() fills, or have write(current=...) keep the table"
        )
    names = names_of(changes)
    kind, match, order = (names.get(name, name) for name in ("type", "match_id", "seq"))
    rows = changes.filter(~F.col(kind).isin(LATE, REJECTED))
    if type is not None:
        rows = rows.filter(F.col(kind) == type)
    newest = Window.partitionBy(match).orderBy(F.col(order).desc())
    rows = rows.withColumn("_newest", F.row_number().over(newest)).filter("_newest = 1")
    change = names.get("change_type", "change_type")
    rows = rows.filter(F.col(change) != "delete").drop("_newest", change)
    return rows if schema is None else _typed(rows, names.get("payload", "payload"), schema)


def late(changes: DataFrame) -> DataFrame:
    """The events that came too late to be handled, one row each."""
    return _side(changes, LATE)


def rejected(changes: DataFrame) -> DataFrame:
    """The rows that were no events, and clock events that were absurdly far ahead."""
    return _side(changes, REJECTED)


def _side(changes: DataFrame, type: str) -> DataFrame:
    names = names_of(changes)
    rows = changes.filter(F.col(names.get("type", "type")) == type)
    job = job_of(changes)
    return rows if job is None else marked(rows, job, names)


def _typed(rows: DataFrame, payload: str, schema: StructType | str) -> DataFrame:
    if schema == "infer":
        if is_remote(rows):
            raise OptionError(
                "schema='infer' needs RDDs, which Spark Connect does not have; give the types, "
                "as in schema='player string, a double'"
            )
        texts = rows.select(payload)
        schema = texts.sparkSession.read.json(texts.rdd.map(lambda row: row[0])).schema
    fields = F.from_json(F.col(payload), schema)
    return rows.withColumn(payload, fields).select("*", f"{payload}.*").drop(payload)


def merged(before: DataFrame | None, changes: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """The table after a batch of changes; at most one change a `match_id` is in a batch."""
    kind, match, change = (names.get(n, n) for n in ("type", "match_id", "change_type"))
    rows = changes.filter(~F.col(kind).isin(LATE, REJECTED))
    new = rows.filter(F.col(change) != "delete").drop(change)
    if before is None:
        return new
    return before.join(rows.select(match), on=match, how="left_anti").unionByName(new)
