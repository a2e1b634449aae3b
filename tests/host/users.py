"""Everything that runs a host, behind one function: tables in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from betimes import Event, Hierarchy
from betimes.engine import EngineOptions
from betimes.host import Columns, Host, HostState, Setup
from betimes.host.log import Entry, LoggedHost, first_head, read_head
from betimes.model.fitting import stored
from betimes.spark.job import Job
from betimes.spark.query.batch import run_slots
from betimes.spark.slots.live import LiveEngine
from betimes.spark.telemetry.readings import without_readings
from betimes.testing import sensor_stream

Tables = list[pa.Table]
Rows = list[dict[str, Any]]


class Touches:
    """A hit that follows a `near`, unless a `not_near` came between."""

    def __init__(self) -> None:
        self.near = False

    def on_event(self, event: Event) -> Event | None:
        if event.type == "hit" and self.near:
            return Event("touch", event.ts, {"key": event["key"]})
        self.near = event.type == "near"
        return None


def hierarchy() -> Hierarchy:
    touches = Hierarchy(clock="ball")
    touches.add(Touches, on=("near", "not_near", "hit"), emits="touch", by="key")
    return touches


def setup(results: str = "provisional", **options: Any) -> Setup:
    # `auto` depends on measured times, and then the order of confirmations may differ.
    given = {"by": "key", "retraction": "on-demand"} | options
    chosen = EngineOptions.of(given, results=results)
    return Setup(hierarchy(), chosen, Columns(arrival="seq"), results)


def tables(rows: int = 1_200, cut: int = 200, *, bad: bool = True) -> Tables:
    """A stream in disorder, in pieces; some of its rows are not events."""
    events = sensor_stream(rows, seed=3)
    rng = np.random.default_rng(1)
    ts, types = events.ts.tolist(), [events.types[code] for code in events.codes.tolist()]
    if bad:
        ts[7], ts[333], types[8] = None, -5, None
        ts[500], types[500] = 10**15, "betimes.tick"
    table = pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "type": pa.array(types, pa.string()),
            "key": pa.array(rng.integers(0, 4, rows)),
            "seq": pa.array(np.arange(rows)),
        }
    )
    return [table.slice(low, cut) for low in range(0, rows, cut)]


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def through_host(given: Setup, stream: Tables) -> Rows:
    host = Host(given)
    return _rows([*map(host.feed, stream), host.finish()])


def through_restarts(given: Setup, stream: Tables) -> Rows:
    """A new host for every batch, from what the one before has saved, as bytes."""
    told, saved = [], None
    for table in [*stream, None]:
        host = Host(given)
        if saved is not None:
            host.restore(msgspec.msgpack.decode(saved, type=HostState))
        told.append(host.finish() if table is None else host.feed(table))
        saved = None if table is None else msgspec.msgpack.encode(host.save())
    return _rows(told)


def through_log(given: Setup, stream: Tables) -> Rows:
    """A host that is rebuilt from head and log before every batch."""
    identity = given.identity()
    note, told = stored(first_head(identity)), []
    log: list[bytes] = []
    volumes: dict[bytes, bytes] = {}
    for table in [*stream, None]:
        head = read_head(identity, note)
        host = LoggedHost(given, identity, slot=0, clock=lambda: 0.0)
        host.rebuild(log, head.token, volumes.get)
        if table is None:
            told.append(host.finish())
            break
        entry = Entry(head.batches, head.attenuation, [as_bytes(table)])
        fed = host.feed(head, entry)
        log = [*log, stored(entry)]
        if fed.base is not None:
            log, both = [fed.base.base], volumes | fed.base.new
            volumes = {name: both[name] for name in fed.base.names}
        note = stored(fed.head)
        told.append(fed.changes)
    return _rows(told)


def job_of(given: Setup) -> Job:
    return Job.of(given.hierarchy, given.columns, given.options, results=given.results, slots=1)


def through_slot(given: Setup, stream: Tables) -> Rows:
    job = job_of(given)
    live, head, told = LiveEngine(job, 0), first_head(job.identity), []
    for table in stream:
        fed = live.feed(head, Entry(head.batches, head.attenuation, [as_bytes(table)]))
        head = fed.head
        told.append(without_readings(fed.changes))
    return _rows([*told, live.finish()])


def through_batch_job(given: Setup, stream: Tables) -> Rows:
    """As on Spark, if the input is not a stream; it makes one piece of them."""
    slots = [pa.array([0] * len(table)) for table in stream]
    placed = [
        table.append_column("_betimes_slot", slot)
        for table, slot in zip(stream, slots, strict=True)
    ]
    batches = (batch for table in placed for batch in table.to_batches())
    return _rows(run_slots(job_of(given), batches))


USERS: dict[str, Callable[[Setup, Tables], Rows]] = {
    "host": through_host,
    "restarts": through_restarts,
    "log": through_log,
    "slot": through_slot,
}
"""They are fed the same batches, so they give the same rows."""


def _rows(told: Iterable[pa.Table]) -> Rows:
    return [row for table in told for row in table.to_pylist()]
