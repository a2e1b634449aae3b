"""Files of several sources are read side by side, whatever they hold and wherever reading stops."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes import EventBatch, Hierarchy, pattern
from betimes.cli.jobs.io import files
from betimes.cli.jobs.io.files import FileSource, Position
from betimes.cli.jobs.jobfile.conflicts import read_job
from betimes.engine import CheckpointError
from betimes.testing import oracle
from tests.cli.jobs import run

JOB = """
[source]
format = "{format}"
path = "events/"
source = "host"
batch_rows = {rows}
{more}

[detect]
{detect}

[[detect.pattern]]
match = "A !B C"
by = "n"
emits = "found"

[engine]
kind = "local"

[sink]
format = "parquet"
path = "out/"
"""


def source(folder: Path, rows: int, more: str = "") -> FileSource:
    job = folder / "job.toml"
    job.write_text(JOB.format(format="parquet", rows=rows, more=more, detect=""))
    return FileSource(read_job(job).source)


def write(folder: Path, name: str, ts: list[int], arrived: list[int] | None = None) -> None:
    (folder / "events").mkdir(exist_ok=True)
    numbers: dict[str, Any] = {"ts": ts, "arrived": arrived or ts, "row": range(len(ts))}
    texts = {"type": ["A"] * len(ts), "host": [name] * len(ts)}
    fields = [(field, pa.int64()) for field in numbers] + [(field, pa.string()) for field in texts]
    pq.write_table(pa.table(numbers | texts, pa.schema(fields)), folder / "events" / name)


HOUR = 3_600_000_000


@pytest.mark.parametrize("bad", [0, 1, 3])
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_a_time_far_ahead_does_not_move_the_rest_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int, chunk: int
) -> None:
    """It comes with the rows before it, and the rest as if it were not there."""
    if bad == 0 and chunk < 4:
        return  # whether a file begins with a wrong time is seen from its first four rows
    monkeypatch.setattr(files, "_READ_ROWS", chunk)
    times = [10, 20, 30, 40, 50]
    times[bad] = 90 * HOUR
    write(tmp_path, "a", times)
    write(tmp_path, "b", [15, 25, 35, 45, 55])
    merged = pa.concat_tables([table for table, _ in source(tmp_path, 3).batches(Position(), 3)])
    rest = [ts for ts in merged["ts"].to_numpy().tolist() if ts < HOUR]
    assert rest == sorted(rest)


def test_times_far_ahead_are_believed_if_they_go_on(tmp_path: Path) -> None:
    write(tmp_path, "a", [10, HOUR + 20, HOUR + 30, HOUR + 40, HOUR + 50])
    write(tmp_path, "b", [15, 25, HOUR + 33, HOUR + 35, HOUR + 45])
    merged = pa.concat_tables([table for table, _ in source(tmp_path, 9).batches(Position(), 9)])
    assert merged["ts"].to_pylist()[-2:] == [HOUR + 45, HOUR + 50]


@pytest.mark.parametrize("arrival", [None, "arrived"])
@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 12), max_size=9), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(1, 4),
    st.data(),
)
def test_rows_come_when_their_file_has_got_that_far(
    tmp_path_factory: pytest.TempPathFactory,
    arrival: str | None,
    parts: list[list[int]],
    rows: int,
    chunk: int,
    data: st.DataObject,
) -> None:
    """However files are read, the order is that of the largest times so far, then of names."""
    folder = tmp_path_factory.mktemp("beside")
    expected = []
    for number, part in enumerate(parts):
        name = f"host-{number}"
        other = [7] * len(part)
        ts, arrived = (part, other) if arrival is None else (other, part)
        write(folder, name, ts, arrived)
        expected += [(top, name, row) for row, top in enumerate(accumulate(part, max))]
    expected.sort()
    more = "" if arrival is None else 'arrival = "arrived"'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_READ_ROWS", chunk)
        position = Position()
        found: list[tuple[object, object]] = []
        while True:
            some = 0
            # A new reader goes on where another has stopped.
            for table, after in source(folder, rows, more).batches(position, rows):
                found += list(zip(table["host"].to_pylist(), table["row"].to_pylist(), strict=True))
                position, some = after, len(table)
                if data.draw(st.booleans()):
                    break
            else:
                break
            assert some
    assert found == [(name, row) for _, name, row in expected]


def test_files_that_are_there_later_are_read_and_others_not_again(tmp_path: Path) -> None:
    write(tmp_path, "a", [1, 3])
    reader = source(tmp_path, 10)
    ((table, position),) = reader.batches(Position(), 10)
    assert len(table) == 2
    assert not list(reader.batches(position, 10))
    write(tmp_path, "0", [1, 3])
    ((table, position),) = reader.batches(position, 10)
    assert table["host"].to_pylist() == ["0", "0"]
    write(tmp_path, "a", [1, 3, 9])
    ((table, position),) = reader.batches(position, 10)
    assert table["row"].to_pylist() == [2]
    assert position.beside == {"a": 3, "0": 2}


def test_files_that_changed_are_noticed(tmp_path: Path) -> None:
    write(tmp_path, "a", [1, 3])
    with pytest.raises(CheckpointError, match="a has 1 rows fewer"):
        list(source(tmp_path, 10).batches(Position(beside={"a": 3}), 10))
    with pytest.raises(CheckpointError, match=r"\['b'\] were read before the stop, and are gone"):
        list(source(tmp_path, 10).batches(Position(beside={"b": 3}), 10))


@pytest.mark.parametrize("detect", ["", 'late = "side"', "attenuation = 0"])
def test_a_file_per_machine_loses_nothing(tmp_path: Path, detect: str) -> None:
    """Hours of three machines, one file after the other, and nothing is late."""
    rng = np.random.default_rng(3)
    size = 1_500
    tables = []
    (tmp_path / "events").mkdir()
    for host in ("north", "south", "west"):
        order = np.argsort(np.arange(size) * 10**7 + rng.integers(0, 10**6, size))
        columns = {
            "ts": (np.arange(size) * 10**7 + rng.integers(0, 10**6, size))[order],
            "type": np.array(["A", "B", "C"])[rng.integers(0, 3, size)],
            "n": rng.integers(0, 4, size),
            "host": np.full(size, host),
        }
        tables.append(pa.table({name: pa.array(column) for name, column in columns.items()}))
        pyarrow.csv.write_csv(tables[-1], tmp_path / "events" / f"{host}.csv")
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(format="csv", rows=700, more="", detect=detect))
    done = run(job)
    assert done.exit_code == 0, done.output
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert not [row for row in rows if row["type"] == "late"]
    steps = {"insert": 1, "confirm": 0, "delete": -1}
    found: Counter[int] = Counter()
    for row in rows:
        found[row["ts"]] += steps[row["change_type"]]
    hierarchy = Hierarchy()
    hierarchy.add(pattern("A !B C", by="n", emits="found"))
    events = EventBatch.from_arrow(pa.concat_tables(tables)).rows()
    expected: Counter[int] = Counter()
    for (_, ts, _), count in oracle(hierarchy, events).items():
        expected[ts] += count
    assert +found == expected
    assert len(expected) > 100


_NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1.0, _NAN, 4.0], [2.0, 3.0, _NAN]),
        ([1, None, 4], [2, 3, None]),
        ([-9, None, -4], [-8, -7, None]),
        (["1", None, "4"], ["2", "3", None]),
    ],
    ids=["decimals", "numbers", "negative", "text"],
)
@pytest.mark.parametrize("chunk", [1, 2, 9])
def test_rows_that_have_not_arrived_come_with_the_ones_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: list[Any], other: list[Any], chunk: int
) -> None:
    monkeypatch.setattr(files, "_READ_ROWS", chunk)
    (tmp_path / "events").mkdir()
    for name, arrived in {"a": one, "b": other}.items():
        columns: dict[str, list[Any]] = {
            "ts": [7] * 3, "type": ["A"] * 3, "arrived": arrived, "row": [0, 1, 2],
            "host": [name] * 3,
        }  # fmt: skip
        pq.write_table(pa.table(columns), tmp_path / "events" / name)
    found = []
    for table, _ in source(tmp_path, 10, 'arrival = "arrived"').batches(Position(), 10):
        found += list(zip(table["host"].to_pylist(), table["row"].to_pylist(), strict=True))
    assert found == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("a", 2)]
