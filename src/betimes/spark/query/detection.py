"""`detect`: a DataFrame of events in, a DataFrame of changes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pyspark.sql import DataFrame

from betimes.engine import Hierarchy
from betimes.model import Duration, OptionError
from betimes.spark.intake.selection import check_columns, is_narrow, numbered, take_in
from betimes.spark.job import Job
from betimes.spark.query.batch import detect_batch
from betimes.spark.slots.operator import detect_stream
from betimes.spark.slots.rows import COLUMNS
from betimes.spark.telemetry.readings import collected

_JOB = "_betimes_job"
_NAMES = "_betimes_names"


def detect(
    df: DataFrame,
    hierarchy: Hierarchy,
    *,
    time: str = "ts",
    type: str = "type",
    arrival: str | None = None,
    by: str | None = None,
    order: str = "shared",
    results: str = "provisional",
    idle: Duration | None = None,
    slots: int | None = None,
    payload: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> DataFrame:
    """Detect complex events in a streaming (or batch) DataFrame; the result is one of changes.

    `time`, `type` and `arrival` name columns; without `arrival` rows count as arriving in the order
    of the source. With `by` every value of that column is a stream of its own, and the work is
    spread over `slots` (4 if you do not say otherwise). `results="final"` gives only rows that are
    never taken back. If nothing comes for as long as `idle`, time passes with the clock on the
    wall, so that results settle; without it they wait for the next event. `payload` names the
    columns that detectors read, so that others stay where they are; `columns` renames columns of
    the result. Other options are those of `Engine`.

    The result has the columns of a change and `slot`. The changes of a batch DataFrame include the
    end of the stream; those of a streaming one do not (see `write`).
    """
    job = Job.of(
        hierarchy, time=time, type=type, arrival=arrival, by=by, order=order, results=results,
        idle=idle,
        slots=slots if slots is not None else 1 if by is None else 4, options=options,
    )  # fmt: skip
    names = _check_names(columns or {})
    check_columns(df, job)
    rows = take_in(df, job, payload)
    if df.isStreaming:
        rows = numbered(rows, job)
        job = replace(job, narrow=is_narrow(rows))
        changes = collected(detect_stream(rows, job))
    else:
        changes = detect_batch(rows, job)
    return marked(changes.withColumnsRenamed(names) if names else changes, job, names)


def marked(changes: DataFrame, job: Job, names: Mapping[str, str]) -> DataFrame:
    """The same DataFrame, which remembers what it was made by."""
    setattr(changes, _JOB, job)
    setattr(changes, _NAMES, dict(names))
    return changes


def job_of(changes: DataFrame) -> Job | None:
    """The job that made a DataFrame of changes, unless it was transformed since."""
    # Not getattr: a DataFrame of Spark Connect takes any name for a column's.
    job: Job | None = vars(changes).get(_JOB)
    return job


def names_of(changes: DataFrame) -> dict[str, str]:
    """What the columns of a DataFrame of changes were renamed to."""
    names: dict[str, str] = vars(changes).get(_NAMES, {})
    return names


def _check_names(names: Mapping[str, str]) -> dict[str, str]:
    for name in names:
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(
                f"expected columns= to rename columns of the changes, {list(COLUMNS)}, got "
                f"{name!r}{hint}"
            )
    renamed = [names.get(name, name) for name in COLUMNS]
    if len(set(renamed)) < len(renamed):
        raise OptionError(f"expected columns= to keep names apart, got {renamed}")
    return dict(names)
