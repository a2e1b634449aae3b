"""`betimes trace --windows` draws the figures of the thesis *windows*."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from betimes.cli import app

CAME = "A1 A2 A3 A4 A5 A6 A7 A9 A10 A11 A13 A15"


def trace(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["trace", *arguments], env={"COLUMNS": "160"})


def rows(events: str, shape: str, *more: str) -> list[dict[str, Any]]:
    result = trace("--attenuation", "0", "--windows", shape, "--format", "json", *more, events)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_late_event_becomes_the_first_of_a_window() -> None:
    *_, before, after = rows(f"{CAME} A12", "count=100,slide=5")
    assert before["windows"][2] == "3@0: 15 13"
    assert after["windows"][2] == "3@0: 15 13 12"
    assert after["sent"] == {"0": ["EVENT 12", "ADD 12 to 3", "END"], "1": ["EVENT 12", "END"]}


def test_a_late_event_in_the_middle_changes_no_border() -> None:
    *_, after = rows(f"{CAME} A14", "count=100,slide=5")
    assert after["windows"][2] == "3@0: 15 14 13"
    assert after["sent"] == {"0": ["EVENT 14", "END"], "1": ["EVENT 14", "END"]}


def test_the_end_closes_windows() -> None:
    *_, last, end = rows("A1 A2 A3", "count=2", "--finish", "--instances", "1")
    assert last["windows"] == ["1@0 closed: 2 1", "2@0: 3"]
    assert end["sent"] == {"0": ["CLOSE 2"]}


def test_the_table_shows_what_is_sent() -> None:
    result = trace("--attenuation", "0", "--windows", "count=4,slide=2", "A1 A2 A4 A5 A3")
    assert "0: EVENT 3" in result.stdout
    assert "window 3, at instance 0" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--windows", "5"), "such as count=4,slide=2"),
        (("--windows", "count=0"), "1 or more, got count=0"),
        (("--windows", "size=4"), "unknown option 'size'"),
        (("--windows", "count=4", "--instances", "0"), "from 1 to 99, got 0"),
        (("--windows", "count=4", "--snapshots"), "does not go with --windows"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[str, ...], message: str) -> None:
    result = trace(*arguments, "A1 A2")
    assert result.exit_code == 2
    assert message in result.stderr
