"""The stateful operator: one engine per slot, in the state store and alive in the worker.

Of PySpark's stateful operators this is `transformWithStateInPandas`. Its state has several
variables, so a micro-batch can append to the log without touching the full checkpoint. With
`applyInPandasWithState`, every micro-batch would send the whole state through a pipe and back. The
operator moves rows one by one, which is why they come packed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from msgspec.structs import replace

from betimes.host.log import Entry, Head, Logged, Rebase, first_head, read_head
from betimes.model.fitting import stored
from betimes.spark.intake.packing import STREAM, in_order, put_back
from betimes.spark.intake.routing import slot_of
from betimes.spark.intake.scouting import published_at
from betimes.spark.intake.thinning import Packed, skew_of, to_be_fed
from betimes.spark.job import Job
from betimes.spark.slots.chain import (
    LiveMerger,
    LiveSplitter,
    LiveStation,
    entry_of,
    passing_by,
)
from betimes.spark.slots.live import LiveEngine
from betimes.spark.slots.relay import Alive, key_of
from betimes.spark.telemetry.load import told

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import (
        ListState,
        MapState,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )

HEAD, LOG, VOLUMES = "head", "log", "volumes"
"""The variables of the state."""

_alive = Alive()
"""The engines of this worker process. The token of an engine says whether it may be used."""


@lru_cache(maxsize=16)
def _job(shipped: bytes) -> Job:
    """A job as it was shipped, unpacked once per process."""
    job = pickle.loads(shipped)
    if not isinstance(job, Job):
        raise TypeError(f"expected a Job to be shipped, got {job!r}")
    return job


Part = Literal["alone", "splitter", "station", "merger"]
"""What an operator does: everything, or its part of a chain (see `chain`)."""

LIVE: dict[Part, Callable[[Job, int], Logged]] = {
    "alone": LiveEngine, "splitter": LiveSplitter, "station": LiveStation, "merger": LiveMerger,
}  # fmt: skip


class Slot:
    """Feeds the engine of a slot, and keeps its state: the variables that its processor has."""

    def __init__(
        self,
        part: Part,
        shipped: bytes,
        handle: StatefulProcessorHandle,
        head: ValueState,
        log: ListState,
        volumes: MapState,
    ) -> None:
        self._part = part
        self._job = _job(shipped)
        self._handle = handle
        self._head = head
        self._log = log
        self._volumes = volumes

    def feed(
        self, route: int, rows: Iterator[pd.DataFrame], timers: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Hand a batch to the engine, or only the time; store what is needed to resume."""
        job, sent = self._job, [bytes(row) for frame in rows for row in frame[STREAM]]
        if route < 0:  # what the splitter says to the merger passes by
            yield from to_pandas(passing_by(job, route, sent))
            return
        slot = slot_of(route, job.partitions)
        note = self._head.get()
        known = job.identity
        head = first_head(known) if note is None else read_head(known, bytes(note[0]))
        # The time of the batch, which is the same if the batch runs again.
        starts = self._part in ("alone", "splitter")
        now = timers.getCurrentProcessingTimeInMs() if job.idle and starts else 0
        streams = in_order(sent) if starts else []
        entry = _from_source(job, head, streams, now) if starts else entry_of(head, sent)
        name = key_of(f"{self._part} {job.identity.digest}", slot)
        around = told()
        if job.scouted:
            foreseen = [(stream.part, stream.foreseen) for stream in streams if stream.foreseen]
            around = replace(around, foreseen=foreseen, place=published_at())
        fed = _alive.feed(name, head, entry, around)
        if fed is None:
            live = self._build(slot, None if note is None else head)
            fed = _alive.feed_own(name, live, head, entry, around)
            _alive.announce(name)
        if fed.base is not None:
            self._rebase(fed.base)
        else:
            self._log.appendValue((stored(entry),))
        self._head.update((stored(fed.head),))
        if job.idle and starts:
            if head.timer:
                self._handle.deleteTimer(head.timer)
            self._handle.registerTimer(fed.head.timer)
        yield from to_pandas(fed.changes)

    def _rebase(self, base: Rebase) -> None:
        """Replace the log, store new volumes, and remove those that nobody refers to any more."""
        self._log.put([(base.base,)])
        for name, volume in base.new.items():
            self._volumes.updateValue((name,), (volume,))
        if self._volumes.exists():
            found = {bytes(key[0]) for key in self._volumes.keys()}  # noqa: SIM118 - no mapping
            for name in found.difference(base.names):
                self._volumes.removeKey((name,))

    def _volume(self, name: bytes) -> bytes | None:
        found = self._volumes.getValue((name,))
        return None if found is None else bytes(found[0])

    def _build(self, slot: int, head: Head | None) -> Logged:
        live = LIVE[self._part](self._job, slot)
        if head is not None:
            log = [bytes(entry[0]) for entry in self._log.get()]
            live.rebuild(log, head.token, self._volume)
        return live


def _from_source(job: Job, head: Head, streams: list[Packed], now: int) -> Entry:
    """A batch of rows of the input."""
    parts = to_be_fed(streams, head.clock, skew_of(job), put_back)
    seen = sum(stream.seen for stream in streams)
    return Entry(head.batches, head.attenuation_for(seen), parts, now, job.idle, seen)


def to_pandas(table: pa.Table) -> Iterator[pd.DataFrame]:
    """The table as the operator takes it, without turning columns into Python objects."""
    if len(table):
        import pandas as pd  # the driver also loads this module, and has no use for pandas

        # In one chunk: PySpark takes such columns as they are, but not those in several.
        yield table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)
