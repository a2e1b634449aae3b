"""Clock events that move nothing: how to find them, and when to leave them out.

Events of a clock type that no detector reads do only one thing: they move the clock. Such an event
is *idle* if an event of its slot that arrived earlier has a larger time: the clock is already at or
beyond that one. An engine that is not fed the idle events gives exactly the same rows.

That holds as long as every clock event is believed. An event that is more than `max_skew` ahead of
the clock is not, and then idle events count: three doubtful events in a row move the clock unless a
sound one comes between them, and the very first clock event is dropped if those after it are far
behind. Where the rows of a partition are packed, neither the clock nor the other partitions are
known. So idle events travel beside the others, and the operator, which knows both, leaves them out
if the clock before the batch is beyond doubt (at least two events have moved it, and none is
waiting to be judged) and no clock event of the batch is more than `max_skew` ahead of it. The clock
only rises, so every clock event of the batch is then believed. Otherwise the idle events are put
back in their places.

If each source has its own clock, every event has an effect: it tells that its source is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from betimes.model.duration import microseconds
from betimes.model.times import in_microseconds, last
from betimes.spark.job import ROW_SLOT, Job

PLACE = "_betimes_place"
"""The column that says where among the other rows an idle event belongs."""

IDLE = "_betimes_idle"
"""The column that marks idle events until they are set aside."""

NONE_YET = -1
"""Instead of a time, as long as there is none."""

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one slot from one partition, as they travel."""

    part: int
    number: int
    seen: int
    """How many rows of the partition were read since the stream before."""
    highest: int
    """The largest time of a clock event of this slot in the partition so far."""
    events: bytes
    spare: bytes
    """The idle events; empty if there are none."""
    foreseen: bytes = b""
    """What came of running its transactions ahead; empty if that was not done."""


def to_be_fed(
    streams: Sequence[Packed], clock: int | None, max_skew: int, put_back: Callable[..., bytes]
) -> list[bytes]:
    """What to feed an engine: without the idle events if `clock` leaves no doubt."""
    ahead = max((stream.highest for stream in streams), default=NONE_YET)
    if clock is not None and ahead - clock <= max_skew:
        return [stream.events for stream in streams]
    return [
        put_back(stream.events, stream.spare) if stream.spare else stream.events
        for stream in streams
    ]


def set_aside(rows: pa.Table, idle: Mask) -> tuple[pa.Table, pa.Table]:
    """The rows without the idle ones, and the idle ones, each with its place."""
    mask = pa.array(idle)
    spare = rows.filter(mask).append_column(PLACE, pa.array(np.flatnonzero(idle)))
    return rows.filter(pc.invert(mask)), spare


def whole(rows: pa.Table, spare: pa.Table) -> pa.Table:
    """The rows as they were before some were set aside."""
    places = spare[PLACE].to_numpy()
    order = np.empty(len(rows) + len(spare), np.int64)
    others = np.ones(len(order), bool)
    others[places] = False
    order[others] = np.arange(len(rows))
    order[places] = len(rows) + np.arange(len(spare))
    return pa.concat_tables([rows, spare.drop_columns([PLACE])]).take(order)


def skew_of(job: Job) -> int:
    """How far ahead a clock event may be, in microseconds."""
    return microseconds(job.options.max_skew or 0)


@dataclass(frozen=True)
class Thinner:
    """Finds idle events in the rows of one partition."""

    clock: str | int
    """The value of clock events in the column of types."""
    time: str
    type: str
    arrival: str | None
    unit: str | None = None
    """What whole numbers in the column of times count."""
    paths: dict[int, _Path] = field(default_factory=dict)
    """How far the clock has come in each slot."""

    @classmethod
    def of(cls, job: Job) -> Thinner | None:
        """The thinner of a job, or None if every event has an effect."""
        if job.ticking is None or job.options.order == "key" or job.options.source is not None:
            return None
        numbers = job.numbered
        clock = job.ticking if numbers is None else numbers.index(job.ticking)
        columns = job.columns
        return cls(clock, columns.time, columns.type, columns.arrival, job.options.unit)

    def idle(self, rows: pa.Table) -> Mask | None:
        """Which of the next rows of the partition are idle events; None if none are."""
        ticks = self._ticks(rows)
        where = np.flatnonzero(ticks)
        if not len(where):
            return None
        ts, arrivals = in_microseconds(self._numbers(rows, self.time), self._unit(rows)), None
        if self.arrival is not None:
            arrivals = self._numbers(rows, self.arrival)
        found = np.zeros(len(rows), bool)
        for slot, its in _by_slot(rows, where):
            path = self.paths.setdefault(slot, _Path())
            found[its] = path.idle(ts[its], None if arrivals is None else arrivals[its])
        return found if found.any() else None

    def highest(self, slot: int) -> int:
        """The largest time of a clock event of a slot so far."""
        path = self.paths.get(slot)
        return NONE_YET if path is None else path.highest

    def _ticks(self, rows: pa.Table) -> Mask:
        """Which rows are clock events, except those that will be rejected."""
        names = [self.time] if self.arrival is None else [self.time, self.arrival]
        types: Any = rows[self.type]
        ticks: Any = pc.equal(types, pa.scalar(self.clock, types.type))
        for name in names:
            if not _is_whole(rows[name].type):
                return np.zeros(len(rows), bool)
            ticks = pc.and_(ticks, pc.is_valid(rows[name]))
        mask: Mask = ticks.fill_null(False).to_numpy()
        ts = self._numbers(rows, self.time)
        return mask & (ts >= 0) & (ts <= last(self._unit(rows)))

    def _unit(self, rows: pa.Table) -> str | None:
        """What the times count; Spark's timestamps are microseconds."""
        return None if pa.types.is_timestamp(rows[self.time].type) else self.unit

    def _numbers(self, rows: pa.Table, name: str) -> Ints:
        """A column as integers, with zero for null."""
        numbers: Ints = rows[name].cast(pa.int64()).fill_null(pa.scalar(0)).to_numpy()
        return numbers


def _is_whole(kind: pa.DataType) -> bool:
    return pa.types.is_int64(kind) or pa.types.is_timestamp(kind)


def _by_slot(rows: pa.Table, where: Ints) -> Iterator[tuple[int, Ints]]:
    """For each slot, which of these rows belong to it."""
    if ROW_SLOT not in rows.column_names:
        yield 0, where
        return
    slots = rows[ROW_SLOT].to_numpy()[where]
    order = np.argsort(slots, kind="stable")
    slots = slots[order]
    ends = [0, *(np.flatnonzero(np.diff(slots)) + 1), len(slots)]
    for low, high in pairwise(ends):
        yield int(slots[low]), where[order[low:high]]


@dataclass
class _Path:
    """How far the clock events of one slot in one partition have moved the clock."""

    top: int = NONE_YET
    """The largest time among the events that certainly arrived before the next ones."""
    highest: int = NONE_YET
    arrived: int | None = None

    def idle(self, ts: Ints, arrivals: Ints | None) -> Mask:
        """Which of the next events have no effect."""
        self.highest = max(self.highest, int(ts.max()))
        if arrivals is not None:
            ordered = bool((np.diff(arrivals) >= 0).all())
            if not ordered or (self.arrived is not None and int(arrivals[0]) < self.arrived):
                # Not in order of arrival: which came first is only known after the shuffle.
                self.top, self.arrived = NONE_YET, None
                return np.zeros(len(ts), bool)
            self.arrived = int(arrivals[-1])
        reached = np.maximum.accumulate(np.concatenate(([self.top], ts)))
        self.top = int(reached[-1])
        behind: Mask = ts < reached[:-1]
        return behind
