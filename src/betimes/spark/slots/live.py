"""The engine of a slot, and what is stored of it so that nothing is lost.

Two things of a slot are in the state store:

* `head`: one small record, read and written in every micro-batch;
* `log`: a full checkpoint of the engine, the *base*, and the batches that were fed since, exactly
  as they came.

A micro-batch appends to the log; when it has outgrown the base, a new base takes its place.
So what a micro-batch writes follows the batch and not the state, and a full checkpoint is paid for
by the batches since the last one.

The live engine stays in the Python worker, and the state store is the truth. What tells whether
they agree is the **token**: a hash over everything that was ever fed to the slot, in order. An
engine whose token is that of the head has been fed exactly what the head says, so it is in exactly
that state; any other is thrown away and built anew from base and log. A micro-batch that is run
again therefore begins where the first attempt began, whatever became of that, and gives the same
rows: an engine's answer depends on what it is fed and on nothing else. The attenuation, which does
depend on the load, is decided after a batch for the next one and stored with it in the log.

**Idle.** If asked for, time passes with the clock on the wall where nothing comes: a stream (with
`order="key"`: a key) that was silent for so long has its clock moved on by as much as has passed.
What the wall clock said is stored with each batch, so the same happens when it is fed again.
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
"""A log shorter than this is never worth a checkpoint: it is fed again in well under a second."""

LOG_PER_BASE = 2
"""How many times as long as the base the log may become; more would make restarts slow."""


class Head(msgspec.Struct):
    """What is known of a slot without looking at its engine."""

    identity: str
    token: bytes
    attenuation: float
    """For the next batch."""
    clock: int | None = None
    """The time of the stream, if it is beyond doubt; see `thinning`."""
    timer: int = 0
    """When somebody will look whether anything came, in milliseconds of the clock on the wall."""
    batches: int = 0
    log_bytes: int = 0
    base_bytes: int = 0


class Entry(msgspec.Struct, tag="batch"):
    """One batch in the log: Arrow streams, in order of arrival, and how they were handled."""

    number: int
    attenuation: float
    parts: list[bytes]
    now: int = 0
    """The clock on the wall, in milliseconds."""
    idle: int = 0
    """After so many milliseconds without an event time passes; 0 if it never does."""
    seen: int = 0
    """How many rows of the input were looked at for it."""


class Base(msgspec.Struct, tag="base"):
    """A full checkpoint; the batches before this number are in it."""

    number: int
    engine: bytes
    last: int
    rejected: int
    seen: list[tuple[Any, int]]


@dataclass(frozen=True)
class Fed:
    """What comes of a batch."""

    changes: pa.Table
    head: Head
    base: bytes | None
    """A full checkpoint, if it is time for one; the log then begins anew with it."""


class LiveEngine:
    """An engine that has been fed what its token says."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.job = job
        self.slot = slot
        self.engine = job.engine()
        self.token = first_token(job)
        self._last = 0
        """The newest number of a row."""
        self._rejected = 0
        """How many of the numbers belong to rows that were no events."""
        self._seen: dict[Any, int] = {}
        """Up to when, on the wall, the time of each key (or of all: None) is told."""
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
        """The streams that these events belong to, as far as each has a time of its own."""
        by = self.job.by
        return (None,) if self.job.order != "key" or by is None else set(batch.column(by))

    def _pass_time(self, entry: Entry) -> ChangeBatch:
        """Time passes for those from whom nothing came for long enough."""
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
            f"the state of a slot is damaged or of another version: {error}; begin with a new "
            "checkpoint location"
        ) from error
    job.check_identity(head.identity, "the checkpoint")
    return head
