"""What the documents show is what the program prints, and the examples run."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from betimes.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def transcripts() -> list[tuple[str, str]]:
    """Every `$ betimes ...` in a console block, with the lines below it."""
    found = []
    for document in DOCUMENTS:
        for block in re.findall(r"```console\n(.*?)```", document.read_text("utf-8"), re.DOTALL):
            for part in block.split("$ ")[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output.strip("\n")))
    return found


@pytest.mark.parametrize(("command", "output"), transcripts())
def test_transcripts_are_what_the_program_prints(command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "betimes"
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.stderr
    printed = [line.rstrip() for line in result.stdout.splitlines()]
    assert "\n".join(printed).strip("\n") == output


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_snippets_do_what_they_show(document: Path) -> None:
    failed, _ = doctest.testfile(str(document), module_relative=False, encoding="utf-8")
    assert failed == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
