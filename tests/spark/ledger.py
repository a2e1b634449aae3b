"""The consistency oracle on Spark: `python -m tests.spark.ledger --transfers 1000000`.

The transfers of `tests.transactions.consistency`, in files of random sizes, one per micro-batch.
After every micro-batch, what the sink has got so far must fit together: balances sum to 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from betimes import Change, Engine, Event, EventBatch, Hierarchy
from betimes import spark as bs
from tests.spark.conftest import session_settings
from tests.spark.faults import rows as rows_of
from tests.transactions.consistency import Announced, book, check, ledger, transfer, transfers

SCHEMA = "ts long, type string, payer long, payee long, cents long, seq long"
OPTIONS: dict[str, Any] = {"arrival": "seq", "attenuation": 0.3}
"""Of runs that are compared with the local engine."""
FATAL = 10_000_000
"""The time of the transfers that end a process."""
MOST = 20_000
"""Transfers per file of the script, at most."""


def table_of(events: Iterable[Event], first: int = 0) -> pa.Table:
    """Transfers with their numbers of arrival."""
    rows = [
        {"ts": event.ts, "type": event.type, **event.payload, "seq": first + number}
        for number, event in enumerate(events)
    ]
    return pa.Table.from_pylist(rows)


COUNT, ROWS = 2_000, 400
TABLE = table_of(transfers(COUNT, 10, seed=4))
"""What tests run, and how much of it in a micro-batch."""


def read(spark: SparkSession, folder: Path, files: int = 1) -> DataFrame:
    """The files of a folder as a stream, some in each micro-batch."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files)
    return stream.parquet(str(folder))


def detected(
    spark: SparkSession, folder: Path, detectors: Hierarchy | None = None, files: int = 1
) -> DataFrame:
    """The changes of what is in FOLDER/in."""
    return bs.detect(read(spark, folder / "in", files), detectors or ledger(), **OPTIONS)


def run_locally(table: pa.Table, rows: int) -> list[Change]:
    """What the local engine tells of the same micro-batches."""
    engine = Engine(ledger(workers=1), attenuation=OPTIONS["attenuation"])
    changes: list[Change] = []
    for low in range(0, len(table), rows):
        changes += engine.feed(EventBatch.from_arrow(table.slice(low, rows), arrival="seq"))
    return [*changes, *engine.finish()]


@dataclass(frozen=True)
class Fatal:
    """Ends the process that runs one of the transfers, once; with `pool`, only those of pools."""

    mark: Path
    pool: bool = False

    def __call__(self, event: Event, state: Any) -> Iterator[Event]:
        in_pool = sys.argv[0] == "-c"
        if event.ts == FATAL and in_pool >= self.pool and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return transfer(event, state)


@dataclass(frozen=True)
class Slow:
    """Takes long enough to be run ahead; one of the transfers ends the process that does so."""

    mark: Path | None = None

    def __call__(self, event: Event, state: Any) -> list[Event]:
        time.sleep(0.003)
        if self.mark is not None and event.ts == FATAL and _runs_ahead() > self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return list(transfer(event, state))


def _runs_ahead() -> bool:
    return any(frame.name == "run_ahead" for frame in traceback.extract_stack())


class CheckedSink:
    """Takes the changes of each micro-batch, and checks that everything fits together."""

    def __init__(self) -> None:
        self.announced = Announced()
        self.batches: list[int] = []

    def __call__(self, changes: DataFrame, batch: int) -> None:
        wanted = changes.filter("change_type <> 'confirm'").select("seq", "change_type", "payload")
        rows: list[Any] = wanted.toArrow().sort_by("seq").to_pylist()
        self.announced.take((row["change_type"], json.loads(row["payload"])) for row in rows)
        self.batches.append(batch)


def take_all(batches: Iterable[list[Row]]) -> Announced:
    """Micro-batches as a sink holds them, checked one after the other."""
    announced = Announced()
    for rows in batches:
        announced.take((row.change_type, json.loads(row.payload)) for row in rows)
    return announced


Told = list[tuple[Any, ...]]


def told(rows: Any) -> Told:
    """What is compared to the last number."""
    return [(row.seq, row.match_id, row.change_type, row.status, row.detected_at) for row in rows]


def written(spark: SparkSession, folder: Path) -> list[Row]:
    """What the sink holds; it adds up after every micro-batch."""
    rows = rows_of(spark, folder)
    batches = [list(batch) for _, batch in groupby(rows, key=lambda row: row.batch)]
    assert len(batches) > COUNT // ROWS - 1
    assert take_all(batches).taken_back
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--transfers", type=int, default=1_000_000)
    parser.add_argument("--accounts", type=int, default=10)
    parser.add_argument("--attenuation", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began, truth, sink = time.monotonic(), Counter[int](), CheckedSink()
    with tempfile.TemporaryDirectory(prefix="betimes-ledger-") as place:
        folder = Path(place)
        _write(options, folder / "in", truth)
        spark = bs.session("ledger", master="local[2]", config=session_settings(folder))
        spark.sparkContext.setLogLevel("OFF")
        changes = bs.detect(
            read(spark, folder / "in"), ledger(), arrival="seq", attenuation=options.attenuation
        )

        def take(changes: DataFrame, batch: int) -> None:
            sink(changes, batch)
            print(f"batch {batch}: consistent ({time.monotonic() - began:.0f} s)", flush=True)

        kept = str(folder / "checkpoint")
        with bs.write(changes, into=take, checkpoint=kept, available_now=True) as run:
            run.finish()
        spark.stop()
    check(sink.announced, truth, truth)
    print(
        f"{options.transfers:,} transfers among {options.accounts:,} accounts in "
        f"{len(sink.batches)} batches, {sink.announced.taken_back:,} balances taken back: "
        "consistent after every batch"
    )


def _write(options: argparse.Namespace, folder: Path, truth: Counter[int]) -> None:
    """Files of random sizes, in the order of arrival."""
    chance = random.Random(options.seed)
    events = transfers(options.transfers, options.accounts, options.seed)
    began, first, number = time.time() - 10**6, 0, 0
    folder.mkdir()
    while coming := list(islice(events, chance.randint(1, MOST))):
        book(truth, coming)
        file = folder / f"part-{number:06}.parquet"
        pq.write_table(table_of(coming, first), file)
        os.utime(file, (began + number,) * 2)
        first, number = first + len(coming), number + 1


if __name__ == "__main__":
    main()
