"""Reading changes: the table as it stands, late rows, rejected rows.

A table that is merged by `match_id` is always right: `insert` and `confirm` put a row in, `delete`
takes it out. All changes with one `match_id` come from one slot, and the newest of them says
whether the row stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from betimes.model import OptionError
from betimes.model.change import LATE, REJECTED
from betimes.model.hints import known_options
from betimes.spark.query.origin import names_of, require
from betimes.spark.query.places import is_remote


@known_options
def table(
    changes: DataFrame, type: str | None = None, *, schema: StructType | str | None = None
) -> DataFrame:
    """The result as it stands: what was detected, without what was taken back.

    Parameters:
        changes: What `detect` made of a batch DataFrame, or what a sink of `write` holds. You can
            transform it before, as long as `type`, `match_id`, `seq` and `change_type` stay.
        type: Only results of this type.
        schema: The types of the payload's fields, which then become columns, such as
            `"player string, a double"`; or `"infer"` to find them in the data.
    """
    if changes.isStreaming:
        raise OptionError(
            "expected changes that are at rest, got a stream: a stream has no table; read the sink "
            "that write() fills, or let write(current=...) keep the table and read it with "
            "current()"
        )
    names = names_of(changes)
    require(names, ["type", "match_id", "seq", "change_type"], "table()")
    rows = changes.filter(~F.col(names["type"]).isin(LATE, REJECTED))
    if type is not None:
        rows = rows.filter(F.col(names["type"]) == type)
    newest = Window.partitionBy(names["match_id"]).orderBy(F.col(names["seq"]).desc())
    rows = rows.withColumn("_newest", F.row_number().over(newest)).filter("_newest = 1")
    change = names["change_type"]
    rows = rows.filter(F.col(change) != "delete").drop("_newest", change)
    if schema is None:
        return rows
    require(names, ["payload"], "schema=")
    return typed(rows, names["payload"], schema)


def late(changes: DataFrame) -> DataFrame:
    """The events that came too late to be handled, one row each."""
    return _side(changes, LATE)


def rejected(changes: DataFrame) -> DataFrame:
    """The rows that are not events, and clock events that were absurdly far ahead."""
    return _side(changes, REJECTED)


def _side(changes: DataFrame, type: str) -> DataFrame:
    names = names_of(changes)
    require(names, ["type"], f"{type}()")
    return changes.filter(F.col(names["type"]) == type)


def typed(rows: DataFrame, payload: str, schema: StructType | str) -> DataFrame:
    """The rows with the fields of the payload as columns."""
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
    """The table after a batch of changes, which has at most one change per `match_id`."""
    kind, match, change = (names[name] for name in ("type", "match_id", "change_type"))
    rows = changes.filter(~F.col(kind).isin(LATE, REJECTED))
    new = rows.filter(F.col(change) != "delete").drop(change)
    if before is None:
        return new
    return before.join(rows.select(match), on=match, how="left_anti").unionByName(new)
