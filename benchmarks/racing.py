"""Timing for all benchmarks: contenders race in the same process, in interleaved rounds.

The speed of a shared machine varies by more than the differences that matter. So every round runs
each contender once. A *rate* is the number of events over the median time of the rounds. A *ratio*
of two contenders is the median of the ratios within a round, where both ran under about the same
conditions. Before the first round, each contender runs once untimed: it compiles, fills the caches,
and must hand out exactly as many events as it was given.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


@dataclass(frozen=True)
class Contender:
    """Something that takes `events` events; `run` returns how many it handed out."""

    name: str
    events: int
    run: Callable[[], int]


@dataclass(frozen=True)
class Result:
    """The time of one contender in each round."""

    name: str
    events: int
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / statistics.median(self.seconds)

    def ratio(self, other: Result) -> float:
        """The speed of this one, as a multiple of the speed of the other."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        share = statistics.median(theirs / mine for mine, theirs in pairs)
        return share * self.events / other.events


@dataclass(frozen=True)
class Race:
    """The results of contenders that ran side by side; yardsticks are those to compare with."""

    title: str
    results: dict[str, Result]
    yardsticks: tuple[str, ...]

    def ratio(self, name: str, yardstick: str) -> float:
        return self.results[name].ratio(self.results[yardstick])

    def table(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        table.add_column("contender")
        table.add_column("million events/s", justify="right")
        for yardstick in self.yardsticks:
            table.add_column(f"x {yardstick}", justify="right")
        for name, result in self.results.items():
            ratios = [f"{self.ratio(name, yardstick):.2f}" for yardstick in self.yardsticks]
            table.add_row(name, f"{result.rate / 1e6:.2f}", *ratios)
        return table

    def as_dict(self) -> dict[str, object]:
        rows = [
            asdict(result)
            | {"rate": result.rate}
            | {f"x {yardstick}": self.ratio(name, yardstick) for yardstick in self.yardsticks}
            for name, result in self.results.items()
        ]
        return {"title": self.title, "results": rows}


@dataclass(frozen=True)
class Target:
    """A figure that the project promises."""

    name: str
    wanted: float
    got: float

    @property
    def holds(self) -> bool:
        return self.got >= self.wanted


def race(
    title: str, contenders: Sequence[Contender], *, yardsticks: Sequence[str], rounds: int
) -> Race:
    """Run every contender once untimed, then once in each round."""
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    with progress_bar() as bar:
        task = bar.add_task(title, total=(rounds + 1) * len(contenders))
        for lap in range(rounds + 1):
            for contender in contenders:
                bar.update(task, description=f"{title}: {contender.name}")
                took = _timed(contender)
                if lap:
                    seconds[contender.name].append(took)
                bar.advance(task)
        bar.update(task, description=title)
    results = {c.name: Result(c.name, c.events, tuple(seconds[c.name])) for c in contenders}
    return Race(title, results, tuple(yardsticks))


def progress_bar() -> Progress:
    """A progress bar on stderr, so that stdout holds only the report."""
    columns = (MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=Console(stderr=True))


def resident_bytes() -> int:
    """The resident memory of this process: now on Linux, its peak elsewhere."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024


def machine() -> dict[str, str]:
    """The machine and the versions that the figures depend on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cores": str(os.cpu_count()),
        "processor": models[0] if models else platform.processor(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    } | {name: version(name) for name in ("numpy", "numba", "pyarrow")}


def report(
    races: Sequence[Race],
    targets: Sequence[Target],
    *,
    readings: dict[str, dict[str, str]],
    as_json: bool,
) -> None:
    """Print everything: as tables, or as one JSON document."""
    if as_json:
        found = [asdict(target) | {"holds": target.holds} for target in targets]
        parts = {"machine": machine(), "races": [r.as_dict() for r in races], "targets": found}
        print(json.dumps(parts | readings, indent=2))
        return
    console = Console()
    for title, pairs in ({"machine": machine()} | readings).items():
        table = Table(title=title, title_justify="left", show_header=False)
        for name, value in pairs.items():
            table.add_row(name, value)
        console.print(table)
    for each in races:
        console.print(each.table())
    if not targets:
        return
    table = Table("target", "wanted", "got", "holds", title="targets", title_justify="left")
    for target in targets:
        verdict = "[green]yes" if target.holds else "[red]no"
        table.add_row(target.name, f"{target.wanted:g}", f"{target.got:.2f}", verdict)
    console.print(table)


def _timed(contender: Contender) -> float:
    gc.collect()
    start = time.perf_counter()
    handed_out = contender.run()
    took = time.perf_counter() - start
    if handed_out != contender.events:
        raise RuntimeError(
            f"expected {contender.name!r} to hand out all of its {contender.events} events, "
            f"got {handed_out}; its time would mean nothing"
        )
    return took
