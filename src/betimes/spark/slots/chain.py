"""Instances in slots of their own: three stateful operators, one behind the other.

The algorithm is that of `betimes.windows.chain`. What it takes to survive kills is what every slot
has: each operator has its own head, log and token (`betimes.host.log`), and depends only on what it
is fed. Spark commits all three together, or none of them.

1. The *splitter* is the first engine. It is fed rows, and sends parcels to the stations of its slot
   and its note to the merger: the batch itself, and what it has decided about it.
2. A *station* has the instances with one number. It is fed parcels, and sends answers to the
   merger. A station of slot *s* with number *n* is slot `s * stations + n` of this operator. Rows
   go through operators one after the other, so the splitter's note passes by here; its route is
   negative.
3. The *merger* is the last engine. It is fed the note and the answers, and gives changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from betimes.host import Setup
from betimes.host.host import HostState
from betimes.host.log import Entry, Head, Logged
from betimes.model.stored import require
from betimes.spark.intake.packing import STREAM
from betimes.spark.intake.routing import ROUTE, routes
from betimes.spark.job import Job
from betimes.spark.slots.live import LiveEngine, LiveHost
from betimes.windows.chain import (
    Inbox,
    Outbox,
    Station,
    answers_of,
    first_part,
    parcels_for,
    with_teams,
)
from betimes.windows.team import MakeTeam


class Note(msgspec.Struct, array_like=True):
    """What the splitter says to the merger about a batch, besides the batch itself."""

    outlines: dict[str, list[bytes]]
    """By operator: what was said to instances, in each round."""
    forgets: list[int]
    """What the engine has decided to forget."""
    stations: list[int]
    """Those that were sent something."""


class Sent(msgspec.Struct, array_like=True):
    """A row between operators."""

    data: bytes
    """Parcels for a station, its answers, or a note."""
    station: int = -1
    """The station that has answered."""
    entry: Entry | None = None
    """With a note: the batch that it is about."""


def _row(*content: Any) -> bytes:
    return msgspec.msgpack.encode(Sent(*content))


def post(rows: list[tuple[int, bytes]]) -> pa.Table:
    """Rows for slots of the next operator, by their routes."""
    columns: list[pa.Array[Any]] = [
        pa.array([route for route, _ in rows], pa.int32()),
        pa.array([row for _, row in rows], pa.binary()),
    ]
    return pa.table(columns, names=[ROUTE, STREAM])


def passing_by(job: Job, route: int, rows: list[bytes]) -> pa.Table:
    """Notes on their way to the merger."""
    to = routes(job.partitions)[-1 - route]
    return post([(to, row) for row in rows])


def entry_of(head: Head, rows: list[bytes]) -> Entry:
    """What a station or a merger is fed."""
    sent = sorted((msgspec.msgpack.decode(row, type=Sent) for row in rows), key=_station)
    entry = sent[0].entry
    if entry is None:
        return Entry(head.batches, head.attenuation, [each.data for each in sent])
    require(entry.number == head.batches, "the merger of windows is not where its splitter is")
    entry.told = [each.data for each in sent]
    return entry


def _station(sent: Sent) -> int:
    return sent.station


class LiveSplitter(LiveHost):
    """The first engine of a chain."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._outboxes = {name: Outbox() for name in job.chained}
        super().__init__(job, slot, clock=clock)
        self._first = slot * job.stations
        """The number of its first station among all of them."""
        self._back = -1 - slot

    def setup_of(self, job: Job) -> Setup:
        setup = job.setup
        part = first_part(setup.hierarchy, self._outboxes)
        teams: dict[str, MakeTeam] = {name: outbox.make for name, outbox in self._outboxes.items()}
        return setup.of_part(with_teams(part, teams))

    def apply(self, entry: Entry) -> pa.Table:
        budget = self.engine.budget
        budget.decided = []
        super().apply(entry)
        outlines, boxes = {}, [dict[str, Any]() for _ in range(self._job.stations)]
        for name, outbox in self._outboxes.items():
            outlines[name], mine = outbox.take()
            for station, parcels in enumerate(mine):
                if parcels:
                    boxes[station][name] = parcels
        busy = [station for station, box in enumerate(boxes) if box]
        note = msgspec.msgpack.encode(Note(outlines, budget.decided, busy))
        to = routes(self._job.partitions)[self._first :]
        rows = [(to[station], _row(parcels_for(boxes[station]))) for station in busy]
        return post([*rows, (self._back, _row(note, -1, entry))])


class LiveStation(Logged):
    """The instances with one number, of one slot."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(job.identity, clock)
        merger, self._number = divmod(slot, job.stations)
        part = job.setup.hierarchy.part(job.chained)
        self._station = Station(part, job.options, self._number)
        self._to = routes(job.partitions)[merger]

    def apply(self, entry: Entry) -> pa.Table:
        answers = [self._station.take(part) for part in entry.parts]
        return post([(self._to, _row(answer, self._number)) for answer in answers])

    def save_apart(self, known: Collection[bytes]) -> tuple[HostState, dict[bytes, bytes]]:
        del known
        return HostState(self._station.state_of(), []), {}

    def restore(self, state: HostState, volumes: Callable[[bytes], bytes | None]) -> None:
        del volumes
        self._station.resume(state.engine)


class LiveMerger(LiveEngine):
    """The last engine of a chain."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._inboxes = {name: Inbox(name) for name in job.chained}
        super().__init__(job, slot, clock=clock)

    def setup_of(self, job: Job) -> Setup:
        setup = job.setup
        teams: dict[str, MakeTeam] = {name: inbox.make for name, inbox in self._inboxes.items()}
        return replace(setup, hierarchy=with_teams(setup.hierarchy, teams))

    def apply(self, entry: Entry) -> pa.Table:
        note = msgspec.msgpack.decode(entry.told[0], type=Note)
        require(
            len(entry.told) == 1 + len(note.stations),
            "the merger of windows has not heard from all stations",
        )
        answers = dict(zip(note.stations, map(answers_of, entry.told[1:]), strict=True))
        for name, inbox in self._inboxes.items():
            mine = {n: found[name] for n, found in answers.items() if name in found}
            inbox.put(note.outlines[name], mine)
        self.engine.budget.told = note.forgets
        return super().apply(entry)

    def finish(self, *, advance: bool = True) -> pa.Table:
        for inbox in self._inboxes.values():
            inbox.bring_here()
        return super().finish(advance=advance)
