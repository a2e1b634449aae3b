"""The source of a job as a recording: read from its beginning to its end, as often as it takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from betimes.cli.jobs.files import Position
from betimes.cli.jobs.hierarchies import engine_options, importing_from
from betimes.cli.jobs.jobfile import FILES, JobFile
from betimes.cli.jobs.lines import Place
from betimes.cli.jobs.on_spark import in_words, session_of, static_rows
from betimes.cli.jobs.progress import EVERY, Progress
from betimes.cli.jobs.rows import events_of
from betimes.cli.jobs.sources import source_of
from betimes.engine import Calibration, Hierarchy
from betimes.engine import calibrate as calibrate_locally
from betimes.engine.calibration.iterative import OnRun
from betimes.model import EventBatch


def check_recording(job: JobFile) -> None:
    """Refuse a source that has no end, or no order of arrival."""
    source, problems = job.source, job.problems()
    if source.format not in (*FILES, "simulate"):
        problems.add(
            Place("source"), "format", "calibration runs a recording several times, and this has "
            f"no end; record a piece of it, and use one of {', '.join(FILES)}"
        )  # fmt: skip
    elif job.engine.kind == "spark" and source.format != "simulate" and source.arrival is None:
        problems.add(
            Place("source"), None, "Spark reads files side by side: name the column that gives the "
            'order of arrival with arrival, or use kind = "local" in [engine]'
        )  # fmt: skip
    problems.stop_if_any()


def recorded(job: JobFile, progress: Progress) -> Callable[[], Iterator[EventBatch]]:
    """A function that gives the batches of a job's source anew."""
    source = job.source

    def batches() -> Iterator[EventBatch]:
        rows, said = 0, time.monotonic()
        for table, _ in source_of(job).batches(Position(), source.batch_rows):
            batch, _ = events_of(
                table, time=source.time, type=source.type, arrival=source.arrival
            )  # fmt: skip
            yield batch
            rows += len(table)
            if time.monotonic() - said > EVERY:
                said = time.monotonic()
                progress.note(f"{rows:,} rows so far")

    return batches


def calibrate_on(
    job: JobFile,
    hierarchy: Hierarchy,
    progress: Progress,
    *,
    max_runs: int | None,
    on_run: OnRun,
    measured_on: str,
) -> Calibration:
    """Iterative calibration with the engine that the job names."""
    common: dict[str, Any] = {
        "end": job.source.end,
        "max_runs": max_runs,
        "on_run": on_run,
        "measured_on": measured_on,
        "by": job.source.by,
        "order": job.detect.order,
        **engine_options(job),
    }
    if job.engine.kind == "local":
        return calibrate_locally(hierarchy, recorded(job, progress), **common)
    return _on_spark(job, hierarchy, progress, common)


def _on_spark(
    job: JobFile, hierarchy: Hierarchy, progress: Progress, common: dict[str, Any]
) -> Calibration:
    from betimes import spark as bs

    arrival = job.source.arrival or ("seq" if job.source.format == "simulate" else None)
    with (
        tempfile.TemporaryDirectory(prefix="betimes-") as folder,
        importing_from(job.folder),
    ):
        session = session_of(job, progress)
        try:
            rows = static_rows(session, job, Path(folder) / "simulated")
            return bs.calibrate(
                rows, hierarchy, time=job.source.time, type=job.source.type, arrival=arrival,
                slots=job.engine.slots, **common,
            )  # fmt: skip
        except Exception as error:
            if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
                raise in_words(error) from error
            raise
