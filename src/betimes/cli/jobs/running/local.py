"""`kind = "local"`: the job in this process.

Each batch takes four steps: read rows, feed the engine, write the changes under the number of the
batch, and, every few batches, replace the checkpoint. The end of the input is one more batch, with
the changes that the engine makes when the stream ends. Signals are handled between batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import Enum

import pyarrow as pa

from betimes.cli.jobs.io.files import Position
from betimes.cli.jobs.io.sinks import Sink
from betimes.cli.jobs.io.sources import Source
from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.cli.jobs.running.progress import Progress, Reading
from betimes.cli.jobs.running.restarts import Checkpoint
from betimes.cli.jobs.running.stopping import Stop
from betimes.cli.jobs.running.totals import Meter
from betimes.host import Host
from betimes.host.host import milliseconds

SHARE = 0.1
"""The share of time that checkpoints may take, unless the job sets checkpoint_every."""

_FOLLOW = 0.5
"""Seconds between two checks for new files."""


class Outcome(Enum):
    """Why a run ended."""

    ended = "the stream has ended"
    open = "all input so far is done; more may come"
    stopped = "stopped before the end"


class LocalJob:
    """A job at work in this process."""

    def __init__(
        self,
        job: JobFile,
        host: Host,
        source: Source,
        sink: Sink,
        checkpoint: Checkpoint,
        *,
        progress: Progress,
        stop: Stop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._source = source
        self._sink = sink
        self._checkpoint = checkpoint
        self._progress = progress
        self._stop = stop
        self._clock = clock
        self._host = host
        self._saved = checkpoint.new()
        self._meter = Meter(self._saved.totals)
        self._idle = milliseconds(job.engine.idle)
        self._last_save = clock(), 0.0
        """When the last checkpoint was complete, and how long it took."""

    def run(self, *, follow: bool) -> Outcome:
        """Run from the checkpoint, or from the beginning, until the end or a stop."""
        self._resume()
        self._source.news()
        with self._progress:
            stopped = self._read_all()
            while follow and not stopped:
                stopped = self._stop.wait(_FOLLOW) or (self._source.news() and self._read_all())
                self._pass_time()
            if not stopped:
                return self._end()
            self._save()
            return Outcome.stopped

    def reading(self) -> Reading:
        """The state of the job at this moment."""
        stats = self._host.engine.stats
        self._meter.read(stats)
        return Reading.of(self._saved.totals, stats.values(), self._meter.latency_final)

    def _resume(self) -> None:
        saved = self._checkpoint.load()
        first, owner = (saved.batch, saved.owner) if saved else (0, self._saved.owner)
        self._sink.begin(first, owner, known=saved is not None)
        if saved is None:
            # Even if it stops in its first batch, a restart must know that batch as its own.
            self._checkpoint.save(self._saved)
        else:
            self._saved = saved
            self._meter = Meter(saved.totals)
            if saved.host is not None:
                self._host.restore(saved.host, self._checkpoint.volume, now=self._now())
            self._progress.note(
                f"resuming after {saved.totals.rows:,} rows, with batch {saved.batch}"
            )
        self._progress.begin(self._saved.totals.rows)

    def _read_all(self) -> bool:
        """Read all input that is there; returns whether a stop was requested meanwhile."""
        source = self._job.source
        if self._stop:
            return True
        batches = self._source.batches(self._saved.position, source.batch_rows)
        while True:
            began = self._clock()
            # Source, sink and checkpoint take time away from the engine: that limits speculation.
            with self._host.engine.load:
                rows = self._take_batch(batches)
            if not rows:
                return False
            if self._pause(rows, began) or self._stop:
                return True

    def _take_batch(self, batches: Iterator[tuple[pa.Table, Position]]) -> int:
        """Take one batch from the source to the sink; returns how many rows it had."""
        table, position = next(batches, (None, None))
        if table is None or position is None:
            return 0
        changes = self._host.feed(table, now=self._now())
        self._write(changes, rows=len(table), position=position)
        if self._is_time_to_save():
            self._save()
        self._progress.show(self.reading)
        return len(table)

    def _is_time_to_save(self) -> bool:
        """Whether a checkpoint is due: as configured, or as often as its cost allows."""
        every = self._job.engine.checkpoint_every
        if every is not None:
            return self._saved.batch % every == 0
        ended, took = self._last_save
        return self._clock() - ended >= took / SHARE

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _pass_time(self) -> None:
        """After a long silence, let time pass with the wall clock, so that results settle."""
        if not self._idle:
            return
        changes = self._host.pass_time(self._now(), self._idle)
        if len(changes):
            self._write(changes, rows=0, position=self._saved.position)
            self._save()

    def _pause(self, rows: int, began: float) -> bool:
        """Keep to the rate of a simulated stream; returns whether a stop was requested."""
        rate = self._job.source.rate
        if rate is None:
            return False
        return self._stop.wait(max(0.0, rows / rate - (self._clock() - began)))

    def _end(self) -> Outcome:
        end = self._job.source.end
        if end == "open":
            self._save()
            return Outcome.open
        changes = self._host.finish(advance=end == "advance")
        self._write(changes, rows=0, position=self._saved.position)
        self._saved.ended = True
        self._save()
        return Outcome.ended

    def _write(self, changes: pa.Table, *, rows: int, position: Position) -> None:
        """Write the changes of a batch and move on to the next."""
        self._sink.write(self._saved.batch, changes)
        self._saved.batch += 1
        self._saved.position = position
        self._meter.count(rows, changes)

    def _save(self) -> None:
        if self._checkpoint.kept:
            began = self._clock()
            self._meter.read(self._host.engine.stats)
            self._checkpoint.save(self._saved, self._host)
            ended = self._clock()
            self._last_save = ended, ended - began
