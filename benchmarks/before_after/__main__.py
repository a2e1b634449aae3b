"""How fast two commits are, side by side: `python -m benchmarks.before_after REV [--rounds N]`.

The benchmarks are those of this tree; only the library differs. The old one is checked out into a
temporary folder, the new one is that of this tree. The speed of a shared machine varies by more
than the differences that matter, so every round runs each job on both libraries, one after the
other, in new processes, and the order alternates. The first round does not count: numba compiles.

A rate is the median over the rounds. A ratio is the median of new / old within a round; its spread
is the smallest and the largest. Patterns, detectors and soccer are also compared with a yardstick
that runs in the same round (`jobs.YARDSTICKS`). The exit code is 1 if a ratio is below `--least`
(0.95). To see how far the machine can be trusted, compare a clean tree with itself: `REV` is
`HEAD`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.before_after.jobs import JOBS, SPARK, yardstick_of
from benchmarks.racing import progress_bar
from benchmarks.revisions import ROOT, checked_out, run_module


@dataclass
class Measured:
    """The rates of one job in each round."""

    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    yardstick: list[float] = field(default_factory=list)
    """The rates of what it is compared with; none if it is compared with nothing."""

    @property
    def ratios(self) -> list[float]:
        return [new / old for old, new in zip(self.old, self.new, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    def compared(self, rates: list[float]) -> str:
        """Rates as multiples of the yardstick."""
        if not self.yardstick:
            return ""
        pairs = zip(rates, self.yardstick, strict=True)
        return f"{statistics.median(rate / theirs for rate, theirs in pairs):.2f}"


def measure(tree: Path, names: Sequence[str], rounds: int) -> dict[str, Measured]:
    """Run every job on both sides in every round."""
    found = {name: Measured() for name in names}
    with progress_bar() as bar:
        needed = {yardstick for name in names if (yardstick := yardstick_of(name))}
        task = bar.add_task("", total=(rounds + 1) * (2 * len(names) + len(needed)))
        for lap in range(rounds + 1):
            rates_of = {}
            for yardstick in sorted(needed):
                bar.update(task, description=yardstick)
                rates_of[yardstick] = _run(yardstick, ROOT)
                bar.advance(task)
            for name, measured in found.items():
                sides = [(tree, measured.old), (ROOT, measured.new)]
                for side, rates in sides if lap % 2 else reversed(sides):
                    bar.update(task, description=name)
                    rate = _run(name, side)
                    if lap:
                        rates.append(rate)
                    bar.advance(task)
                yardstick_rate = rates_of.get(yardstick_of(name) or "")
                if lap and yardstick_rate is not None:
                    measured.yardstick.append(yardstick_rate)
    return found


def _run(name: str, tree: Path) -> float:
    said = run_module("benchmarks.before_after.jobs", name, tree=tree)
    return float(json.loads(said.splitlines()[-1]))


def table_of(revision: str, found: dict[str, Measured]) -> Table:
    title = f"Events per CPU second: {revision} and this tree"
    table = Table("job", title=title, title_justify="left")
    for column in ("old", "new", "new / old", "spread", "old x", "new x"):
        table.add_column(column, justify="right")
    for name, each in found.items():
        rates = (statistics.median(each.old), statistics.median(each.new))
        spread = f"{min(each.ratios):.2f}-{max(each.ratios):.2f}"
        table.add_row(
            name, *(f"{r:,.4g}" for r in rates), f"{each.ratio:.2f}", spread,
            each.compared(each.old), each.compared(each.new),
        )  # fmt: skip
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("revision", metavar="REV", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument("--only", default="", metavar="NAME", help="jobs with this in their name")
    parser.add_argument(
        "--spark", action="store_true", help="also run the jobs on Spark (needs Java)"
    )
    parser.add_argument("--least", type=float, default=0.95, help="the smallest ratio to accept")
    options = parser.parse_args(arguments)
    names = [n for n in JOBS if options.only in n and (options.spark or not n.startswith(SPARK))]
    if not names or options.rounds < 1:
        parser.error(f"nothing to run: --only must be part of one of {list(JOBS)}, --rounds >= 1")
    with checked_out(options.revision) as tree:
        found = measure(tree, names, options.rounds)
    Console().print(table_of(options.revision, found))
    slower = [name for name, each in found.items() if each.ratio < options.least]
    print(f"below {options.least:g}: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
