"""`Run`: a query at work, until it is stopped or its stream is finished."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from betimes.host.tally import TALLIED, Tally
from betimes.model.hints import known_options
from betimes.spark.query.ending import final_changes, last_batch, plain_place
from betimes.spark.query.failures import RunError, reason
from betimes.spark.query.guard import CheckpointGuard
from betimes.spark.query.origin import Origin, published
from betimes.spark.query.settings import query_settings
from betimes.spark.query.sinks import FrameSink, kept, write_all
from betimes.spark.query.steps import steps_of
from betimes.spark.telemetry.statistics import worked

_POLL = 0.2
"""Seconds between looks at a query: a signal may have to wait this long."""


@known_options
class Run:
    """A query at work. Use it in a `with` statement, or call `stop()`."""

    def __init__(
        self,
        query: StreamingQuery,
        changes: DataFrame,
        origin: Origin,
        guard: CheckpointGuard,
        sinks: Sequence[FrameSink],
        *,
        ends: bool,
    ) -> None:
        self.query = query
        """Spark's own handle of the query."""
        self._changes = changes
        self._origin = origin
        self._guard = guard
        self._sinks = sinks
        self._ends = ends

    def __repr__(self) -> str:
        job = self._origin.job
        slots = "1 slot" if job.slots == 1 else f"{job.slots} slots"
        if self.query.isActive:
            state = "running"
        else:
            state = "failed" if self.query.exception() is not None else "stopped"
        return f"Run({state}, {_batches(self.query)}, {slots}, checkpoint={self._guard.place!r})"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends, at most `timeout` seconds; return whether it has ended.

        If the query fails, this raises a `RunError`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        with self._explained():
            while not self.query.awaitTermination(_POLL):  # type: ignore[arg-type]
                if until is not None and time.monotonic() >= until:
                    return False
        return True

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in plain words why a query has failed."""
        try:
            yield
        except StreamingQueryException as error:
            self._guard.release()
            raise RunError(reason(str(error))) from error

    def stop(self) -> None:
        """Stop now. A micro-batch that is interrupted runs again after a restart."""
        self.query.stop()
        self._guard.release()

    def _take_all(self) -> None:
        """Wait until all input that is there has been taken."""
        if not self._origin.job.idle:
            self.query.processAllAvailable()
            return
        # A query that has to notice silence never comes to rest, and Spark would wait forever. But
        # a micro-batch without rows says that nothing was left.
        before = self.query.lastProgress
        known = -1 if before is None else before.batchId
        while self.query.isActive:
            now = self.query.lastProgress
            if now is not None and now.batchId > known and now.numInputRows == 0:
                return
            time.sleep(_POLL)

    def finish(self, *, advance: bool = True) -> Tally:
        """End the stream: take the input that is there, let everything settle, write the changes.

        Time moves past every open window: windows close, and what did not happen is reported. With
        `advance=False`, time stays at the last event. The checkpoint is closed: no run can resume
        from it. Returns how many changes of each kind `detect` made at the end.

        What you did to the changes between `detect` and `write` is done to the last ones as well.
        That is possible for steps that look at each row alone, such as `filter`, `select`,
        `withColumn`, or a join with a table. Any other step is refused here, before anything stops.
        """
        steps = steps_of(self._changes, self._origin)
        if not self._ends:
            with self._explained():
                self._take_all()
            self.query.stop()
        self.wait()
        spark, job = self._changes.sparkSession, self._origin.job
        with query_settings(spark, job.partitions), plain_place(self._guard.query) as query:
            batch = last_batch(spark, query)
            rows = final_changes(spark, job, query, batch, advance=advance)
            with kept(rows):
                write_all(self._sinks, published(steps(rows), self._changes), batch + 1)
                told = Tally.of(rows.select(*TALLIED).toArrow())
        self._guard.mark_ended(batch + 1)
        self._guard.release()
        return told

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _batches(query: StreamingQuery) -> str:
    """The last micro-batch that was done, in this run or an earlier one."""
    progress = query.lastProgress
    if progress is None:
        return "no report yet"
    last = progress.batchId if worked(progress) else progress.batchId - 1
    return "no batch yet" if last < 0 else f"last batch {last}"
