"""Before the shuffle: the rows of a slot become one Arrow stream in one binary value.

Spark moves rows, and its stateful operators hand Python one row after the other. So the rows of a
partition are packed, slot by slot, into Arrow streams of some ten thousand rows each; what is
shuffled, stored in the log and fed to an engine are those, and nobody looks at single rows. Each
carries its place, partition and number, from which the order of arrival is put together again if no
column gives it.

**Thinning.** Events of a clock type that no detector reads do only one thing: they move the clock.
One that is older than another of its slot which arrived before it cannot do so, because the clock
stands at that other one or beyond it. It is left out. That holds as long as the unit believes its
clock; an event more than `max_skew` ahead is not believed until two more have come. Therefore the
first events of a stream are kept in any case, and a stream whose clock events are further apart
than `max_skew` is not thinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from betimes.model.duration import LONGEST, Duration, microseconds
from betimes.spark.job import ROUTE, Job
from betimes.spark.routing import routes

PACKED = "route int, part int, number int, seen int, events binary"
"""`seen` says how many rows came since the last stream, with those that were thinned out."""

INTAKE = "betimes.intake"
"""Name of the count of rows, in the progress of a query."""

ROWS_PER_STREAM = 50_000
COMPRESSION = "zstd"
"""A quarter of the bytes, for a few milliseconds: they are shuffled, stored and stored again."""
FIRST_KEPT = 3
"""So many clock events that are far ahead make the clock follow them."""

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def packer(job: Job) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: rows with their slot in, packed rows out."""
    targets = routes(job.slots)
    thinner = Thinner.of(job)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        number = 0
        thin = None if thinner is None else thinner.begin()
        seen = 0
        for table in _collected(batches):
            rows = table if thin is None else thin(table)
            seen += len(table)
            for slot, its_rows in split(rows, job.slots):
                yield _packed(targets[slot], part, number, seen, its_rows)
                number += 1
                seen = 0

    return pack


def _collected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to tables that are worth a stream."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_STREAM:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def split(table: pa.Table, slots: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each slot, in their order, without the column of the slot."""
    if slots == 1:
        yield 0, table
        return
    where = table[ROUTE].to_numpy()
    rows = table.drop_columns([ROUTE])
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(slots + 1))
    gathered = rows.take(order)
    for slot in range(slots):
        if ends[slot] < ends[slot + 1]:
            yield slot, gathered.slice(ends[slot], ends[slot + 1] - ends[slot])


def _packed(route: int, part: int, number: int, seen: int, rows: pa.Table) -> pa.RecordBatch:
    columns = [pa.array([value], pa.int32()) for value in (route, part, number, seen)]
    stream = pa.array([as_stream(rows, COMPRESSION)], pa.binary())
    names = ["route", "part", "number", "seen", "events"]
    return pa.RecordBatch.from_arrays([*columns, stream], names)


def as_stream(rows: pa.Table, compression: Any = None) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    rows = rows.combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


@dataclass(frozen=True)
class Thinner:
    """Leaves out clock events that cannot move the clock."""

    clock: str
    time: str
    type: str
    arrival: str | None
    max_skew: int

    @classmethod
    def of(cls, job: Job) -> Thinner | None:
        """The thinner of a job, or None if no event is without effect."""
        if job.ticking is None or job.order == "key":
            return None
        skew: Duration | None = job.options.get("max_skew", "1h")
        limit = LONGEST if skew is None else microseconds(skew, "max_skew")
        return cls(job.ticking, job.time, job.type, job.arrival, limit)

    def begin(self) -> Callable[[pa.Table], pa.Table]:
        """A function that takes the tables of a partition one after the other."""
        paths: dict[int, _Path] = {}

        def thin(rows: pa.Table) -> pa.Table:
            clock: Any = pc.equal(rows[self.type], pa.scalar(self.clock))
            ticks = pc.and_(clock, pc.is_valid(rows[self.time]))
            where = np.flatnonzero(ticks.fill_null(False).to_numpy())
            if len(where) == 0:
                return rows
            ts = self._numbers(rows[self.time], where)
            arrivals = None if self.arrival is None else self._numbers(rows[self.arrival], where)
            if ts is None or (self.arrival is not None and arrivals is None):
                return rows
            idle = np.zeros(len(where), bool)
            for slot, its in self._slots(rows, where):
                path = paths.setdefault(slot, _Path())
                its_arrivals = None if arrivals is None else arrivals[its]
                idle[its] = ~path.moving(ts[its], its_arrivals, self.max_skew)
            if not idle.any():
                return rows
            keep = np.ones(len(rows), bool)
            keep[where[idle]] = False
            return rows.filter(pa.array(keep))

        return thin

    def _slots(self, rows: pa.Table, where: Ints) -> Iterator[tuple[int, Ints]]:
        """Which of the events at these places belong to each slot."""
        if ROUTE not in rows.column_names:
            yield 0, np.arange(len(where))
            return
        slots = rows[ROUTE].to_numpy()[where]
        order = np.argsort(slots, kind="stable")
        slots = slots[order]
        ends = [0, *(np.flatnonzero(np.diff(slots)) + 1), len(slots)]
        for low, high in pairwise(ends):
            yield int(slots[low]), order[low:high]

    def _numbers(self, column: pa.ChunkedArray[Any], where: Ints) -> Ints | None:
        """Some values of a column as integers, or None if it has others."""
        kind = column.type
        if not (pa.types.is_int64(kind) or pa.types.is_timestamp(kind)):
            return None
        values = column.take(where)
        if values.null_count:
            return None
        numbers: Ints = values.cast(pa.int64()).to_numpy()
        return numbers


@dataclass
class _Path:
    """How far the clock has come by the clock events of one slot in one partition."""

    top: int = -1
    low: int = LONGEST
    seen: int = 0
    arrived: int | None = None

    def moving(self, ts: Ints, arrivals: Ints | None, max_skew: int) -> Mask:
        """Which of these events may move the clock."""
        everything = np.ones(len(ts), bool)
        if arrivals is not None:
            first, last = int(arrivals[0]), int(arrivals[-1])
            ordered = bool((np.diff(arrivals) >= 0).all())
            if not ordered or (self.arrived is not None and first < self.arrived):
                # Not in order of arrival: what came before what is only known after the shuffle.
                self.top, self.arrived = -1, None
                return everything
            self.arrived = last
        self.low = min(self.low, int(ts.min()))
        reached = np.maximum.accumulate(np.concatenate(([self.top], ts)))
        self.top = int(reached[-1])
        if self.top - self.low > max_skew:
            return everything
        moves: Mask = ts >= reached[:-1]
        moves[: max(0, FIRST_KEPT - self.seen)] = True
        self.seen += len(ts)
        return moves
