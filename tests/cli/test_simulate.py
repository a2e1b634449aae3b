"""`betimes simulate`: files that can be read, a summary, and refusals that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from betimes.apps.soccer.disorder import disordered
from betimes.apps.soccer.recording import read_recording
from betimes.apps.soccer.simulator import simulate
from betimes.apps.soccer.stadium import SIMULATED
from betimes.cli import app

SHORT = ["--seconds", "1.5", "--seed", "3"]


def betimes(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def arrivals(name: str) -> pa.Table:
    return pa.concat_tables(disordered(simulate(1.5, seed=3).tables(), name, 3)).combine_chunks()


def test_parquet_is_a_folder_in_order_of_arrival(tmp_path: Path) -> None:
    out, truth = tmp_path / "match", tmp_path / "truth.jsonl"
    result = betimes(
        "simulate", "soccer", out, *SHORT, "--delays", "wan", "--truth", truth, "--rows", 20_000
    )
    assert result.exit_code == 0, result.output
    files = sorted(out.iterdir())
    assert [file.name for file in files] == [f"part-{n:06}.parquet" for n in range(3)]
    table = pa.concat_tables(map(pq.read_table, files)).combine_chunks()
    assert table.equals(arrivals("wan"))
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    assert rows == simulate(1.5, seed=3).truth.to_pylist()
    assert "51,300 positions of 1.5 s in" in result.stdout
    assert "largest delay" in result.stdout
    assert "1 hit, 1 kick_off" in result.stdout
    assert str(truth) in result.stdout


def test_csv_is_the_stadiums_format_in_order_of_arrival(tmp_path: Path) -> None:
    out = tmp_path / "new" / "match.csv.gz"
    result = betimes("simulate", "soccer", out, *SHORT, "--delays", "bursts")
    assert result.exit_code == 0, result.output
    read = pa.concat_tables(read_recording(out, SIMULATED))
    assert read.equals(arrivals("bursts").drop_columns(["seq", "arrived"]))


def test_without_delays_positions_arrive_when_they_are_made(tmp_path: Path) -> None:
    out = tmp_path / "match"
    assert betimes("simulate", "soccer", out, *SHORT, "--delays", "none", "--quiet").stdout == ""
    table = pq.read_table(out / "part-000000.parquet")
    assert table["arrived"].equals(table["ts"])
    assert table["seq"].to_pylist() == list(range(51_300))
    played = pa.concat_tables(simulate(1.5, seed=3).tables())
    assert table.drop_columns(["seq", "arrived"]).equals(played)


JOB = """
[source]
format = "parquet"
path = "match"
arrival = "seq"

[detect]
clock = "ball"
[[detect.pattern]]
match = "player referee"
emits = "seen"

[engine]
kind = "local"

[sink]
format = "parquet"
path = "changes"
"""


def test_run_reads_what_simulate_writes(tmp_path: Path) -> None:
    betimes("simulate", "soccer", tmp_path / "match", *SHORT)
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    result = betimes("run", "--check", job)
    assert result.exit_code == 0, result.output


LINE = "8,{},-7311,-10090,-189,133036,7336947,-4571,7553,4694,-5272,8295,-1839\n"


def test_a_recording_gets_disorder(tmp_path: Path) -> None:
    recording = tmp_path / "game.csv"
    times = [10753294910826089 + 500_000_000 * k for k in range(200)]
    recording.write_text("".join(LINE.format(ts) for ts in times) + "8,1\n999" + LINE[1:])
    out = tmp_path / "game"
    bad = betimes("simulate", "soccer", out, "--recording", recording)
    assert bad.exit_code == 2
    assert "game.csv" in bad.stderr
    good = betimes("simulate", "soccer", out, "--recording", recording, "--skip", "--force")
    assert good.exit_code == 0, good.output
    assert "skipped 2 rows: 2 that are not 13 whole numbers" in good.stdout
    table = pq.read_table(out / "part-000000.parquet")
    assert np.sort(table["ts"].to_numpy()).tolist() == [ts // 1_000_000 for ts in times]
    assert "200 positions" in good.stdout
    assert "what happened" not in good.stdout


def test_a_simulated_recording_can_be_read_again(tmp_path: Path) -> None:
    file, out = tmp_path / "match.csv", tmp_path / "match"
    betimes("simulate", "soccer", file, *SHORT, "--delays", "none")
    result = betimes("simulate", "soccer", out, "--recording", file, "--stadium", "simulated",
                     "--delays", "wan", "--seed", 3)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert pq.read_table(out / "part-000000.parquet").equals(arrivals("wan"))


def test_a_recording_has_no_truth(tmp_path: Path) -> None:
    result = betimes("simulate", "soccer", tmp_path / "game", "--recording", tmp_path / "game.csv",
                     "--truth", tmp_path / "truth.jsonl")  # fmt: skip
    assert result.exit_code == 2
    assert "only a simulation knows what really happened" in result.stderr


def test_what_can_be_simulated_is_listed() -> None:
    result = betimes("simulate")
    assert "soccer" in result.output
    assert "football match" in result.output


def test_nothing_is_overwritten_unless_wanted(tmp_path: Path) -> None:
    out = tmp_path / "match"
    short = ["--seconds", "0.1"]
    assert betimes("simulate", "soccer", out, *short).exit_code == 0
    again = betimes("simulate", "soccer", out, *short)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert betimes("simulate", "soccer", out, *short, "--force").exit_code == 0
    (out / "thesis.txt").write_text("precious")
    kept = betimes("simulate", "soccer", out, *short, "--force")
    assert kept.exit_code == 2
    assert "thesis.txt" in kept.stderr
    assert (out / "thesis.txt").exists()
    file = tmp_path / "match.csv"
    assert betimes("simulate", "soccer", file, *short).exit_code == 0
    assert betimes("simulate", "soccer", file, *short).exit_code == 2
    assert betimes("simulate", "soccer", file, *short, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seconds", "-1"], "seconds"),
        (["--seconds", "nan"], "seconds"),
        (["--seed", "-1"], "seed"),
        (["--rows", "0"], "--rows"),
        (["--delays", "slow"], "slow"),
        (["--format", "xml"], "xml"),
    ],
)
def test_bad_options_are_exit_code_2(arguments: list[str], words: str, tmp_path: Path) -> None:
    result = betimes("simulate", "soccer", tmp_path / "match", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "match").exists()


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = betimes("simulate", "soccer", tmp_path / "file", "--seconds", "0.1")
    assert result.exit_code == 2
    assert "is a file" in result.stderr
    (tmp_path / "folder.csv").mkdir()
    result = betimes("simulate", "soccer", tmp_path / "folder.csv", "--seconds", "0.1")
    assert result.exit_code == 2
    assert "is a folder" in result.stderr


def test_sources_one_of_which_is_held_up(tmp_path: Path) -> None:
    out = tmp_path / "stream"
    result = betimes("simulate", "windows", out, "--events", 200_000, "--rows", 150_000)
    assert result.exit_code == 0, result.output
    files = sorted(out.iterdir())
    assert [len(pq.read_table(file)) for file in files] == [150_000, 50_000]
    table = pa.concat_tables(map(pq.read_table, files)).to_pandas()
    assert (table["arrived"].diff().dropna() >= 0).all()
    assert sorted(table["ts"]) == list(range(10, 2_000_010, 10))
    delays = table["arrived"] - table["ts"]
    held = (table["type"] == "C") & (table["ts"] >= 100_000) & (table["ts"] < 1_000_000)
    steps = (table["ts"][held] - 100_000) // 50_000 * 30
    assert (delays[held] == steps).all()
    assert (delays[table["type"] != "C"] == 0).all()
    for _, mine in table.groupby("type"):
        assert mine["number"].is_monotonic_increasing, "a source is first in, first out"
    assert "200,000 events of 2 s" in result.stdout
    assert "largest delay 510 us" in result.stdout


def test_no_source_is_held_up(tmp_path: Path) -> None:
    arguments = ["--events", 100, "--delayed", "none", "--quiet"]
    assert betimes("simulate", "windows", tmp_path / "stream", *arguments).stdout == ""
    table = pq.read_table(tmp_path / "stream" / "part-000000.parquet")
    assert table["ts"].equals(table["arrived"])


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--delayed", "D", "expected delayed to be one of A, B, C, got 'D'"),
        ("--sources", "27", "expected sources to be from 1 to 26"),
        ("--events", "0", "expected events to be 1 or more"),
        ("--interval", "0us", "expected interval to be 1 us or more"),
        ("--rows", "0", "expected --rows to be 1 or more"),
    ],
)
def test_streams_that_cannot_be(tmp_path: Path, option: str, value: str, said: str) -> None:
    result = betimes("simulate", "windows", tmp_path / "stream", option, value)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not (tmp_path / "stream").exists()
