"""Iterative calibration as a batch job: the slots of a recorded stream run side by side.

Each run over the recording is one Spark job. It brings the rows to their slots as `detect` does,
every slot measures with its own engine, and one record per slot comes back. A detector must start
with what the worst of its slots needs, so the largest of each value is taken, and the next run
starts all slots with it. `betimes.calibration.iterative` says how many runs there are, and
why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from betimes.calibration.iterative import (
    OnRun,
    check_end,
    iterate,
    measure_stream,
    measuring_options,
)
from betimes.calibration.probes import Measured
from betimes.engine import Calibration, EngineOptions, Hierarchy
from betimes.host import Columns
from betimes.model import OptionError
from betimes.spark.intake.selection import check_columns, take_in
from betimes.spark.job import Job
from betimes.spark.query.batch import in_slots, pieces

_RECORD = "measured binary"


def calibrate(
    df: DataFrame,
    hierarchy: Hierarchy,
    *,
    time: str = "ts",
    type: str = "type",
    arrival: str | None = None,
    by: str | None = None,
    order: str = "shared",
    slots: int | None = None,
    payload: Sequence[str] | None = None,
    end: str = "advance",
    max_runs: int | None = None,
    on_run: OnRun | None = None,
    measured_on: str = "a recorded stream",
    **options: Any,
) -> Calibration:
    """Find out from a recorded stream what the detectors of a hierarchy should start with.

    The parameters are those of `detect` and of `betimes.calibrate`. Use as many slots as the stream
    will run with: what a slot sees of the clock depends on its keys.
    """
    check_end(end)
    if df.isStreaming:
        raise OptionError(
            "expected a batch DataFrame, got a stream: calibration reads a recorded stream "
            "several times; read it with spark.read"
        )
    wanted = measuring_options(
        EngineOptions.of(options, function=calibrate, by=by, order=order)
    )  # fmt: skip
    columns = Columns(time, type, arrival)

    def measure(current: Calibration) -> Measured:
        job = Job.of(hierarchy, columns, wanted.with_(calibration=current), slots=slots)
        check_columns(df, job)
        return _measure(take_in(df, job, payload), job, end)

    return iterate(
        hierarchy,
        measure,
        margin=wanted.margin,
        max_runs=max_runs,
        on_run=on_run,
        measured_on=measured_on,
    )


def _measure(rows: DataFrame, job: Job, end: str) -> Measured:
    """One run: what all slots measured."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for measured in measure_slots(job, batches, end):
            record = pa.array([msgspec.msgpack.encode(measured)], pa.binary())
            yield pa.RecordBatch.from_arrays([record], ["measured"])

    total = Measured()
    for record in in_slots(rows, job).mapInArrow(run, _RECORD).collect():
        total.add(msgspec.msgpack.decode(record.measured, type=Measured))
    return total


def measure_slots(job: Job, batches: Iterator[pa.RecordBatch], end: str) -> Iterator[Measured]:
    """Feed rows that come slot by slot, each slot in order of arrival."""
    for _, mine in groupby(pieces(batches), key=itemgetter(0)):
        events = (job.columns.sift(rows, job.options.unit)[0] for _, rows in mine)
        yield measure_stream(job.hierarchy, job.options, events, end)
