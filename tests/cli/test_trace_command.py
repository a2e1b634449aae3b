"""`betimes trace`: the papers' example streams as golden transcripts, and every way to feed it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from betimes.cli import app

KEYS = ["event", "clock", "slack", "released", "replayed", "settled", "buffer", "late"]
FIG_7 = "A0 A2 C1 A3 B4 A6 C5 B8 C7 A11 B10 A12 C9"
FIG_4 = "A0 A2 C1 A4 B3 C5 A6"

# event, "late" if it was | clock | slack | released | replayed | settled | buffer
SPECULATION = """
A0  |  0 | 0 | A0       |        |          | A0
A2  |  2 | 0 | A2       |        | A0       | A2
C1  |  2 | 0 |          | C1 A2  |          | C1 A2
A3  |  3 | 2 |          |        | C1       | A2 A3
B4  |  3 | 2 |          |        |          | A2 A3 B4
A6  |  6 | 2 | A3 B4    |        | A2 A3 B4 | A6
C5  |  6 | 2 | C5       |        |          | C5 A6
B8  |  6 | 2 |          |        |          | C5 A6 B8
C7  |  6 | 2 |          |        |          | C5 A6 C7 B8
A11 | 11 | 6 | A6 C7 B8 |        | C5       | A6 C7 B8 A11
B10 | 11 | 6 |          |        |          | A6 C7 B8 B10 A11
A12 | 12 | 6 | B10      |        | A6       | C7 B8 B10 A11 A12
C9  | 12 | 6 |          | C9 B10 |          | C7 B8 C9 B10 A11 A12
"""
BUFFERING = """
A0  |  0 | 0 | A0       |        | A0       |
A2  |  2 | 0 | A2       |        | A2       |
C1 late | 2 | 0 |      |        |          | C1
A4  |  4 | 3 | C1       |        | C1       | A4
B3  |  4 | 3 |          |        |          | B3 A4
C5  |  4 | 3 |          |        |          | B3 A4 C5
A6  |  6 | 3 | B3       |        | B3       | A4 C5 A6
"""
# The same stream if every event moves the clock: C5 does, too.
EVERY_EVENT = """
A0  |  0 | 0 | A0       |        | A0       |
A2  |  2 | 0 | A2       |        | A2       |
C1 late | 2 | 0 |      |        |          | C1
A4  |  4 | 3 | C1       |        | C1       | A4
B3  |  4 | 3 |          |        |          | B3 A4
C5  |  5 | 3 |          |        |          | B3 A4 C5
A6  |  6 | 3 | B3       |        | B3       | A4 C5 A6
-   |  6 | 3 | A4 C5 A6 |        | A4 C5 A6 |
"""


# event | back to | buffer, with the snapshot before each event that is released but not settled
SNAPSHOTS = """
A0  |     | s0 A0
A2  |     | s2 A2
C1  | s2  | s1 C1 s2 A2
A3  |     | s2 A2 A3
B4  |     | s2 A2 A3 B4
A6  |     | A6
C5  |     | s5 C5 A6
B8  |     | s5 C5 A6 B8
C7  |     | s5 C5 A6 C7 B8
A11 |     | s6 A6 s7 C7 s8 B8 A11
B10 |     | s6 A6 s7 C7 s8 B8 B10 A11
A12 |     | s7 C7 s8 B8 s10 B10 A11 A12
C9  | s10 | s7 C7 s8 B8 s9 C9 s10 B10 A11 A12
"""


def run(*arguments: str, input: str | None = None) -> list[dict[str, Any]]:  # noqa: A002
    result = CliRunner().invoke(app, ["trace", "--format", "json", *arguments], input=input)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def transcript(text: str) -> list[dict[str, Any]]:
    rows = []
    for line in text.strip().splitlines():
        event, clock, slack, *lists = (cell.strip() for cell in line.split("|"))
        name, *late = event.split()
        values: list[Any] = [None if name == "-" else name, int(clock), int(slack)]
        values += [*(cell.split() for cell in lists), late == ["late"]]
        rows.append(dict(zip(KEYS, values, strict=True)))
    return rows


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--clock", "A", "--attenuation", "1/3", FIG_7], SPECULATION),
        (["--clock", "A", FIG_4], BUFFERING),
        ([FIG_4, "--finish"], EVERY_EVENT),
        ([FIG_4, "--finish", "--clock", "*"], EVERY_EVENT),
    ],
    ids=["speculation", "buffering", "every event", "star"],
)
def test_golden_transcripts(arguments: list[str], expected: str) -> None:
    assert run(*arguments) == transcript(expected)


def test_golden_transcript_of_snapshots() -> None:
    rows = run("--clock", "A", "--attenuation", "1/3", "--snapshots", FIG_7)
    assert all(list(row) == [*KEYS, "snapshot", "snapshots"] for row in rows)
    assert [{key: row[key] for key in KEYS} for row in rows] == transcript(SPECULATION)
    for row, line in zip(rows, SNAPSHOTS.strip().splitlines(), strict=True):
        event, restored, buffer = (cell.strip() for cell in line.split("|"))
        names = buffer.split()
        assert (row["event"], row["snapshot"] or "") == (event, restored)
        assert row["snapshots"] == [name for name in names if name.startswith("s")]
        assert row["buffer"] == [name for name in names if not name.startswith("s")]


def test_what_is_settled_needs_no_snapshot() -> None:
    rows = run("--clock", "A", "--snapshots", "--finish", FIG_4)
    assert [(row["snapshot"], row["snapshots"]) for row in rows] == [(None, [])] * 8


def test_snapshots_bear_the_time_of_their_event_whatever_its_name() -> None:
    rows = run("--attenuation", "0", "--snapshots", "s1@3 s1@3 t@2")
    assert rows[1]["snapshots"] == ["s3", "s3"]
    assert (rows[2]["snapshot"], rows[2]["snapshots"]) == ("s3", ["s2", "s3", "s3"])


def test_the_same_as_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "betimes", "trace", "--format", "json", "--clock", "A"]
    done = subprocess.run(
        [*command, "--attenuation", "1/3", FIG_7], capture_output=True, text=True, check=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == transcript(SPECULATION)
    assert all(list(row) == KEYS for row in rows)
    assert done.stderr == ""


def test_json_lines_come_as_the_events_come() -> None:
    command = [sys.executable, "-m", "betimes", "trace", "--format", "json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"A0\nA2\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 120)[0], "no row before the input ended"
        assert json.loads(process.stdout.readline())["event"] == "A0"
        process.communicate()
    assert process.returncode == 0


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    stream = " ".join(f"A{ts}" for ts in range(5_000))
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "betimes", "trace", "--format", "json"]
    done = subprocess.run(
        command, input=stream.encode(), stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert b"Traceback" not in done.stderr


def test_stdin_file_and_argument_are_the_same(tmp_path: Path) -> None:
    text = "A0, A2 C1 # a comment with A99\n\nA4,B3\tC5\nA6\n"
    file = tmp_path / "events.txt"
    file.write_text(text)
    expected = transcript(BUFFERING)
    assert run("--clock", "A", input=text) == expected
    assert run("--clock", "A", "-", input=text) == expected
    assert run("--clock", "A", "--file", str(file)) == expected
    assert run("--clock", "A", text) == expected
    assert run("--clock", "A", *FIG_4.split()) == expected


def test_names_that_end_in_digits() -> None:
    rows = run("--clock", "s1", "s1@3 s1@5 near_ball4 s1@8")
    assert [row["event"] for row in rows] == ["s1@3", "s1@5", "near_ball4", "s1@8"]
    assert rows[-1]["released"] == ["near_ball4"]


@pytest.mark.parametrize("clock", [["--clock", "A,B"], ["--clock", "A", "--clock", "B"]])
def test_several_clocks_and_subscribed_types(clock: list[str]) -> None:
    rows = run(*clock, "--on", "C", "A1 B2 C1 A4")
    assert [row["clock"] for row in rows] == [1, 2, 2, 4]
    assert [row["buffer"] for row in rows] == [[], [], ["C1"], []]


@pytest.mark.parametrize(
    ("options", "slack"),
    [
        (["--policy", "largest"], 8),
        (["--policy", "20"], 20),
        (["--policy", "1ms"], 1000),
        (["--max-slack", "5"], 5),
        (["--min-slack", "30us"], 30),
        (["--policy", "decaying", "--decay", "10"], 4),
        (["--policy", "quantile", "--max-late", "0.5"], 0),
    ],
)
def test_options_of_the_slack(options: list[str], slack: int) -> None:
    assert run(*options, "A10 B4 A12 A22")[-1]["slack"] == slack


def test_a_margin_adds_to_the_slack() -> None:
    plain, more = (run("--margin", m, "A10 B4 A12 A22 B19 A30")[-1]["slack"] for m in ("0", "2"))
    assert more > plain


def test_max_skew_puts_aside_and_says_so() -> None:
    result = CliRunner().invoke(app, ["trace", "--format", "json", "--max-skew", "20", "A0 A99 A3"])
    assert [json.loads(line)["clock"] for line in result.stdout.splitlines()] == [0, 0, 3]
    assert "rejected A99" in result.stderr
    assert run("--max-skew", "off", "A0 A99 A3")[-1]["clock"] == 99


@pytest.mark.parametrize("finish", [True, False])
def test_without_a_clock_event_it_says_so(finish: bool) -> None:
    options = ["--finish"] if finish else []
    result = CliRunner().invoke(app, ["trace", "--clock", "A", "B1 B2", *options])
    assert result.exit_code == 0
    assert "no event of the clock type" in result.stderr


def table(*arguments: str, columns: int = 100) -> list[str]:
    result = CliRunner().invoke(app, ["trace", *arguments], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.stderr
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_the_table_marks_what_is_released_but_not_settled() -> None:
    lines = table("--clock", "A", "--attenuation", "1/3", FIG_7)
    assert "  C9        12      6            C9 B10              (C7 B8 C9 B10) A11 A12" in lines
    assert "(…): released, not settled" in " ".join(lines)
    assert max(map(len, lines)) <= 100


def test_the_table_shows_snapshots_if_asked() -> None:
    arguments = ["--clock", "A", "--attenuation", "1/3", FIG_7]
    lines = table(*arguments, "--snapshots")
    assert "  C1         2      0            s2       C1 A2               (s1 C1 s2 A2)" in lines
    assert "  A3         3      2                               C1        (s2 A2) A3" in lines
    assert "s2: the detector's state before the event of time 2" in " ".join(lines)
    assert max(map(len, lines)) <= 100
    assert not any("s2" in line for line in table(*arguments))


def test_the_table_marks_late_and_rejected_events() -> None:
    lines = table("--clock", "A", "--max-skew", "20", "A0 A4 C1 A99 A6")
    assert any(line.startswith("  C1 late ") for line in lines)
    assert any(line.startswith("  A99 aside ") for line in lines)
    assert any(line.startswith("  A6 rejects A99 ") for line in lines)


def test_a_full_buffer_does_not_flood_the_table() -> None:
    lines = table("--clock", "X", " ".join(f"A{ts}" for ts in range(100)), columns=140)
    assert any("… 88 more" in line for line in lines)
    stream = "X100 " + " ".join(f"A{ts}" for ts in range(101, 151))
    lines = table("--clock", "X", "--policy", "100", "--attenuation", "0", "--snapshots",
                  stream + " X150", columns=220)  # fmt: skip
    assert any("… 40 more)" in line for line in lines)


def test_type_names_are_not_taken_for_markup() -> None:
    assert any("[red]@3" in line for line in table("[red]@3"))
