"""`betimes demo`: slack policies side by side on a simulated stream whose delays change.

The second part, early results, is in `early.py`, the third, a match, in `demo_match.py`, the
fourth, on Spark, in `demo_spark.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
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
from betimes.cli.demo.match import SECONDS, MatchResult, describe, follow
from betimes.cli.demo.on_spark import watch_on_spark, why_not
from betimes.cli.speaking import COMPILING, patience
from betimes.model import EventBatch, OptionError, readable
from betimes.ordering import NEVER, OrderingStats, OrderingUnit
from betimes.testing import delayed, sensor_stream

Ints = npt.NDArray[np.int64]

CLOCK = "ball"
BATCH = 10_000
EVENTS_ON_SPARK = 6_000
SLOWER_ON_SPARK = 8
"""How many times as long its reports are under way: micro-batches put short delays in order."""
POLICIES: dict[str, dict[str, Any]] = {
    "largest": {"slack": "largest"},
    "decaying, 2 s": {"slack": "decaying", "decay": "2s"},
    "quantile, 2 % late": {"slack": "quantile", "max_late": 0.02},
    "fixed, 500 ms": {"slack": "500ms"},
}
"""Chosen to show the differences within 30 s of stream time: with the default decay of a minute the
second would hardly fade, and allowing exactly as many late events as there are stragglers (1 %)
makes the slack of the third jump to and fro. The last is what an expert might set after a look at
the calm stream."""


@dataclass
class Stream:
    """A stream in order of arrival, and how long each event was under way."""

    events: EventBatch
    delays: Ints


@dataclass
class PolicyResult:
    """How one policy did."""

    policy: str
    stats: OrderingStats
    mean_wait: float
    """Stream time between an event's `ts` and the clock at its release, on average."""
    seconds: float
    clock: Ints = field(repr=False)
    slack: Ints = field(repr=False)


def demo(
    *,
    output: Annotated[
        Path,
        typer.Option(
            help="Where the first picture goes; the others go beside it, with -early and -match "
            "in their names.",
            metavar="PATH",
        ),
    ] = Path("betimes-demo.png"),
    events: Annotated[int, typer.Option(help="Length of the stream.", min=1000)] = 300_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same stream.", min=0)] = 1,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Whether to show the last part, on Spark.")
    ] = True,
) -> None:
    """Show what waiting costs, and what not waiting does, as tables and pictures.

    First part: sensors report about 10,000 events a second. They arrive in
    disorder, and 1 % of them are stragglers; in the middle of the stream the
    network is busy and all delays grow, later they shrink again. How long does
    each slack policy make events wait, and how many come too late?

    Second part: detectors watch a game, once waiting until order is certain and
    twice speculating. What is known how early, what is taken back, and is the
    final result the same?

    Third part: a football match, seen by sensors on players and balls: 34,000
    raw positions a second, in disorder, from which passes, duels and shots are
    detected. The picture shows one moment of it: what is known for good, what
    is provisional, and what was taken back.

    Fourth part: the detectors of the second as a query on an embedded Spark;
    micro-batch by micro-batch, what is found and what is taken back. Does it
    come to the same result?

    [bold]Examples[/]

    [green]betimes demo[/]

    [green]betimes demo --events 1000000 --output policies.png[/]
    """
    _check(output)
    stream = busy_hour(events, seed)
    with patience(COMPILING):
        OrderingUnit(clock=CLOCK).feed(stream.events)  # so that the first policy is not charged
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
        # matplotlib takes a moment, only this needs it
        from betimes.cli.demo.picture import draw, draw_early
        from betimes.cli.demo.pitch import draw_match

        draw(stream, runs, output)
        draw_early(early, second)
        draw_match(match, third)
    typer.echo(f"pictures: {output}, {second}, {third}")
    typer.echo('next: try betimes trace --clock A --attenuation 1/3 "A0 A2 C1 A3 B4 A6 C5 A9"')


def _show_match(seed: int, events: int) -> MatchResult:
    """The third part: some seconds of a match; fewer if a short demo was asked for."""
    seconds = max(2.0, min(SECONDS, events / 20_000))
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:18}"), BarColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("a match", total=seconds)
        run = follow(seed + 1, partial(bar.advance, task), seconds=seconds)
    Console(highlight=False).print(f"\n{describe(run)}")
    return run


def _show_spark(seed: int) -> None:
    """The last part, if Spark is there: seconds of the game over a slow network."""
    missing = why_not()
    if missing is not None:
        typer.echo(f"no part on Spark: {missing}", err=True)
        return
    console = Console(highlight=False)
    game = play(EVENTS_ON_SPARK, seed, slower=SLOWER_ON_SPARK)
    local = watch(next(iter(WAYS)), game, lambda _: None)
    length = EVENTS_ON_SPARK // 1000
    console.print(f"\n{length} seconds of the game, badly delayed, on Spark", style="bold")
    runs = watch_on_spark(game, console, patience("starting Spark"))
    print_comparison([local, *runs], game, where="; the last two on Spark")


def _check(output: Path) -> None:
    """Refuse what cannot be written before the work is done, not after it."""
    if output.suffix not in (".png", ".svg", ".pdf"):
        raise OptionError(
            f"expected --output to name a .png, .svg or .pdf file, got {str(output)!r}"
        )
    if not output.parent.is_dir():
        raise OptionError(
            f"expected --output to lie in an existing folder, got {str(output)!r}; create "
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
    """PolicyResult the stream through a unit with that policy."""
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
    # What the end of the stream released is handed out at a place behind the last arrival.
    at = np.minimum(np.concatenate([part.at for part in released]), len(clock) - 1)
    waits = clock[at] - np.concatenate([part.ts for part in released])
    known = clock != NEVER
    mean_wait = float(waits[known[at]].mean())
    slack = np.concatenate(slacks)
    return PolicyResult(policy, unit.stats, mean_wait, seconds, clock[known], slack[known])


def _print(runs: list[PolicyResult], n: int) -> None:
    title = f"{n:,} events in disorder, 1 % stragglers, delays sixfold for a while"
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
        "mean wait: from when an event occurred to its release, in stream time · "
        "late: something later had been released",
        style="dim",
    )
