"""The check of the tree names what no rule explains, and modules that are too long."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.tree import MOST_LINES, RULES, Rule, problems, too_long, unexplained, unused


@pytest.mark.parametrize(
    "path",
    [
        "src/betimes/ordering/kernel.py.orig",
        "src/betimes/notes.md",
        "src/other/module.py",
        "docs/images/deeper/picture.png",
        "docs/draft.txt",
        "module.py",
        ".ci/run.sh",
    ],
)
def test_a_file_that_no_rule_explains_is_named(path: str) -> None:
    assert unexplained(["README.md", path, "src/betimes/engine/stages/rows/stage.py"]) == [path]


def test_a_folder_alone_does_not_include_those_below_it() -> None:
    only, below = Rule("a", "*.py", "here"), Rule("a/**", "*.py", "here and below")
    assert [only.explains(path) for path in ("a/x.py", "a/b/x.py", "ab/x.py")] == [
        True,
        False,
        False,
    ]
    assert [below.explains(path) for path in ("a/x.py", "a/b/x.py", "ab/x.py")] == [
        True,
        True,
        False,
    ]


def test_a_rule_that_explains_nothing_is_named() -> None:
    empty = Rule("nowhere", "*", "nothing")
    assert unused(["README.md"], [RULES[0], empty]) == [empty]


def test_long_modules_are_named() -> None:
    (found,) = too_long({"a.py": MOST_LINES, "b.py": MOST_LINES + 1})
    assert found.startswith(f"b.py: expected at most {MOST_LINES} lines, got {MOST_LINES + 1}")


def test_only_files_that_git_tracks_count(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name in ("kept.orig", "scratch.orig"):
        (tmp_path / name).write_text("")
    subprocess.run(["git", "-C", str(tmp_path), "add", "kept.orig"], check=True)
    named = [line for line in problems(tmp_path) if ".orig" in line]
    assert named == [
        "kept.orig: no rule explains this file; remove it, or add a rule to tools/tree.py"
    ]
