"""The command line as a whole: help, version, and what bad input is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import betimes
from betimes.cli import app
from betimes.cli.trace.arrivals import parse


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"betimes {betimes.__version__}\n")


@pytest.mark.parametrize("command", ["trace", "demo"])
def test_help_has_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert f"betimes {command}" in result.stdout.split("Examples")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A0 A2 A1.5 C3"], "  A0 A2 A1.5 C3\n        ^^^^\nexpected a type and a whole time"),
        (["A0 A-3"], "bad event 'A-3'"),
        (["12"], "bad event '12'"),
        (["A"], "bad event 'A'"),
        (["s1@"], "bad event 's1@'"),
        (["A0 betimes.tick9"], "another type: this one is betimes' own"),
        (["A9223372036854775808"], "a time of at most 4611686018427387903"),
        (["A1", "--policy", "smallest"], "expected --policy to be one of largest, decaying"),
        (["A1", "--attenuation", "2"], "expected attenuation to be from 0 to 1"),
        (["A1", "--attenuation", "1/0"], "such as 1/3 or 0.3, got '1/0'"),
        (["A1", "--margin", "-1"], "expected margin to be 0 or more"),
        (["A1", "--max-late", "1"], "expected max_late"),
        (["A1", "--decay", "soon"], "expected decay to be a duration"),
        (["A1", "--min-slack", "5", "--max-slack", "3"], "min_slack <= max_slack"),
        (["A1", "--clock", ""], "expected clock to be one or more event types"),
        (["A1", "--file", "x"], "an argument and --file"),
        (["--file", "missing.txt"], "missing.txt': No such file"),
        ([""], "expected at least one event, got none"),
        (["# only a comment"], "expected at least one event, got none"),
        ([], "expected at least one event, got none"),
        (["A1", "--format", "yaml"], "yaml"),
    ],
)
def test_bad_input_to_trace(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["trace", *arguments], env={"COLUMNS": "100"})
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_the_line_of_a_bad_token_is_named(tmp_path: Path) -> None:
    file = tmp_path / "events.txt"
    file.write_text("A0 A1\n" + "A2 " * 100 + "oops " + "A3 " * 100)
    result = CliRunner().invoke(app, ["trace", "--file", str(file)])
    assert result.exit_code == 2
    _, shown, pointer, *_ = result.stderr.splitlines()
    assert "line 2" in result.stderr
    assert shown[pointer.index("^") : pointer.rindex("^") + 1] == "oops"
    assert len(shown) < 100


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "events.bin"
    file.write_bytes(b"A1 \xff\xfe")
    result = CliRunner().invoke(app, ["trace", "--file", str(file)])
    assert result.exit_code == 2
    assert "expected UTF-8 text" in result.stderr


def test_a_bad_event_after_good_ones_does_not_take_them_back() -> None:
    result = CliRunner().invoke(app, ["trace", "--format", "json", "A0 A1 oops"])
    assert result.exit_code == 2
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("output", "exit_code", "message"),
    [
        ("picture.txt", 2, "a .png, .svg or .pdf file"),
        ("missing/picture.png", 2, "create 'missing' first"),
        ("folder.png", 1, "folder.png"),
    ],
)
def test_bad_output_of_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, exit_code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    result = CliRunner().invoke(app, ["demo", "--no-spark", "--events", "1000", "--output", output])
    assert result.exit_code == exit_code
    assert message in result.stderr


def test_arrivals_are_read_one_by_one() -> None:
    events = parse(iter(["A0 B1", "oops"]))
    assert [next(events).ts, next(events).ts] == [0, 1]
