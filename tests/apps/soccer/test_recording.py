"""The stadium's format: exact both ways, of any size, and named errors for what is not it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.apps.soccer.recording import (
    COLUMNS,
    RAW,
    Skipped,
    cut,
    positions,
    raw_positions,
    read_recording,
    write_recording,
)
from betimes.apps.soccer.stadium import NUREMBERG, SIMULATED
from betimes.model import EventError, OptionError

REAL = Path(__file__).parents[4] / "shared" / "data" / "soccer"
EXTRACTS = [REAL / "players-2067-rows.csv", REAL / "with-ball-52-rows.csv"]
GOOD = "8,10753294910826089,-7311,-10090,-189,133036,7336947,-4571,7553,4694,-5272,8295,-1839"

sizes = st.integers(0, 60_000_000)
units = st.integers(-10_000, 10_000)
lengths = st.integers(-200_000, 200_000)
line = st.tuples(
    st.sampled_from(sorted(NUREMBERG.sensors)), st.integers(0, 2**63 // 10**6 - 1),
    lengths, lengths, lengths, sizes, sizes, units, units, units, units, units, units,
)  # fmt: skip


def raw_of(lines: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {name: np.array(column) for name, column in zip(RAW, zip(*lines, strict=True),
                                                           strict=True)}  # fmt: skip


@settings(max_examples=60)
@given(st.lists(line, min_size=1, max_size=20))
def test_numbers_come_back_exactly(lines: list[tuple[int, ...]]) -> None:
    raw = raw_of(lines)
    raw["ts"] = raw["ts"] * 1_000_000
    for names, size in ((("vx", "vy", "vz"), "v"), (("ax", "ay", "az"), "a")):
        for name in names:  # without a size there is no direction
            raw[name] = np.where(raw[size] == 0, 0, raw[name])
    back = raw_positions(positions(raw, NUREMBERG, directions=True))
    for name in RAW:
        assert back[name].tolist() == raw[name].tolist(), name


def test_units() -> None:
    table = positions(raw_of([tuple(map(int, GOOD.split(",")))]), NUREMBERG, directions=True)
    row = table.to_pylist()[0]
    assert table.column_names[: len(COLUMNS)] == list(COLUMNS)
    assert row["ts"] == 10_753_294_910
    assert (row["type"], row["sid"]) == ("ball", 8)
    assert (row["x"], row["y"], row["z"]) == (-7.311, -10.09, -0.189)
    assert row["speed"] == pytest.approx(133036 * 1e-6)
    assert row["acceleration"] == pytest.approx(7336947 * 1e-6)
    assert row["vx"] == pytest.approx(133036 * 1e-6 * -4571 * 1e-4)
    assert row["az"] == pytest.approx(7336947 * 1e-6 * -1839 * 1e-4)


@pytest.mark.parametrize("path", EXTRACTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst"])
def test_real_extracts_round_trip(path: Path, suffix: str, tmp_path: Path) -> None:
    if not path.exists():
        pytest.skip("the recording is not here")
    table = pa.concat_tables(read_recording(path, directions=True))
    lines = [text for text in path.read_text().splitlines() if text[0].isdigit()]
    assert len(table) == len(lines)
    copy = tmp_path / f"copy{suffix}"
    assert write_recording([table], copy) == len(table)
    assert pa.concat_tables(read_recording(copy, rows=100, directions=True)).equals(table)
    if suffix == ".csv":  # all but the picoseconds below a microsecond, and directions of nothing
        for old, new in zip(lines, copy.read_text().splitlines()[1:], strict=True):
            before, after = old.split(","), new.split(",")
            assert after[1] == before[1][:-6] + "000000"
            same = [k for k in range(13) if k != 1 and not (before[5] == "0" and 7 <= k <= 9)
                    and not (before[6] == "0" and k >= 10)]  # fmt: skip
            assert [after[k] for k in same] == [before[k] for k in same]


def test_parquet_keeps_everything(tmp_path: Path) -> None:
    table = positions(raw_of([tuple(map(int, GOOD.split(",")))] * 3), NUREMBERG)
    table = table.append_column("seq", pa.array([0, 1, 2]))
    path = tmp_path / "positions.parquet"
    assert write_recording([table, table], path) == 6
    assert pq.read_table(path).equals(pa.concat_tables([table, table]))
    with pytest.raises(EventError, match="got none"):
        write_recording([], tmp_path / "empty.parquet")


@pytest.mark.parametrize("header", [None, ",".join(RAW), ",".join(f'"{name}"' for name in RAW)])
def test_names_in_the_first_line_are_optional(header: str | None, tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("\n".join([*([header] if header else []), GOOD, GOOD, ""]))
    assert sum(map(len, read_recording(path))) == 2


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 100])
def test_tables_have_the_rows_that_were_asked_for(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text(f"{GOOD}\n" * 11)
    sizes_read = list(map(len, read_recording(path, rows=rows)))
    assert sum(sizes_read) == 11
    assert all(size == rows for size in sizes_read[:-1])
    assert sizes_read[-1] <= rows


@settings(max_examples=60)
@given(st.lists(st.integers(0, 7)), st.integers(1, 9))
def test_cutting_keeps_order(lengths_of: list[int], rows: int) -> None:
    numbers = np.cumsum([0, *lengths_of])
    tables = [pa.table({"n": pa.array(range(a, b), pa.int64())})
              for a, b in pairwise(numbers.tolist())]  # fmt: skip
    parts = list(cut(tables, rows))
    assert [n for part in parts for n in part["n"].to_pylist()] == list(range(numbers[-1]))
    assert all(len(part) == rows for part in parts[:-1])


BAD = {
    "text": GOOD.replace("-7311", "here"),
    "fraction": GOOD.replace("-7311", "-73.11"),
    "empty": GOOD.replace("-7311", ""),
    "short": GOOD.rsplit(",", 1)[0],
    "long": f"{GOOD},1",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_rows_are_named_or_counted(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(f"{GOOD}\n{bad}\n{GOOD}\n")
    with pytest.raises(EventError, match=r"bad\.csv"):
        list(read_recording(path))
    skipped = Skipped()
    assert sum(map(len, read_recording(path, skipped=skipped))) == 2
    assert skipped == Skipped(malformed=1)


def test_unknown_sensors_are_named_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "strange.csv"
    path.write_text(f"{GOOD}\n999{GOOD[1:]}\n-1{GOOD[1:]}\n")
    with pytest.raises(EventError, match="the sensor 999"):
        list(read_recording(path))
    skipped = Skipped()
    assert sum(map(len, read_recording(path, skipped=skipped))) == 1
    assert (skipped.unknown, skipped.rows) == (2, 2)
    assert sum(map(len, read_recording(path, SIMULATED, skipped=Skipped()))) == 1


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(EventError, match="expected 13 columns"):
        list(read_recording(path))
    with pytest.raises(EventError, match="no such file"):
        list(read_recording(tmp_path / "nothing.csv"))
    with pytest.raises(OptionError, match="rows"):
        list(read_recording(path, rows=0))
    (tmp_path / "broken.csv.gz").write_text("this is not compressed")
    with pytest.raises(EventError, match="broken"):
        list(read_recording(tmp_path / "broken.csv.gz"))
    with pytest.raises(EventError, match="no columns"):
        write_recording([pa.table({"ts": [1]})], tmp_path / "x.csv")
