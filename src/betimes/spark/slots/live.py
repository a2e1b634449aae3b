"""The engine of a slot, and what is stored of it so that nothing is lost.

The state store holds two things per slot:

* `head`: one small record, read and written in every micro-batch;
* `log`: a full checkpoint of the engine, the *base*, and the batches that were fed since, exactly
  as they came.

A micro-batch appends to the log. When the log has outgrown the base, a new base replaces it. So how
much a micro-batch writes depends on the batch and not on the state, and each full checkpoint is
paid for by the batches since the last one.

The live engine stays in the Python worker, and the state store is the truth. Whether they agree is
told by the **token**: a hash over everything that was ever fed to the slot, in order. An engine
with the token of the head has been fed exactly what the head says, so it is in exactly that state;
any other engine is thrown away and rebuilt from base and log. A micro-batch that runs again
therefore begins where the first attempt began, whatever happened to that, and gives the same rows:
what an engine answers depends only on what it is fed. The attenuation does depend on the load, so
it is decided after each batch for the next one, and stored with that one in the log.

**Idle.** If asked for, time passes with the wall clock where nothing arrives: when a stream (with
`order="key"`: a key) has been silent for long enough, its clock is moved on by the time that has
passed. The time on the wall clock is stored with each batch, so the same happens when the batch is
fed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa

from betimes.engine import CheckpointError, Zone
from betimes.engine.attenuation import Attenuation
from betimes.model import EventBatch
from betimes.model.change import ChangeBatch
from betimes.model.rows import plain
from betimes.model.times import Rejected
from betimes.spark.job import Job
from betimes.spark.slots.rows import change_rows, rejected_rows
from betimes.spark.telemetry.readings import Teller

LEAST_LOG = 4 * 2**20
"""Bytes. A shorter log is never worth a checkpoint: feeding it takes well under a second."""

LOG_PER_BASE = 2
"""The log may grow to this many times the base; more would make restarts slow."""


class Head(msgspec.Struct):
    """What is known about a slot without its engine."""

    identity: str
    token: bytes
    attenuation: float
    """For the next batch."""
    clock: int | None = None
    """The time of the stream, if it is beyond doubt; see `thinning`."""
    timer: int = 0
    """When to check for silence next, in milliseconds of the wall clock."""
    batches: int = 0
    log_bytes: int = 0
    base_bytes: int = 0


class Entry(msgspec.Struct, tag="batch"):
    """One batch in the log: Arrow streams in order of arrival, and how they were handled."""

    number: int
    attenuation: float
    parts: list[bytes]
    now: int = 0
    """The wall clock, in milliseconds."""
    idle: int = 0
    """Milliseconds without an event after which time passes; 0 if it never does."""
    seen: int = 0
    """How many rows of the input were read for it."""


class Base(msgspec.Struct, tag="base"):
    """A full checkpoint; it includes the batches before this number."""

    number: int
    engine: bytes
    last: int
    rejected: int
    seen: list[tuple[Any, int]]


@dataclass(frozen=True)
class Fed:
    """What comes of feeding a batch."""

    changes: pa.Table
    head: Head
    base: bytes | None
    """A full checkpoint, if it is time for one; it replaces the log."""


class LiveEngine:
    """An engine that has been fed what its token says."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.job = job
        self.slot = slot
        self.engine = job.engine()
        self.token = first_token(job)
        self._last = 0
        """The last number that was given to a row."""
        self._rejected = 0
        """How many of the numbers went to rows that are not events."""
        self._seen: dict[Any, int] = {}
        """The wall-clock time up to which each key (or all: None) has had its time moved on."""
        self._clock = clock
        self._teller = Teller(slot, clock)
        self._steering = Attenuation(job.options.get("zone") or Zone())
        self._began: float | None = None
        self._attenuation: float | None = None

    @classmethod
    def rebuild(cls, job: Job, slot: int, head: Head, log: Iterable[bytes]) -> LiveEngine:
        """The engine that the state store describes."""
        live = cls(job, slot)
        entries = [msgspec.msgpack.decode(entry, type=Entry | Base) for entry in log]
        for entry in sorted(entries, key=lambda entry: entry.number):
            if isinstance(entry, Base):
                live.engine.restore(entry.engine)
                live._last, live._rejected = entry.last, entry.rejected
                live._seen = dict(entry.seen)
            else:
                live._apply(entry)
        live.token = head.token
        return live

    def feed(self, head: Head, entry: Entry) -> Fed:
        """Take a batch that follows what the head says."""
        began = self._clock()
        changes = self._apply(entry)
        changes = self._teller.told(changes, self.engine, entry.seen)
        steered = self._steer(head.attenuation, began, self._clock())
        written = msgspec.msgpack.encode(entry)
        self.token = blake2b(head.token + written, digest_size=16).digest()
        after = Head(
            head.identity, self.token, steered, self.engine.sure_clock, entry.now + entry.idle,
            head.batches + 1, head.log_bytes + len(written), head.base_bytes,
        )  # fmt: skip
        if after.log_bytes < max(LEAST_LOG, LOG_PER_BASE * after.base_bytes):
            return Fed(changes, after, None)
        kept = Base(
            after.batches, self.engine.checkpoint(), self._last, self._rejected,
            [*self._seen.items()],
        )  # fmt: skip
        base = msgspec.msgpack.encode(kept)
        after.base_bytes, after.log_bytes = len(base), 0
        return Fed(changes, after, base)

    def finish(self, *, advance: bool = True) -> pa.Table:
        """The end of the stream: everything settles; with `advance`, time runs out."""
        return self._rows(self.engine.finish(advance=advance))

    def _apply(self, entry: Entry) -> pa.Table:
        if entry.attenuation != self._attenuation and self.job.adaptive:
            self.engine.set_attenuation(entry.attenuation)
            self._attenuation = entry.attenuation
        tables = []
        if entry.parts:
            batch, bad = self._events(entry.parts)
            tables.append(self._rows(self.engine.feed(batch)))
            if entry.idle:
                self._seen |= dict.fromkeys(self._keys(batch), entry.now)
            if bad:
                tables.append(rejected_rows(self.job, self.slot, bad, after=self._last))
                self._last += len(bad)
                self._rejected += len(bad)
        if entry.idle:
            tables.append(self._rows(self._pass_time(entry)))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def _keys(self, batch: EventBatch) -> Iterable[Any]:
        """The streams with their own clock that these events belong to."""
        by = self.job.by
        return (None,) if self.job.order != "key" or by is None else set(batch.column(by))

    def _pass_time(self, entry: Entry) -> ChangeBatch:
        """Move time on for the streams that have been silent for long enough."""
        passed = {
            key: 1000 * (entry.now - since)
            for key, since in self._seen.items()
            if entry.now - since >= entry.idle
        }
        self._seen |= dict.fromkeys(passed, entry.now)
        return self.engine.advance(passed if self.job.order == "key" else passed.get(None, 0))

    def _rows(self, changes: ChangeBatch) -> pa.Table:
        if len(changes):
            self._last = changes[-1].seq + self._rejected
        return change_rows(self.slot, changes, skip=self._rejected, results=self.job.results)

    def _events(
        self, parts: list[bytes]
    ) -> tuple[EventBatch, list[tuple[Rejected, dict[str, Any]]]]:
        tables = [pa.ipc.open_stream(part).read_all() for part in parts]
        table = plain(pa.concat_tables(tables))
        job = self.job
        batch, rejected = EventBatch.sift_arrow(
            table, time=job.time, type=job.type, arrival=job.arrival
        )
        return batch, [(bad, table.slice(bad.row, 1).to_pylist()[0]) for bad in rejected]

    def _steer(self, attenuation: float, began: float, ended: float) -> float:
        """The attenuation for the next batch: as low as the time between batches allows."""
        before, self._began = self._began, began
        if not self.job.adaptive or before is None or began <= before:
            return attenuation
        zone = self.job.options.get("zone") or Zone()
        busy = (ended - began) / (began - before)
        self._steering.value = attenuation
        if busy > zone.high:
            self._steering.back_off()
        elif busy < zone.low:
            self._steering.advance()
        return self._steering.value


def first_token(job: Job) -> bytes:
    """The token of an engine that has been fed nothing."""
    return blake2b(job.identity.encode(), digest_size=16).digest()


def first_head(job: Job) -> Head:
    attenuation = job.options.get("attenuation", "adaptive")
    return Head(job.identity, first_token(job), 1.0 if job.adaptive else float(attenuation))


def read_head(job: Job, note: bytes) -> Head:
    """The head as it was stored; refused if another job stored it."""
    try:
        head = msgspec.msgpack.decode(note, type=Head)
    except msgspec.DecodeError as error:
        raise CheckpointError(
            f"the state of a slot is damaged or from another version: {error}; start with a new "
            "checkpoint location"
        ) from error
    job.check_identity(head.identity, "the checkpoint")
    return head
