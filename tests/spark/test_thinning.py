"""An engine that is not fed idle clock events tells the same as one that is fed everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from betimes.engine import EngineOptions
from betimes.host import Columns
from betimes.host.log import Entry, Head, first_head
from betimes.spark.intake import packing
from betimes.spark.intake.packing import STREAM, in_order, put_back, split
from betimes.spark.intake.routing import ROUTE, routes
from betimes.spark.intake.streams import as_stream, folded, unfolded
from betimes.spark.intake.thinning import skew_of, to_be_fed
from betimes.spark.job import ROW_SLOT, Job
from betimes.spark.slots.live import LiveEngine
from betimes.spark.telemetry.readings import without_readings
from betimes.testing import sensor_stream
from tests.spark.material import hierarchy

SLOTS = 2
SKEW = 20

Row = tuple[int | None, str, int]
"""ts, type, key."""
Batch = list[list[Row]]
"""The partitions of a micro-batch."""


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    """Micro-batches in disorder; now and then the time leaps, or a clock is absurd."""
    batches = []
    now = draw(st.integers(0, 50))
    for _ in range(draw(st.integers(1, 5))):
        now += draw(st.sampled_from([0, 0, 5, 10 * SKEW]))
        partitions = []
        for _ in range(draw(st.integers(1, 3))):
            rows: list[Row] = []
            for _ in range(draw(st.integers(0, 12))):
                now += draw(st.integers(0, 2))
                kind = draw(st.sampled_from(["ball", "ball", "ball", "near", "not_near", "hit"]))
                far = draw(st.sampled_from([0] * 12 + [3 * SKEW, -3 * SKEW, 10**6]))
                ts: int | None = now - draw(st.integers(0, 12)) + far
                if draw(st.integers(0, 30)) == 0:
                    ts = draw(st.sampled_from([None, -5, 2**62, 2**63 - 1]))
                rows.append((ts, kind, draw(st.integers(0, 3))))
            partitions.append(rows)
        batches.append(partitions)
    return batches


def as_table(rows: list[Row], arrivals: list[int]) -> pa.Table:
    ts, types, keys = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "type": pa.array(types, pa.string()),
            "key": pa.array(keys, pa.int64()),
            "seq": pa.array(arrivals, pa.int64()),
            ROW_SLOT: pa.array([key % SLOTS for key in keys], pa.int32()),
        }
    )


def job_of(arrival: str | None, **options: Any) -> Job:
    given: dict[str, Any] = {"attenuation": 0.3, "retraction": "on-demand", "max_skew": SKEW}
    chosen = EngineOptions.of(given | options, by="key")
    return Job.of(hierarchy(), Columns(arrival=arrival), chosen, slots=SLOTS)


def thinned(job: Job, head: Head, slot: int, tables: list[pa.Table]) -> list[bytes]:
    """What the operator would feed: packed, shuffled and put in order."""
    shuffled: list[bytes] = []
    for part, table in enumerate(tables):
        rows = as_numbers(table, job).to_batches(max_chunksize=5)
        with (
            patch.object(packing, "ROWS_PER_STREAM", 5),
            patch.object(TaskContext, "get") as context,
        ):
            context.return_value.partitionId.return_value = part
            packed = [row for batch in packing.packer(job)(iter(rows)) for row in batch.to_pylist()]
        mine = [row[STREAM] for row in packed if row[ROUTE] == routes(SLOTS)[slot]]
        shuffled = [*reversed(mine), *shuffled]
    return to_be_fed(in_order(shuffled), head.clock, skew_of(job), put_back)


def as_numbers(table: pa.Table, job: Job) -> pa.Table:
    """The rows as they come to Python."""
    if job.numbered is None:
        return table
    numbers = pc.index_in(table["type"], pa.array(job.numbered)).cast(pa.int8())
    return table.set_column(table.column_names.index("type"), "type", numbers)


def everything(slot: int, tables: list[pa.Table]) -> list[bytes]:
    return [as_stream(rows) for table in tables for its, rows in split(table, SLOTS) if its == slot]


def numbered(batches: list[Batch], mixed: bool) -> Iterator[list[pa.Table]]:
    """The tables of each micro-batch; `mixed` has the partitions arrive alternately."""
    for partitions in batches:
        longest = max(map(len, partitions))
        yield [
            as_table(
                rows,
                [n * len(partitions) + part for n in range(len(rows))]
                if mixed
                else [part * longest + n for n in range(len(rows))],
            )
            for part, rows in enumerate(partitions)
        ]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The changes; the ids of rows about single events go by the number of the event."""
    rows: list[dict[str, Any]] = without_readings(table).to_pylist()
    return [row | {"match_id": ""} if row["type"] in ("late", "rejected") else row for row in rows]


def compare(
    batches: list[Batch], arrival: str | None, mixed: bool, *, text: bool = False, **options: Any
) -> int:
    """Feed both ways and expect the same; how many rows were spared."""
    job = job_of(arrival, **options)
    assert job.numbered is not None
    if text:
        job = replace(job, numbered=None)
    spared = 0
    for slot in range(SLOTS):
        thin, full = LiveEngine(job, slot), LiveEngine(job, slot)
        head = full_head = first_head(job.identity)
        for tables in numbered(batches, mixed):
            few, all_of_them = thinned(job, head, slot, tables), everything(slot, tables)
            spared += sum(map(length, all_of_them)) - sum(map(length, few))
            if not all_of_them:
                continue
            fed = thin.feed(head, Entry(head.batches, head.attenuation, few))
            other = full.feed(full_head, Entry(full_head.batches, head.attenuation, all_of_them))
            head, full_head = fed.head, other.head
            assert rows_of(fed.changes) == rows_of(other.changes)
        assert rows_of(thin.finish()) == rows_of(full.finish())
    return spared


def length(stream: bytes) -> int:
    return pa.ipc.open_stream(stream).read_all().num_rows


STEADY: Batch = [[(10, "ball", 0), (12, "ball", 0)]]
ALTERNATING: Batch = [
    [(13, "ball", 0), (12, "ball", 0), (11, "ball", 0), (12, "ball", 0)],
    [(900, "ball", 0), (900, "ball", 0), (900, "ball", 0), (900, "ball", 0)],
]
"""One sensor is right and one is absurd: never are there three absurd events in a row."""
LEAP: Batch = [
    [(1000, "ball", 0), (999, "ball", 0), (998, "ball", 0), (999, "ball", 0), (980, "near", 0)]
]
"""After a pause three events make the clock follow, up to the third, and not to the largest."""


@settings(max_examples=60, deadline=None)
@given(
    streams(),
    st.sampled_from([None, "seq"]),
    st.booleans(),
    st.sampled_from(["largest", "decaying", "quantile"]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([SKEW, 200, None]),
    st.booleans(),
)
@example([STEADY, ALTERNATING, ALTERNATING], "seq", True, "largest", 1.0, SKEW, False)
@example([STEADY, LEAP, [[(999, "hit", 0), (1001, "ball", 0)]]], None, False, "largest", 1.0, SKEW,
         False)  # fmt: skip
@example([STEADY, [[(None, "ball", 0), (-5, "ball", 0), (2**62, "ball", 0), (13, "ball", 0)]]],
         "seq", False, "largest", 1.0, None, True)  # fmt: skip
def test_idle_events_do_not_show(
    batches: list[Batch],
    arrival: str | None,
    mixed: bool,
    slack: str,
    attenuation: float,
    max_skew: int | None,
    text: bool,
) -> None:
    options = {"slack": slack, "attenuation": attenuation, "max_skew": max_skew}
    compare(batches, arrival, mixed, text=text, **options)


@pytest.mark.parametrize("arrival", [None, "seq"])
def test_most_clock_events_of_a_stream_in_disorder_are_spared(arrival: str | None) -> None:
    events = sensor_stream(1200, seed=3)
    rows: list[Row] = [
        (ts, events.types[code], key % 4)
        for key, (ts, code) in enumerate(
            zip(events.ts.tolist(), events.codes.tolist(), strict=True)
        )
    ]
    batches = [[rows[low : low + 200], rows[low + 200 : low + 400]] for low in range(0, 1200, 400)]
    spared = compare(batches, arrival, mixed=False, max_skew="1h")
    assert spared > 0.3 * len(rows)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)), st.data())
def test_what_is_folded_comes_back(values: list[int | None], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    whole = [value for value in values if value is not None]
    columns: dict[str, Any] = {
        "any": pa.chunked_array([values[:cut], values[cut:]], pa.int64()),
        "small": pa.array([(value or 0) % 100 for value in values], pa.int64()),
        "text": pa.array(list(map(str, values)), pa.string()),
    }  # fmt: skip
    for rows in (pa.table(columns), pa.table({"ts": pa.array(whole, pa.int64())})):
        assert unfolded(folded(rows)).equals(rows)
