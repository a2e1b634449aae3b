"""The command `betimes demo`, and its first part: slack policies compared on a simulated stream.

The other parts are in `early.py` (early results), `match.py` (a match) and `on_spark.py` (Spark).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import which
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from betimes.cli.demo.early import WAYS, print_comparison, print_story, watch
from betimes.cli.demo.game import play
from betimes.cli.demo.match import SECONDS, MatchResult, follow, summary
from betimes.cli.demo.on_spark import watch_on_spark, why_not
from betimes.cli.speaking import COMPILING, patience, shown
from betimes.model import EventBatch, OptionError, readable
from betimes.ordering import NEVER, OrderingStats, OrderingUnit
from betimes.testing import delayed, sensor_stream

Ints = npt.NDArray[np.int64]

CLOCK = "ball"
BATCH = 10_000
EVENTS_ON_SPARK = 6_000
SLOWER_ON_SPARK = 8
"""Factor on the delays of the reports: a micro-batch would put short delays in order."""
POLICIES: dict[str, dict[str, Any]] = {
    "largest": {"slack": "largest"},
    "decaying, 2 s": {"slack": "decaying", "decay": "2s"},
    "quantile, 2 % late": {"slack": "quantile", "max_late": 0.02},
    "fixed, 500 ms": {"slack": "500ms"},
}
"""Chosen to show the differences within 30 s of stream time. By default, the slack of the second
would take longer than that to fade. With `max_late` equal to the share of stragglers (1 %), the
slack of the third would jump back and forth. The last is what an expert might choose after a look
at the calm part of the stream."""


@dataclass
class Stream:
    """A stream in order of arrival, and the delay of each event."""

    events: EventBatch
    delays: Ints


@dataclass
class PolicyResult:
    """How one slack policy did."""

    policy: str
    stats: OrderingStats
    mean_wait: float
    """Mean stream time between the `ts` of an event and the clock at its release."""
    seconds: float
    clock: Ints = field(repr=False)
    slack: Ints = field(repr=False)


def demo(
    *,
    output: Annotated[
        Path,
        typer.Option(
            help="Where to write the first picture (.png, .svg or .pdf). The others go next to it, "
            "with -early and -match in their names.",
            metavar="PATH",
        ),
    ] = Path("betimes-demo.png"),
    events: Annotated[
        int,
        typer.Option(help="Number of events in part 1; parts 2 and 3 shrink with it.", min=1000),
    ] = 300_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same stream.", min=0)] = 1,
    spark: Annotated[
        bool,
        typer.Option("--spark/--no-spark", help="Show the last part, on Spark, or leave it out."),
    ] = True,
) -> None:
    """Show what waiting costs, and what not waiting does, in tables and pictures.

    [bold]1. Slack.[/] Sensors report about 10,000 events per second. The events arrive
    out of order, and 1 % of them are stragglers. In the middle of the stream the
    network is busy and all delays grow; later they shrink again. How long does
    each slack policy make events wait, and how many events come too late?

    [bold]2. Early results.[/] Detectors watch a game: once they wait until the order is
    certain, twice they speculate. How early is a result known, how much is taken
    back, and is the final result the same?

    [bold]3. A football match.[/] Sensors on players and balls report 34,000 positions per
    second, out of order. Detectors find passes, duels and shots in them. The
    picture shows one moment: what is final, what is provisional, and what was
    taken back.

    [bold]4. Spark.[/] The detectors of part 2 run as a streaming query on an embedded
    Spark. You see what each micro-batch finds and takes back, and whether the
    final result is the same.

    [bold]Examples[/]

    [green]betimes demo[/]

    [green]betimes demo --events 1000000 --output policies.png[/]
    """
    _check(output)
    stream = busy_hour(events, seed)
    with patience(COMPILING):
        OrderingUnit(clock=CLOCK).feed(stream.events)  # the first policy must not pay for this
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:18}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        runs = [
            measure(policy, stream, partial(bar.advance, bar.add_task(policy, total=events)))
            for policy in POLICIES
        ]
        _print(runs, events)
        game = play(max(2_000, events // 10), seed)
        early = [
            watch(way, game, partial(bar.advance, bar.add_task(way, total=len(game.events))))
            for way in WAYS
        ]
    print_comparison(early, game)
    print_story(early)
    match = _show_match(seed, events)
    if spark:
        _show_spark(seed)
    second, third = (output.with_stem(f"{output.stem}-{name}") for name in ("early", "match"))
    with patience("drawing"):
        # matplotlib takes a moment to import, and only this needs it
        from betimes.cli.demo.picture import draw, draw_early
        from betimes.cli.demo.pitch import draw_match

        draw(stream, runs, output)
        draw_early(early, second)
        draw_match(match, third)
    typer.echo(f"pictures: {output}, {second}, {third}")
    example = 'trace --clock A --attenuation 1/3 "A0 A2 C1 A3 B4 A6 C5 A9"'
    typer.echo(f"next, try: {program()} {example}")


def program() -> str:
    """How to call betimes from here: `make demo` installs it in a place that is not on the PATH."""
    installed = Path(sys.executable).with_name("betimes")
    return "betimes" if which("betimes") or not installed.exists() else shown(installed)


def _show_match(seed: int, events: int) -> MatchResult:
    """The third part: a few seconds of a match, fewer for a short demo."""
    seconds = max(2.0, min(SECONDS, events / 20_000))
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:18}"), BarColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("a match", total=seconds)
        run = follow(seed + 1, partial(bar.advance, task), seconds=seconds)
    Console(highlight=False).print(f"\n{summary(run)}")
    return run


def _show_spark(seed: int) -> None:
    """The last part, if Spark is installed: a few seconds of the game over a slow network."""
    missing = why_not()
    if missing is not None:
        typer.echo(f"skipping the part on Spark: {missing}", err=True)
        return
    console = Console(highlight=False)
    game = play(EVENTS_ON_SPARK, seed, slower=SLOWER_ON_SPARK)
    local = watch(next(iter(WAYS)), game, lambda _: None)
    length = EVENTS_ON_SPARK // 1000
    console.print(f"\non Spark: {length} seconds of the game, with long delays", style="bold")
    runs = watch_on_spark(game, console, patience("starting Spark"))
    print_comparison([local, *runs], game)


def _check(output: Path) -> None:
    """Refuse an output that cannot be written before the work is done, not after it."""
    if output.suffix not in (".png", ".svg", ".pdf"):
        raise OptionError(
            f"expected --output to name a .png, .svg or .pdf file, got {str(output)!r}"
        )
    if not output.parent.is_dir():
        raise OptionError(
            f"expected --output to be in an existing folder, got {str(output)!r}; create "
            f"{str(output.parent)!r} first"
        )


def busy_hour(n: int, seed: int) -> Stream:
    """Sensor events whose delays grow sixfold for the middle third of the stream."""
    rng = np.random.default_rng(seed)
    events = sensor_stream(n, seed=seed)
    events = events.take(np.argsort(events.ts, kind="stable"))
    clock_event = events.codes == events.types.index(CLOCK)
    delays = np.where(clock_event, rng.uniform(0, 5_000, n), rng.uniform(5_000, 45_000, n))
    straggler = rng.random(n) < 0.01
    delays[straggler] = rng.uniform(45_000, 150_000, int(straggler.sum()))
    share = events.ts / events.ts[-1]
    delays = (delays * np.interp(share, (0.3, 0.36, 0.54, 0.6), (1, 6, 6, 1))).astype(np.int64)
    order = np.argsort(events.ts + delays, kind="stable")
    return Stream(delayed(events, delays), delays[order])


def measure(policy: str, stream: Stream, advance: Callable[[int], None]) -> PolicyResult:
    """Run the stream through an ordering unit with one policy."""
    unit = OrderingUnit(clock=CLOCK, **POLICIES[policy])
    clocks, slacks, released = [], [], []
    seconds = 0.0
    for low in range(0, len(stream.events), BATCH):
        batch = stream.events[low : low + BATCH]
        start = perf_counter()
        ordered = unit.feed(batch)
        seconds += perf_counter() - start
        clocks.append(ordered.clock)
        slacks.append(ordered.slack)
        released.append(ordered.released)
        advance(len(batch))
    released.append(unit.finish().released)
    clock = np.concatenate(clocks)
    # Events released at the end of the stream have a place after the last arrival.
    at = np.minimum(np.concatenate([part.at for part in released]), len(clock) - 1)
    waits = clock[at] - np.concatenate([part.ts for part in released])
    known = clock != NEVER
    mean_wait = float(waits[known[at]].mean())
    slack = np.concatenate(slacks)
    return PolicyResult(policy, unit.stats, mean_wait, seconds, clock[known], slack[known])


def _print(runs: list[PolicyResult], n: int) -> None:
    title = f"{n:,} events out of order, 1 % stragglers, delays six times as long for a while"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", collapse_padding=True)
    table.add_column("slack policy", style="bold")
    for heading in ("mean wait", "final slack", "late events", "late", "events/s"):
        table.add_column(heading, justify="right")
    for run in runs:
        table.add_row(
            run.policy,
            readable(round(run.mean_wait, -2)),
            readable(run.stats.slack),
            f"{run.stats.late:,}",
            f"{run.stats.late / n:.2%}",
            f"{n / run.seconds:,.0f}",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "mean wait: stream time from an event to its release · "
        "late: a later event had already been released",
        style="dim",
    )
