"""The table as it stands, in a folder: how `write(current=...)` keeps it, and how to read it.

The folder has one version of the whole table for each of the last micro-batches, `batch=N`. A
version is complete when Spark has put a file `_SUCCESS` there. A micro-batch writes its version
beside the one before and then removes those that are older, if they are on this machine. So a
reader who takes the newest complete version never meets a table that is half written, and can go on
reading it while the next version is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from betimes.model import BetimesError
from betimes.model.hints import known_options
from betimes.spark.query.folding import merged, typed
from betimes.spark.query.origin import names_of
from betimes.spark.query.places import literal, local_path, subfolders

VERSION = "batch"
"""A version is in a folder `batch=N`."""

ATTEMPTS = 5
"""How often to look for the newest version; it can only vanish if two newer ones are written."""


class NoTableError(BetimesError, FileNotFoundError):
    """There is no table that `write(current=...)` keeps."""


@known_options
def current(
    spark: SparkSession,
    path: str,
    type: str | None = None,
    *,
    schema: StructType | str | None = None,
) -> DataFrame:
    """Read the table that `write(current=path)` keeps: what stands after its last micro-batch.

    You can call it at any time, also while the query runs: you get one complete version of the
    table. That version stays in place until the query has written two more; call `current` again
    for a newer one, or `cache()` the result to keep it.

        run = bt.spark.write(changes, "changes/", checkpoint="checkpoint/", current="hits/")
        hits = bt.spark.current(spark, "hits/", "hit", schema="player string, force double")
        hits.groupBy("player").count().show()

    Parameters:
        spark: The session to read with; it need not be that of the query.
        path: The folder that `write` was given as `current=`.
        type: Only results of this type.
        schema: The types of the payload's fields, which then become columns, or "infer".
    """
    rows = _newest(spark, path)
    names = names_of(rows)
    if type is not None:
        rows = rows.filter(F.col(names["type"]) == type)
    return rows if schema is None else typed(rows, names["payload"], schema)


def _newest(spark: SparkSession, path: str) -> DataFrame:
    for attempt in range(ATTEMPTS):
        versions = _versions(spark, path)
        if not versions:
            break
        try:
            rows = spark.read.parquet(literal(f"{path}/{VERSION}={versions[-1]}"))
            _ = rows.schema  # with Spark Connect, a folder is looked at only now
        except AnalysisException:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        return rows
    raise NoTableError(
        f"expected a table that write(current=...) keeps in path={path!r}, found no complete "
        "version of one; check the path, or wait for the first micro-batch of the query"
    )


def _versions(spark: SparkSession, path: str) -> list[int]:
    """The complete versions, oldest first."""
    return sorted(subfolders(spark, path, VERSION))


@dataclass(frozen=True)
class CurrentSink:
    """The table as it stands: every micro-batch is merged into it by `match_id`."""

    NEEDS: ClassVar[tuple[str, ...]] = ("type", "match_id", "change_type")

    path: str
    names: Mapping[str, str]

    @property
    def folder(self) -> str:
        return self.path

    def write(self, changes: DataFrame, batch: int) -> None:
        spark = changes.sparkSession
        versions = [n for n in _versions(spark, self.path) if n < batch]
        before = None
        if versions:
            before = spark.read.parquet(literal(f"{self.path}/{VERSION}={versions[-1]}"))
        table = merged(before, changes, self.names)
        table.coalesce(1).write.mode("overwrite").parquet(f"{self.path}/{VERSION}={batch}")
        for version in versions[:-1]:
            folder = local_path(f"{self.path}/{VERSION}={version}")
            if folder is not None:
                shutil.rmtree(folder)
