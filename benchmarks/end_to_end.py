"""From Parquet to CSV: `python -m benchmarks.end_to_end [--events N] [--rounds N]`.

`A !(A|B) C` by 64 keys, on the stream of `benchmarks.patterns`, in Parquet files of 200,000 rows.
Contenders read the files and write every match to a CSV file. Each runs in a new process, takes
turns with the others, and counts CPU seconds from the first file to the end; imports and loading
compiled code do not count.

All read in one thread: another one costs CPU time, most of it for memory of its own.

* *betimes*: an `Engine` that is fed table by table, with the attenuation 1 or 0.3. It learns the
  slack, and its CSV file has all columns of its changes. Types are read as codes, as `betimes run`
  reads them.
* *floor*: what nobody can do without. It reads the files, sorts each by itself, counts its matches
  with a loop compiled for this pattern, and writes the rows of *betimes*, prepared beforehand.
* *bytewax*: a dataflow of bytewax, with a heap written by hand that holds events back for a slack
  which it is told. Its CSV file has the key and the two times. `pip install bytewax` first.

All must find the same matches.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from benchmarks.patterns import compiled, sort_and_match, stream_of
from benchmarks.racing import Race, Result, Target, progress_bar, report
from benchmarks.revisions import ROOT, checked_out, run_module
from betimes import Engine, EventBatch

KEYS = 64
ROWS = 200_000
Row = tuple[int, str, int]


def write_stream(folder: Path, events: int) -> int:
    """The stream as files; how many matches it has."""
    stream = stream_of(events, keys=KEYS)
    for number, low in enumerate(range(0, events, ROWS)):
        pq.write_table(stream[low : low + ROWS].to_arrow(), folder / f"{number:04}.parquet")
    return sort_and_match(stream, KEYS)


def slack_of(folder: Path) -> int:
    """The largest delay in the stream: how far behind the clock an event comes."""
    ts = np.concatenate([pq.read_table(file)["ts"].to_numpy() for file in sorted(folder.iterdir())])
    return int((np.maximum.accumulate(ts) - ts).max())


def read(file: Path, **options: Any) -> pa.Table:
    return pq.ParquetFile(file, **options).read(use_threads=False)


def run_betimes(folder: Path, to: Path, attenuation: float) -> float:
    files = sorted(folder.iterdir())
    for size in (100, 10_000):  # loads compiled code
        warm = Engine(compiled(), attenuation=attenuation)
        text_only(warm.feed(stream_of(size)))
        text_only(warm.finish())
    began = time.process_time()
    engine = Engine(compiled(), attenuation=attenuation)

    def tables() -> Iterator[pa.Table]:
        for file in files:
            yield text_only(engine.feed(read(file, read_dictionary=["type"])))
        yield text_only(engine.finish())

    write_all(tables(), to)
    return time.process_time() - began


def write_all(tables: Iterator[pa.Table], to: Path) -> None:
    writer: Any = None
    for table in tables:
        writer = writer or pa_csv.CSVWriter(to, table.schema)
        writer.write_table(table)
    writer.close()


def run_floor(folder: Path, to: Path) -> float:
    files, coded = sorted(folder.iterdir()), {"read_dictionary": ["type"]}
    engine = Engine(compiled(), attenuation=1)
    changes = [text_only(engine.feed(read(file, **coded))) for file in files]
    rest = text_only(engine.finish())
    sort_and_match(stream_of(100, keys=KEYS), KEYS)  # loads compiled code
    began = time.process_time()

    def tables() -> Iterator[pa.Table]:
        for file, table in zip(files, changes, strict=True):
            sort_and_match(EventBatch.from_arrow(read(file, **coded)), KEYS)
            yield table
        yield rest

    write_all(tables(), to)
    return time.process_time() - began


def text_only(changes: Any) -> pa.Table:
    """Changes with the payload as text; older versions know nothing else."""
    try:
        table: pa.Table = changes.to_arrow(payload="json")
    except TypeError:
        table = changes.to_arrow()
    return table


def run_bytewax(folder: Path, to: Path) -> float:
    op, flows = (importlib.import_module(f"bytewax.{name}") for name in ("operators", "dataflow"))
    inputs, outputs, testing = (
        importlib.import_module(f"bytewax.{name}") for name in ("inputs", "outputs", "testing")
    )
    files, slack = sorted(folder.iterdir()), slack_of(folder)

    class Rows(inputs.StatelessSourcePartition):  # type: ignore[misc, name-defined] # has no types
        def __init__(self) -> None:
            self._rest = iter(files)

        def next_batch(self) -> list[Row]:
            table = read(next(self._rest))
            columns = (table[name].to_pylist() for name in ("ts", "type", "key"))
            return list(zip(*columns, strict=True))

    class Files(inputs.DynamicSource):  # type: ignore[misc, name-defined]
        def build(self, *_: object) -> Rows:
            return Rows()

    class Lines(outputs.StatelessSinkPartition):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._file = to.open("w", newline="")
            self._writer = csv.writer(self._file)

        def write_batch(self, items: list[tuple[int, int, int]]) -> None:
            self._writer.writerows(items)

        def close(self) -> None:
            self._file.close()

    class Sink(outputs.DynamicSink):  # type: ignore[misc, name-defined]
        def build(self, *_: object) -> Lines:
            return Lines()

    class Heap(op.StatefulBatchLogic):  # type: ignore[misc, name-defined]
        """Holds events back for the slack, then runs the automaton of each key."""

        def __init__(self) -> None:
            self.clock = -1
            self.held: list[tuple[int, int, str, int]] = []
            self.open: dict[int, int] = {}
            self.number = 0

        def on_batch(self, values: list[Row]) -> tuple[list[tuple[int, int, int]], bool]:
            held, found = self.held, []
            for ts, kind, key in values:
                if kind == "X":
                    self.clock = max(self.clock, ts)
                else:
                    self.number += 1
                    heappush(held, (ts, self.number, kind, key))
                while held and held[0][0] + slack <= self.clock:
                    found += self.match(heappop(held))
            return found, False

        def on_eof(self) -> tuple[list[tuple[int, int, int]], bool]:
            found = []
            while self.held:
                found += self.match(heappop(self.held))
            return found, True

        def match(self, event: tuple[int, int, str, int]) -> list[tuple[int, int, int]]:
            ts, _, kind, key = event
            if kind == "A":
                self.open[key] = ts
            else:
                began = self.open.pop(key, None)
                if kind == "C" and began is not None:
                    return [(key, began, ts)]
            return []

        def snapshot(self) -> object:
            return None

    began = time.process_time()
    flow = flows.Dataflow("by_hand")
    rows = op.input("rows", flow, Files())
    found = op.stateful_batch("heap", op.key_on("all", rows, lambda _: "all"), lambda _: Heap())
    op.output("lines", op.map("found", found, lambda pair: pair[1]), Sink())
    testing.run_main(flow)
    return time.process_time() - began


def run_one(name: str, folder: Path) -> dict[str, float]:
    """Run a contender in this process: CPU seconds, and how many rows it wrote."""
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as place:
        to = Path(place) / "found.csv"
        if name == BYTEWAX:
            return {"seconds": run_bytewax(folder, to), "rows": len(to.read_text().splitlines())}
        if name == FLOOR:
            seconds = run_floor(folder, to)
        else:
            seconds = run_betimes(folder, to, float(name.rpartition(" ")[2]))
        changes = pa_csv.read_csv(to)["change_type"].to_pylist()
        return {"seconds": seconds, "rows": changes.count("insert") - changes.count("delete")}


BYTEWAX = "bytewax, heap by hand"
FLOOR = "floor"
BETIMES = ("attenuation 1", "attenuation 0.3")


def measure(events: int, rounds: int, revision: str | None) -> Race:
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as place, progress_bar() as bar:
        folder = Path(place)
        expected = write_stream(folder, events)
        trees = {"betimes": ROOT}
        old = checked_out(revision) if revision else None
        if old is not None:
            trees[revision or ""] = old.__enter__()
        contenders = [
            (f"{side}, {name}", name, tree) for side, tree in trees.items() for name in BETIMES
        ]
        contenders += [(name, name, ROOT) for name in (FLOOR, BYTEWAX)]
        task = bar.add_task("", total=(rounds + 1) * len(contenders))
        try:
            for lap in range(rounds + 1):
                for shown, name, tree in contenders:
                    bar.update(task, description=shown)
                    said = run_module(
                        "benchmarks.end_to_end", "--one", name, str(folder), tree=tree
                    )
                    found = json.loads(said.splitlines()[-1])
                    if found["rows"] != expected:
                        raise RuntimeError(f"{shown} found {found['rows']} of {expected} matches")
                    if lap:
                        seconds.setdefault(shown, []).append(found["seconds"])
                    bar.advance(task)
        finally:
            if old is not None:
                old.__exit__(None, None, None)
    results = {name: Result(name, events, tuple(times)) for name, times in seconds.items()}
    return Race("A !(A|B) C by 64 keys, from Parquet to CSV", results, (BYTEWAX,))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.end_to_end", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument("--against", metavar="REV", help="also run the library of another commit")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(run_one(options.one[0], Path(options.one[1]))))
        return
    race = measure(options.events, options.rounds, options.against)
    target = Target("attenuation 1, x bytewax", 10, race.ratio("betimes, attenuation 1", BYTEWAX))
    report([race], [target], readings={}, as_json=options.json)


if __name__ == "__main__":
    main()
