"""`detect`: a DataFrame of events in, a DataFrame of changes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from betimes.engine import EngineOptions, Hierarchy
from betimes.host import Columns
from betimes.host.rows import COLUMNS
from betimes.model import Duration, OptionError
from betimes.model.hints import did_you_mean
from betimes.spark.intake.selection import check_columns, is_narrow, numbered, take_in
from betimes.spark.job import Job
from betimes.spark.query.batch import detect_batch
from betimes.spark.query.origin import labelled, registered
from betimes.spark.slots.processor import detect_stream
from betimes.spark.telemetry.readings import collected


def detect(
    df: DataFrame,
    hierarchy: Hierarchy,
    *,
    time: str = "ts",
    type: str = "type",
    arrival: str | None = None,
    by: str | None = None,
    order: str = "shared",
    source: str | None = None,
    results: str = "provisional",
    idle: Duration | None = None,
    slots: int | None = None,
    payload: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> DataFrame:
    """Detect complex events in a streaming or batch DataFrame; returns a DataFrame of changes.

    The result has the columns of a change, and `slot`. You can transform it like any other
    DataFrame and then `write` it. The changes of a batch DataFrame include the end of the stream;
    those of a stream do not (see `Run.finish`).

    Parameters:
        df: The events, one per row.
        hierarchy: The detectors.
        time: The column that says when an event occurred: numbers that count `unit`, timestamps, or
            ISO 8601 text.
        type: The column with the type of an event.
        arrival: The column that gives the order of arrival. Without it, a stream arrives in the
            order of its source, and a batch DataFrame is complete: it is sorted by time.
        by: The column with the key; each key is a separate stream.
        order: "shared" for one clock per slot, "key" for one per key.
        source: The column that says which source an event comes from, such as the partition of a
            Kafka topic; each source then has its own clock, and settling waits for the slowest.
        results: "provisional" for early results, "final" for only those that are never taken back.
        idle: After this long without events, time passes with the wall clock, so that results
            settle; without it, they wait for the next event.
        slots: How many engines share the work: 4 with `by`, else 1.
        payload: The columns that detectors read; the others never leave Spark.
        columns: New names for columns of the result, such as `{"ts": "at"}`.
        options: Options of `Engine`.
    """
    wanted = EngineOptions.of(
        options, results=results, function=detect, by=by, order=order, source=source
    )
    job = Job.of(
        hierarchy, Columns(time, type, arrival), wanted, slots=slots, results=results, idle=idle,
        streams=df.isStreaming,
    )  # fmt: skip
    names = _check_names(columns or {})
    check_columns(df, job)
    rows = take_in(df, job, payload)
    if not df.isStreaming:
        return labelled(detect_batch(rows, job), names)
    rows = numbered(rows, job)
    job = replace(job, narrow=is_narrow(rows))
    return registered(collected(detect_stream(rows, job)), job, names)


def _check_names(names: Mapping[str, str]) -> dict[str, str]:
    for name in names:
        if name not in COLUMNS:
            raise OptionError(
                f"expected columns= to rename columns of the changes, {list(COLUMNS)}, got "
                f"{name!r}{did_you_mean(name, COLUMNS)}"
            )
    renamed = [names.get(name, name) for name in COLUMNS]
    if len(set(renamed)) < len(renamed):
        raise OptionError(f"expected columns= to keep names apart, got {renamed}")
    return dict(names)
