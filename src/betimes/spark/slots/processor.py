"""The processor of the stateful operator, as code that travels by value.

Before the first micro-batch, Spark asks for the variables of the state. It starts a Python process
just for that, from scratch, and the query waits for it. Most of that time went into loading
betimes, of which the process needs nothing. Python loads the module of a class that it unpickles,
unless the class is defined inside a function: then it travels as code. So the class here loads what
it needs when it gets rows, and carries its job as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from betimes.spark.intake.packing import PACKED, packer
from betimes.spark.intake.routing import ROUTE
from betimes.spark.job import Job
from betimes.spark.slots.operator import HEAD, LOG, VOLUMES, Part
from betimes.spark.slots.rows import change_schema

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues


def processor_of(job: Job, part: Part = "alone") -> StatefulProcessor:
    """What Spark calls for the slots of a job."""
    shipped = bytes(cloudpickle.dumps(job))  # type: ignore[no-untyped-call]

    class SlotProcessor(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._parts = (
                handle,
                handle.getValueState(HEAD, "note binary"),
                handle.getListState(LOG, "entry binary"),
                handle.getMapState(VOLUMES, "name binary", "volume binary"),
            )

        def handleInputRows(  # type: ignore[override] # frames go in, so frames come out
            self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
        ) -> Iterator[pd.DataFrame]:
            from betimes.spark.slots.operator import Slot

            yield from Slot(part, shipped, *self._parts).feed(int(key[0]), rows, timerValues)

        def handleExpiredTimer(
            self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
        ) -> Iterator[pd.DataFrame]:
            del expiredTimerInfo
            yield from self.handleInputRows(key, iter(()), timerValues)

        def close(self) -> None:
            pass

    return SlotProcessor()


def detect_stream(rows: DataFrame, job: Job) -> DataFrame:
    """The changes of a stream of rows that have their slot, and perhaps numbers for types."""
    packed = rows.mapInArrow(packer(job), PACKED)
    if not job.chained:
        return _operator(packed, job, "alone", change_schema())
    cut = _operator(packed, job, "splitter", PACKED)
    answered = _operator(cut, job, "station", PACKED)
    return _operator(answered, job, "merger", change_schema())


def _operator(rows: DataFrame, job: Job, part: Part, schema: StructType | str) -> DataFrame:
    timed = job.idle and part in ("alone", "splitter")
    return rows.groupBy(ROUTE).transformWithStateInPandas(
        processor_of(job, part), schema, "Append", "ProcessingTime" if timed else "None"
    )
