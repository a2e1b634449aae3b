"""The schema of changes, as Spark takes it."""

from __future__ import annotations

from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from betimes.host.rows import COLUMNS, NUMBERS, SLOT


def change_schema() -> StructType:
    """The schema of the DataFrame of changes; only rejected rows have nulls."""
    kinds: dict[str, DataType] = dict.fromkeys(NUMBERS, LongType()) | {SLOT: IntegerType()}
    return StructType([StructField(name, kinds.get(name, StringType())) for name in COLUMNS])
