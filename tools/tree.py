"""Checks the tree: every file has a place, and no module is too long.

Run by `make lint`. A file that git tracks must match a rule of `RULES`; one that matches none was
left behind by accident, or needs a rule that says why it is there. A module has at most
`MOST_LINES` lines; more is a hint that a concept wants a name and a module for itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES = 450


@dataclass(frozen=True)
class Rule:
    """Files whose names match `pattern` in `folder`; `folder/**` includes all folders below it."""

    folder: str
    pattern: str
    reason: str

    def explains(self, path: str) -> bool:
        place = PurePosixPath(path)
        top = self.folder.removesuffix("/**")
        below = top != self.folder and place.parent.is_relative_to(top)
        in_folder = below or place.parent == PurePosixPath(top)
        return in_folder and fnmatchcase(place.name, self.pattern)


RULES = (
    Rule(".", "README.md", "what the project is, and the first five minutes"),
    Rule(".", "CHANGELOG.md", "what changed, for users"),
    Rule(".", "CONTRIBUTING.md", "how to work on the project"),
    Rule(".", "LICENSE", "the license"),
    Rule(".", "Makefile", "the commands that everyone uses"),
    Rule(".", "pyproject.toml", "the package, and the settings of all tools"),
    Rule(".", "constraints.txt", "the versions that are tested"),
    Rule(".", ".gitignore", "what git leaves out"),
    Rule(".ci", "run", "what continuous integration runs"),
    Rule("src/betimes/**", "*.py", "the library"),
    Rule("src/betimes", "py.typed", "tells type checkers that the library has types"),
    Rule("tests/**", "*.py", "tests, in the folders of what they test"),
    Rule("benchmarks/**", "*.py", "how fast, compared with what"),
    Rule("benchmarks", "README.md", "the figures, and how they were measured"),
    Rule("docs", "*.md", "a page per topic"),
    Rule("docs/images", "*.png", "pictures in the pages"),
    Rule("examples", "*.py", "examples that run"),
    Rule("examples", "*.toml", "job files that run what an example defines"),
    Rule("examples/job", "*.toml", "example job files"),
    Rule("examples/job", "*.py", "what the example job files import"),
    Rule("tools", "*.py", "what the Makefile runs"),
    Rule("tools", "*.sh", "what the Makefile runs before there is a Python environment"),
)


def unexplained(paths: Iterable[str], rules: Iterable[Rule] = RULES) -> list[str]:
    """The files that no rule explains."""
    rules = tuple(rules)
    return [path for path in paths if not any(rule.explains(path) for rule in rules)]


def unused(paths: Iterable[str], rules: Iterable[Rule] = RULES) -> list[Rule]:
    """The rules that explain no file."""
    paths = tuple(paths)
    return [rule for rule in rules if not any(map(rule.explains, paths))]


def too_long(lengths: Mapping[str, int]) -> list[str]:
    """The modules with too many lines."""
    return [
        f"{path}: expected at most {MOST_LINES} lines, got {length}; split it by concept"
        for path, length in sorted(lengths.items())
        if length > MOST_LINES
    ]


def tracked(root: Path) -> list[str]:
    """The files that git tracks and that are there."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [path for path in listed.split("\0") if path and (root / path).exists()]


def problems(root: Path) -> list[str]:
    """Everything that is wrong with a tree, a line each."""
    paths = tracked(root)
    modules = [path for path in paths if path.endswith(".py")]
    lengths = {m: len((root / m).read_text(encoding="utf-8").splitlines()) for m in modules}
    return [
        *(f"{path}: no rule explains this file; remove it, or add a rule to tools/tree.py"
          for path in unexplained(paths)),
        *(f"{rule.folder}/{rule.pattern}: this rule explains no file; remove it from tools/tree.py"
          for rule in unused(paths)),
        *too_long(lengths),
    ]  # fmt: skip


def main() -> int:
    if not (ROOT / ".git").exists():
        print("tree: skipped, because this is not a git checkout", file=sys.stderr)
        return 0
    found = problems(ROOT)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
