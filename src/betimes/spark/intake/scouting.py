"""Where rows are read: transactions run ahead of the slot's engine, on many executors at once.

Only the driver can start tasks on other executors, and every micro-batch has such tasks already:
those that read and pack its rows. So these run the transactions of their rows, on the state that
the slot has published after the micro-batch before (`betimes.transactions.foresight` says why that
is safe, and `betimes.host.published` how). What came of it travels with the packed rows.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark import TaskContext

from betimes.host.published import Reader
from betimes.spark.intake.thinning import IDLE
from betimes.spark.job import Job
from betimes.transactions.scouts import run_ahead

PUBLISHED = "spark.betimes.published"
"""The setting with the folder where a slot publishes its state."""

FOLDER = "ahead"
"""The name of that folder, in the checkpoint."""

_reader = Reader()
"""What this worker process has read; it reads only what is new."""


def published_at() -> str:
    """In a task: the folder where a slot publishes its state; empty if it does not."""
    task = TaskContext.get()
    return "" if task is None else task.getLocalProperty(PUBLISHED) or ""


class Scout:
    """Runs the transactions of one partition ahead."""

    def __init__(self, job: Job) -> None:
        self._job = job
        place = published_at() if job.scouted else ""
        self._states = _reader.read(place) if place else {}

    def run(self, rows: pa.Table) -> bytes:
        """What comes of the transactions of these rows; empty if nobody wants to know."""
        if not self._states:
            return b""
        job = self._job
        if IDLE in rows.column_names:
            rows = rows.drop_columns([IDLE])
        batch, _ = job.columns.sift(rows, job.options.unit, source=job.options.source)
        return run_ahead(job.hierarchy, self._states, list(batch))
