"""The source of a job as a recording that calibration reads from start to end, several times."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from betimes.calibration import calibrate as calibrate_locally
from betimes.calibration.iterative import OnRun
from betimes.cli.jobs.io.files import Position
from betimes.cli.jobs.io.sources import source_of
from betimes.cli.jobs.jobfile.hierarchies import importing_from
from betimes.cli.jobs.jobfile.lines import Heading
from betimes.cli.jobs.jobfile.tables import FILES, JobFile
from betimes.cli.jobs.running.on_spark import in_words, session_of, static_rows
from betimes.cli.jobs.running.progress import EVERY, Progress
from betimes.engine import Calibration, Hierarchy
from betimes.model import EventBatch


def check_recording(job: JobFile) -> None:
    """Refuse a source that has no end or no order of arrival."""
    source, problems = job.source, job.problems
    if source.format not in (*FILES, "simulate"):
        problems.add(
            Heading("source"), "format", "calibration reads a recording several times, and this "
            f"source has no end; record a part of it as one of {', '.join(FILES)}"
        )  # fmt: skip
    elif job.engine.kind == "spark" and source.format != "simulate" and source.arrival is None:
        problems.add(
            Heading("source"), None, "Spark reads files in parallel: set arrival to the column "
            'that gives the order of arrival, or set kind = "local" in [engine]'
        )  # fmt: skip
    problems.stop_if_any()


def recorded(job: JobFile, progress: Progress) -> Callable[[], Iterator[EventBatch]]:
    """A function that reads the batches of a job's source from the beginning."""
    source = job.source

    def batches() -> Iterator[EventBatch]:
        rows, said = 0, time.monotonic()
        for table, _ in source_of(job).batches(Position(), source.batch_rows):
            yield job.columns.sift(table, source.unit)[0]
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
    """Calibrate by running the recording, here or on Spark as the job says."""
    common: dict[str, Any] = {
        "end": job.source.end,
        "max_runs": max_runs,
        "on_run": on_run,
        "measured_on": measured_on,
        "by": job.source.by,
        "unit": job.source.unit,
        **({} if job.source.clocks is None else {"source": job.source.clocks}),
        **job.detect.options,
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
        in_words(),
    ):
        rows = static_rows(session_of(job, progress), job, Path(folder) / "simulated")
        return bs.calibrate(
            rows, hierarchy, time=job.source.time, type=job.source.type, arrival=arrival,
            slots=job.engine.slots, **common,
        )  # fmt: skip
