"""What leaves the JVM: the columns and rows that are needed, each row with its slot.

Whatever is wrong with the columns of a DataFrame is found here, before a query starts. Rows of
types that no detector reads and that do not move the clock are filtered out where they are read;
the difference to the rows that came through says how many there were. Rows without a time or a type
always pass: they are reported, not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from betimes.model import EventError
from betimes.model.hints import did_you_mean
from betimes.spark.job import ROW_SLOT, Job

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TIMES = (*_WHOLE, FloatType, DoubleType, TimestampType, TimestampNTZType)
_KEYS = (*_WHOLE, StringType)
_NARROW = (*_TIMES, DateType, BooleanType)
_POINTS = (TimestampType, TimestampNTZType, DateType, DecimalType)


def check_columns(df: DataFrame, job: Job) -> None:
    """Refuse a DataFrame whose columns are missing or of the wrong type."""
    kinds = {field.name: field.dataType for field in df.schema}
    columns, by, source = job.columns, job.options.by, job.options.source
    roles = {
        "time": columns.time, "type": columns.type, "arrival": columns.arrival, "by": by,
        "source": source,
    }  # fmt: skip
    for role, name in roles.items():
        if name is not None and name not in kinds:
            raise EventError(
                f"expected a column {name!r} ({role}=), got the columns {list(kinds)}; name the "
                f"right one with {role}={did_you_mean(name, kinds)}"
            )
    _expect(columns.time, "time", kinds, (*_TIMES, StringType), "numbers, timestamps or ISO text")
    _expect(columns.type, "type", kinds, (StringType,), "text")
    if columns.arrival is not None:
        _expect(columns.arrival, "arrival", kinds, (*_TIMES, StringType), "numbers, times or text")
    if by is not None:
        _expect(by, "by", kinds, _KEYS, "whole numbers or text")
    if source is not None:
        _expect(source, "source", kinds, _KEYS, "whole numbers or text")
    for name, kind in kinds.items():
        if not isinstance(kind, _POINTS) and _holds(kind, _POINTS):
            raise EventError(
                f"expected plain values inside the column {name!r}, got {kind.simpleString()}: "
                "times, dates and decimals inside arrays, maps and structs cannot be stored; cast "
                "them to numbers or text, or drop the column"
            )


def _expect(
    name: str,
    role: str,
    kinds: dict[str, DataType],
    allowed: tuple[type[DataType], ...],
    words: str,
) -> None:
    kind = kinds[name]
    if not isinstance(kind, allowed):
        raise EventError(
            f"expected {words} in the column {name!r} ({role}=), got {kind.simpleString()}; cast "
            f"it first, or name another column with {role}="
        )


def _holds(kind: DataType, what: tuple[type[DataType], ...]) -> bool:
    if isinstance(kind, ArrayType):
        return _holds(kind.elementType, what)
    if isinstance(kind, MapType):
        return _holds(kind.keyType, what) or _holds(kind.valueType, what)
    if isinstance(kind, StructType):
        return any(_holds(field.dataType, what) for field in kind)
    return isinstance(kind, what)


def take_in(df: DataFrame, job: Job, columns: Sequence[str] | None) -> DataFrame:
    """The rows and columns that are needed, each row with its slot if there are several."""
    kept = df if columns is None else df.select(*_needed(df, job, columns))
    wanted = _wanted(job)
    if wanted is not None:
        kept = kept.filter(wanted)
    if job.options.by is None or job.slots == 1:
        return kept
    # Whole numbers stay as they are: turning each into text would cost more than reading it.
    whole = (ByteType, ShortType, IntegerType, LongType)
    kind = "long" if isinstance(df.schema[job.options.by].dataType, whole) else "string"
    slot = F.pmod(F.xxhash64(F.col(quoted(job.options.by)).cast(kind)), F.lit(job.slots))
    return kept.withColumn(ROW_SLOT, slot.cast("int"))


def numbered(rows: DataFrame, job: Job) -> DataFrame:
    """The rows with numbers for types if there are few: handing text to Python costs more."""
    types = job.numbered
    if types is None:
        return rows
    name = F.col(quoted(job.columns.type))
    number = reduce(
        lambda found, n: found.when(name == types[n], F.lit(n)),
        range(1, len(types)),
        F.when(name == types[0], F.lit(0)),
    )
    return rows.withColumn(job.columns.type, number.cast("byte"))


def is_narrow(rows: DataFrame) -> bool:
    """Whether every column has a small, fixed size."""
    return all(isinstance(field.dataType, _NARROW) for field in rows.schema)


def _wanted(job: Job) -> Column | None:
    types = job.wanted
    if types is None:
        return None
    name = F.col(quoted(job.columns.type))
    conditions = [name.isin(*types), name.isNull()]
    if job.hierarchy.inputs is not None:
        # The engine refuses types that were not declared, so it must see them.
        conditions.append(~name.isin(*job.hierarchy.inputs))
    return reduce(or_, conditions)


def _needed(df: DataFrame, job: Job, columns: Sequence[str]) -> list[str]:
    unknown = [name for name in columns if name not in df.columns]
    if unknown:
        raise EventError(
            f"expected payload= to name columns of the DataFrame, got {unknown}, which are not "
            f"among {df.columns}"
        )
    keys = [node.by for node in job.hierarchy]
    wanted = {
        job.columns.time,
        job.columns.type,
        job.columns.arrival,
        job.options.by,
        job.options.source,
        *columns,
        *keys,
    }
    return [quoted(name) for name in df.columns if name in wanted]


def quoted(name: str) -> str:
    """The name of a column that may have dots in it."""
    return "`" + name.replace("`", "``") + "`"
