"""`statistics`: how a query is doing, batch by batch and detector by detector.

Spark reports the progress of every micro-batch to the driver, including the counts and readings
that the pipeline has put there (see `readings`). A listener takes them as they come and keeps the
newest readings of each slot.
"""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from betimes.engine import DetectorStats
from betimes.host.joining import together
from betimes.host.tally import Tally
from betimes.model import readable
from betimes.model.hints import known_options
from betimes.spark.telemetry.readings import OUTPUT, SlotReading, parsed

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )
    from pyspark.sql.streaming.query import StreamingQuery

KEPT = 1000
"""How many batches are kept by default."""


class BatchStats(msgspec.Struct, frozen=True):
    """One micro-batch: what came in, what came out, how long it took."""

    batch: int
    at: str
    """When it started, as Spark writes it."""
    rows: int
    ignored: int
    """Rows that no engine got: of types that no detector reads, or filtered before `detect`."""
    seconds: float
    rate: float
    """Rows per second while the batch ran."""
    inserted: int = 0
    confirmed: int = 0
    deleted: int = 0
    final: int = 0
    """Results that became final, at once or when confirmed, minus those that were repaired."""
    late: int = 0
    rejected: int = 0
    latency: float | None = None
    """Mean time from the `ts` of a result until it was first reported, in microseconds."""
    attenuation: float | None = None
    """The one that adaptive detectors had, the mean of all slots; None if none is adaptive."""
    busy_factor: float = 0.0
    """How busy the query was."""

    @property
    def tally(self) -> Tally:
        """The counts of changes alone."""
        waited = round((self.latency or 0.0) * self.inserted)
        names = [name for name in Tally.__struct_fields__ if name != "waited"]
        return Tally(**{name: getattr(self, name) for name in names}, waited=waited)


@runtime_checkable
class HasQuery(Protocol):
    """A `Run`: something that has a query."""

    query: StreamingQuery


@known_options
def statistics(
    run: HasQuery | StreamingQuery, *, lines: str | Path | None = None, keep: int = KEPT
) -> Statistics:
    """Follow a query: rows, rate, changes and duration of each batch, and readings of detectors.

    Use the result in a `with` statement, or `close()` it. Print it to see how the query is doing.

    Parameters:
        run: What `write` returned, or a streaming query.
        lines: A file that one JSON object per micro-batch is appended to.
        keep: How many micro-batches to remember.
    """
    return Statistics(run.query if isinstance(run, HasQuery) else run, lines=lines, keep=keep)


@known_options
class Statistics:
    """What is known about this run of a query and its last `keep` micro-batches."""

    def __init__(
        self, query: StreamingQuery, *, lines: str | Path | None = None, keep: int = KEPT
    ) -> None:
        self._query = query
        self._session = SparkSession.active()
        self._lock = threading.Lock()
        self._batches: deque[BatchStats] = deque(maxlen=keep)
        self._heard = -1
        self._slots: dict[int, list[DetectorStats]] = {}
        self._lines = None if lines is None else Path(lines)
        self._listener = _Listener(self, str(query.runId))
        self._session.streams.addListener(self._listener)

    @property
    def batches(self) -> list[BatchStats]:
        """The micro-batches, newest last."""
        self._catch_up()
        with self._lock:
            return list(self._batches)

    @property
    def slots(self) -> dict[int, list[DetectorStats]]:
        """The newest readings of each slot, as in `Engine.stats`."""
        self._catch_up()
        with self._lock:
            return {slot: self._slots[slot] for slot in sorted(self._slots)}

    @property
    def detectors(self) -> dict[str, DetectorStats]:
        """The readings of each detector, joined over all slots."""
        every = [reading for slot in self.slots.values() for reading in slot]
        return {reading.detector: reading for reading in together(every)}

    def rows(self) -> list[dict[str, Any]]:
        """The micro-batches as plain rows, for a table."""
        return [msgspec.to_builtins(batch) for batch in self.batches]

    def detector_rows(self) -> list[dict[str, Any]]:
        """The readings as plain rows, one per slot and detector."""
        return [
            {"slot": slot, **msgspec.to_builtins(reading)}
            for slot, readings in self.slots.items()
            for reading in readings
        ]

    def close(self) -> None:
        """Stop following."""
        self._session.streams.removeListener(self._listener)
        self._catch_up()

    def hear(self, progress: StreamingQueryProgress) -> None:
        """Take the progress of a micro-batch, once."""
        with self._lock:
            if progress.batchId <= self._heard or not worked(progress):
                return
            self._heard = progress.batchId
            said = parsed(_metrics(progress, OUTPUT).get("readings") or ())
            batch = _batch(progress, said)
            self._batches.append(batch)
            self._slots.update((r.slot, r.detectors) for r in said if r.detectors is not None)
            if self._lines is not None:
                every = [reading for readings in self._slots.values() for reading in readings]
                line = msgspec.to_builtins(batch) | {"detectors": together(every)}
                with self._lines.open("ab") as file:
                    file.write(msgspec.json.encode(line) + b"\n")

    def _catch_up(self) -> None:
        """Spark calls listeners with a delay; the progress that it remembers is there at once."""
        for progress in self._query.recentProgress:
            self.hear(progress)

    def __repr__(self) -> str:
        batches = self.batches
        if not batches:
            return "Statistics(no batch in this run yet)"
        last = batches[-1]
        lines = [
            f"Statistics: {len(batches)} batches, {sum(b.rows for b in batches):,} rows",
            f"  last batch: number {last.batch}, {last.rows:,} rows in "
            f"{readable(1e6 * last.seconds)} ({last.rate:,.0f} rows/s), "
            f"{last.inserted:,} inserted, {last.confirmed:,} confirmed, {last.deleted:,} deleted"
            + ("" if last.latency is None else f", latency {readable(last.latency)}"),
        ]
        return "\n".join([*lines, *map(_line, self.detectors.values())])

    def __enter__(self) -> Statistics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(StreamingQueryListener):
    """Passes on the progress of one query."""

    def __init__(self, statistics: Statistics, run: str) -> None:
        self._statistics = statistics
        self._run = run

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        if str(event.progress.runId) == self._run:
            self._statistics.hear(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass


def _line(reading: DetectorStats) -> str:
    """A detector in one line."""
    final = reading.latency_final
    return (
        f"  {reading.detector}: {reading.handled:,} handled, {reading.replayed:,} replayed, "
        f"{reading.late:,} late, slack {readable(reading.slack)}, attenuation "
        f"{reading.attenuation:.2g}" + ("" if final is None else f", final after {readable(final)}")
    )


def worked(progress: StreamingQueryProgress) -> bool:
    """Whether a micro-batch ran; Spark also reports that there was nothing to do.

    Such a report has the number of the next micro-batch, the one that has not begun.
    """
    return "addBatch" in progress.durationMs


def _metrics(progress: StreamingQueryProgress, name: str) -> dict[str, Any]:
    found = progress.observedMetrics.get(name)
    return {} if found is None else found.asDict()


def _batch(progress: StreamingQueryProgress, said: list[SlotReading]) -> BatchStats:
    seconds = progress.batchDuration / 1000
    rows = progress.numInputRows
    tally = sum((reading.tally for reading in said), Tally())
    counts = msgspec.structs.asdict(tally)
    had = [reading.attenuation for reading in said if reading.attenuation is not None]
    waited = counts.pop("waited")
    return BatchStats(
        progress.batchId, progress.timestamp, rows,
        ignored=max(0, rows - sum(reading.rows for reading in said)), seconds=seconds,
        rate=rows / seconds if seconds else 0.0,
        latency=waited / tally.inserted if tally.inserted else None,
        attenuation=fmean(had) if had else None,
        busy_factor=max((reading.busy_factor for reading in said), default=0.0), **counts,
    )  # fmt: skip
