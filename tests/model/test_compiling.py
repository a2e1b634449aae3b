"""The cache of compiled functions: shared by processes, never stale, never in the way."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from betimes.model import compiling

HELPER = """
from betimes.model.compiling import compiled
from sample.deep.units import FACTOR

@compiled
def scaled(x):
    return FACTOR * x {more}
"""
LOOP = """
from betimes.model.compiling import compiled
from sample.deep.helper import scaled

@compiled
def total(n):
    found = 0
    for i in range(n):
        found += scaled(i)
    return found
"""
SCRIPT = """
import sys
from sample.deep import loop
assert "numba" not in sys.modules
found = loop.total(4)
import numba
stats = loop.total.stats
print(found, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), stats.cache_path)
print(numba.config.CACHE_DIR)
"""


class Outcome(NamedTuple):
    total: int
    loaded: int
    compiled: int
    folder: Path | None
    numbas_own: str


def write(folder: Path, *, factor: int = 2, more: str = "") -> None:
    """A package whose compiled loop calls a function and uses a constant of other files."""
    deep = folder / "sample" / "deep"
    deep.mkdir(parents=True, exist_ok=True)
    for package in (folder / "sample", deep):
        (package / "__init__.py").touch()
    (deep / "units.py").write_text(f"FACTOR = {factor}\n")
    (deep / "helper.py").write_text(HELPER.format(more=more))
    (deep / "loop.py").write_text(LOOP)


def run(package: Path, cache: Path, **variables: str) -> Outcome:
    """Call the loop in a new process; warnings are errors."""
    paths = [str(package), str(Path(compiling.__file__).parents[2])]
    environment = {
        **{k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"},
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CACHE_HOME": str(cache),
        "HOME": str(cache),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=package, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    first, own = done.stdout.split("\n")[:2]
    total, loaded, compiled, folder = first.split(" ", 3)
    where = None if folder == "None" else Path(folder)
    return Outcome(int(total), int(loaded), int(compiled), where, own)


def test_a_second_process_does_not_compile(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    write(tmp_path)
    outcomes = [run(tmp_path, cache), run(tmp_path, cache)]
    assert [(o.total, o.loaded, o.compiled) for o in outcomes] == [(12, 0, 1), (12, 1, 0)]
    (folder,) = {o.folder for o in outcomes}
    assert folder is not None
    assert folder.parent.parent == cache / "betimes"
    assert folder.parent.name.startswith("sample.deep-")
    assert {o.numbas_own for o in outcomes} == {""}


def test_a_change_in_another_file_is_seen(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    write(tmp_path)
    before = run(tmp_path, cache)
    write(tmp_path, more="+ 1")
    other_function = run(tmp_path, cache)
    write(tmp_path, factor=3)
    other_constant = run(tmp_path, cache)
    outcomes = [before, other_function, other_constant]
    assert [o.total for o in outcomes] == [12, 16, 18]
    assert [o.compiled for o in outcomes] == [1, 1, 1]
    assert len({o.folder for o in outcomes}) == 3


def test_numbas_setting_for_the_folder_is_respected(tmp_path: Path) -> None:
    write(tmp_path)
    chosen = tmp_path / "chosen"
    outcomes = [run(tmp_path, tmp_path / "cache", NUMBA_CACHE_DIR=str(chosen)) for _ in range(2)]
    assert [o.compiled for o in outcomes] == [1, 0]
    assert all(o.folder and o.folder.parent.parent == chosen / "betimes" for o in outcomes)
    assert not (tmp_path / "cache").exists()


def test_where_our_folder_cannot_be_written_numba_chooses(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("a file, in which no folder can be made")
    write(tmp_path)
    outcomes = [run(tmp_path, cache), run(tmp_path, cache)]
    assert [(o.total, o.compiled) for o in outcomes] == [(12, 1), (12, 0)]
    assert {o.folder for o in outcomes} == {tmp_path / "sample" / "deep" / "__pycache__"}


def test_without_any_writable_folder_every_process_compiles(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("a file, in which no folder can be made")
    write(tmp_path)
    (tmp_path / "sample" / "deep" / "__pycache__").write_text("nor in this one")
    assert run(tmp_path, cache)[:4] == (12, 0, 1, None)


def test_folders_that_were_not_used_for_a_month_are_removed(tmp_path: Path) -> None:
    home = tmp_path / "betimes"
    names = {
        "old": "some.module-0123456789abcdef",
        "young": "some.module-fedcba9876543210",
        "not ours": "notes",
    }
    for name in names.values():
        (home / name).mkdir(parents=True)
        (home / name / "content").touch()
    for name, age in (("old", 31), ("young", 29), ("not ours", 31)):
        then = time.time() - age * 24 * 3600
        os.utime(home / names[name], (then, then))
    made = compiling._folder(home, "another.module-0000000000000000")
    assert made is not None
    left = {folder.name for folder in home.iterdir()}
    assert left == {names["young"], names["not ours"], made.name}


def test_a_folder_in_use_stays(tmp_path: Path) -> None:
    used = tmp_path / "some.module-0123456789abcdef"
    used.mkdir()
    os.utime(used, (0, 0))
    assert compiling._folder(tmp_path, used.name) == used
    compiling._folder(tmp_path, "another.module-0000000000000000")
    assert used.exists()


@pytest.mark.parametrize("package", ["betimes.ordering.kernel", "betimes.patterns.kernel"])
def test_compiled_code_uses_nothing_of_other_folders(package: str) -> None:
    """The cache would not notice a change there."""
    folder = Path(str(importlib.import_module(package).__file__)).parent
    for file in folder.glob("*.py"):
        imported = re.findall(r"^from (betimes[\w.]*)", file.read_text(), re.MULTILINE)
        others = [n for n in imported if not n.startswith(package)]
        assert set(others) <= {"betimes.model.compiling"}, file


def test_a_function_without_a_file_is_compiled_and_not_cached() -> None:
    made: dict[str, Callable[[int], int]] = {}
    exec("def twice(x):\n    return 2 * x", {"__name__": compiling.__name__}, made)
    twice = compiling.compiled(made["twice"])
    assert twice(3) == 6
    assert twice.made.stats.cache_path is None  # type: ignore[attr-defined]
