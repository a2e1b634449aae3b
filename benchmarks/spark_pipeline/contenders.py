"""The contenders: plans that take a stream of events and a number of slots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.spark_pipeline.by_hand import (
    MATCHES,
    advance,
    advance_tuned,
    frame,
    group_state,
    with_state,
)
from benchmarks.spark_pipeline.files import SCHEMA
from betimes import Hierarchy, pattern
from betimes import spark as bs

Plan = Callable[[DataFrame, int], DataFrame]


def touches() -> Hierarchy:
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(pattern("A !(A|B) C", by="key", emits="match"))
    return hierarchy


def detect(events: DataFrame, slots: int) -> DataFrame:
    return bs.detect(
        events, touches(), arrival="seq", by="key", slots=slots, payload=(), attenuation=0.3
    )


def everything(events: DataFrame) -> DataFrame:
    return events.select("ts", "type", "key")


def only_pattern(events: DataFrame) -> DataFrame:
    return everything(events.filter(F.col("type").isin("A", "B", "C")))


def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def carried(size: int) -> Plan:
    """Another stateful operator that holds `size` bytes of state and never changes them."""

    def handle(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows = sum(map(len, frames))
        state.update(state.get if state.exists else (os.urandom(size),))
        yield frame(int(key[0]), [(rows, rows)])

    def plan(events: DataFrame, slots: int) -> DataFrame:
        del slots
        rows = events.select("ts", F.lit(0).alias("key"))
        return rows.groupBy("key").applyInPandasWithState(
            handle, MATCHES, "state binary", "append", GroupStateTimeout.NoTimeout
        )

    return plan


class Storing(StatefulProcessor):
    """Stores what comes, and makes nothing of it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", "note binary")
        self._log = handle.getListState("log", "entry binary")

    def handleInputRows(  # type: ignore[override] # frames go in, so frames come
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        del key, timerValues
        self._head.get()
        for stream in (stream for some in rows for stream in some["stream"]):
            self._log.appendValue((stream,))
        self._head.update((b"head",))
        yield from ()

    def close(self) -> None:
        pass


STORED = 1.4
"""Bytes that `detect` stores per row of the stream."""


def floor(events: DataFrame, slots: int) -> DataFrame:
    """The plan of `detect` with nothing in it: all rows to Python, few bytes on to the operator."""
    del slots

    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            stream = os.urandom(int(STORED * batch.num_rows))
            columns: list[Any] = [pa.array([0], pa.int32()), pa.array([stream])]
            yield pa.RecordBatch.from_arrays(columns, names=["route", "stream"])

    number = F.when(F.col("type") == "X", F.lit(0)).when(F.col("type") == "A", F.lit(1))
    rows = events.withColumn("type", number.otherwise(F.lit(2)).cast("byte"))
    packed = rows.mapInArrow(drop, "route int, stream binary").groupBy("route")
    return packed.transformWithStateInPandas(Storing(), MATCHES, "Append", "None")


HANDMADE = ("applyInPandas", "transformWith")
CONTENDERS: dict[str, Plan] = {
    "ceiling": lambda events, _: events.mapInArrow(hand_on, SCHEMA),
    "detect": detect,
    "floor": floor,
    HANDMADE[0]: lambda events, _: group_state(everything(events), advance),
    HANDMADE[1]: lambda events, _: with_state(everything(events)),
    "tuned": lambda events, _: group_state(everything(events), advance_tuned),
    "filtered": lambda events, _: group_state(only_pattern(events), advance_tuned),
}
