"""Running the benchmarks of this commit on the library of another one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The tree of a commit in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="betimes-revision-") as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(tree), revision)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def run_module(module: str, *arguments: str, tree: Path = ROOT) -> str:
    """Run a module of these benchmarks in a new process on the library of a tree; its output."""
    paths = (str(tree / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", module, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True)
