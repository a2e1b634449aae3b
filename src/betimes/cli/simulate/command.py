"""The commands of `betimes simulate`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from betimes.apps.soccer import (
    NUREMBERG,
    SIMULATED,
    Match,
    Skipped,
    disordered,
    read_recording,
)
from betimes.apps.soccer import simulate as simulate_match
from betimes.cli.simulate.files import Written, make_room, with_progress, write
from betimes.model import OptionError, readable
from betimes.testing.sources import source_stream

simulate = typer.Typer(
    no_args_is_help=True,
    help="Generate a stream from a seed and write it to files: data to try betimes on.",
    epilog="First steps: [bold]betimes simulate soccer match/[/], then "
    "[bold]betimes simulate soccer --help[/].",
    rich_markup_mode="rich",
)


class Format(StrEnum):
    csv = "csv"
    parquet = "parquet"


class Venue(StrEnum):
    nuremberg = "nuremberg"
    simulated = "simulated"


class Delay(StrEnum):
    lan = "lan"
    wan = "wan"
    bursts = "bursts"
    none = "none"


@simulate.callback()
def _simulate() -> None:
    pass  # one subcommand per kind of stream


@simulate.command()
def soccer(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Where to write: a folder for parquet files, or a file such as match.csv, "
            "match.csv.gz or match.csv.zst for the stadium's own format.",
        ),
    ],
    *,
    seconds: Annotated[
        float, typer.Option(metavar="NUMBER", help="Length of the match in seconds.")
    ] = 65.0,
    seed: Annotated[
        int, typer.Option(metavar="NUMBER", help="The same seed gives the same match.")
    ] = 1,
    output: Annotated[
        Format | None,
        typer.Option(
            "--format", help="csv is the stadium's own format. Default: from the name of OUT.",
            show_default=False,
        ),
    ] = None,
    delays: Annotated[
        Delay,
        typer.Option(
            help="How positions arrive: lan (up to 146 ms late), wan (up to 185 ms), bursts (like "
            "lan, but every few seconds everything is held up), none (in order of time)."
        ),
    ] = Delay.lan,
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write what really happened (hits, passes, shots, goals and more), one JSON "
            "object per line.",
            show_default=False,
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read positions from a recording in the stadium's format instead of simulating "
            "them, to add disorder or to convert it to parquet.",
            show_default=False,
        ),
    ] = None,
    venue: Annotated[
        Venue, typer.Option("--stadium", help="The stadium whose sensors made the recording.")
    ] = Venue.nuremberg,
    skip: Annotated[
        bool,
        typer.Option(
            "--skip", help="Skip and count rows of the recording that cannot be used."
        ),
    ] = False,
    rows: Annotated[
        int, typer.Option(metavar="NUMBER", help="Rows per parquet file.")
    ] = 100_000,
    force: Annotated[bool, typer.Option("--force", help="Replace existing output.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only errors: no progress, no summary.")
    ] = False,
) -> None:  # fmt: skip
    """Simulate a football match, seen by 144 sensors: 34,200 positions per second.

    Each of three balls reports 2,000 positions per second; each sensor on a leg
    or arm of a player, substitute or referee reports 200. Positions are written
    in the order in which they arrive: those of the ball soon, the others later
    and in packets of ten.

    In parquet files, [bold]ts[/] is the time of a position, [bold]arrived[/] the time of its
    arrival (both in microseconds), and [bold]seq[/] the number of the arrival. To read
    them with [bold]betimes run[/], put this in the job file:

    [cyan]
    \\[source]
    format = "parquet"
    path = "match/"
    arrival = "seq"
    [/]

    [bold]Examples[/]

    [green]betimes simulate soccer match/[/]

    [green]betimes simulate soccer match/ --seconds 300 --delays bursts --truth truth.jsonl[/]

    [green]betimes simulate soccer match.csv.gz --delays none[/]

    [green]betimes simulate soccer game/ --recording full-game.gz --delays wan[/]
    """
    if rows < 1:
        raise OptionError(f"expected --rows to be 1 or more, got {rows}")
    if recording is not None and truth is not None:
        raise OptionError(
            "--truth does not go with --recording: only a simulation knows what really happened"
        )
    match, skipped = simulate_match(seconds, seed=seed), Skipped() if skip else None
    if recording is None:
        positions, doing = match.tables(), "simulating"
    else:
        stadium = NUREMBERG if venue is Venue.nuremberg else SIMULATED
        positions = read_recording(recording, stadium, skipped=skipped)
        doing = "reading"
    folder = output is Format.parquet or (output is None and ".csv" not in out.suffixes)
    make_room(out, folder=folder, force=force)
    began, written = time.perf_counter(), Written()
    tables = written.seen(_arriving(positions, delays, seed))
    if not quiet:
        tables = with_progress(tables, doing, seconds if recording is None else None)
    write(tables, out, folder=folder, rows=rows)
    if truth is not None:
        truth.parent.mkdir(parents=True, exist_ok=True)
        match.write_truth(truth)
    if not quiet:
        _report(written, time.perf_counter() - began, skipped)
        if recording is None:
            _report_truth(match)
        typer.echo(f"wrote {out}" + ("" if truth is None else f", and what happened to {truth}"))


@simulate.command()
def windows(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where to write: a folder for parquet files.")
    ],
    *,
    events: Annotated[
        int, typer.Option(metavar="NUMBER", help="How many events, of all sources.")
    ] = 1_000_000,
    sources: Annotated[
        int, typer.Option(metavar="NUMBER", help="How many sources; they are called A, B, C, ...")
    ] = 3,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="The time from one event to the next.")
    ] = "10us",
    delayed: Annotated[
        str, typer.Option(metavar="SOURCE", help="The source that is held up, or none.")
    ] = "C",
    start: Annotated[
        str, typer.Option(metavar="DURATION", help="When its delay begins, at zero.")
    ] = "100ms",
    duration: Annotated[
        str, typer.Option(metavar="DURATION", help="How long it is delayed.")
    ] = "900ms",
    increment: Annotated[
        str, typer.Option(metavar="DURATION", help="By how much the delay grows at once ...")
    ] = "30us",
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="... and how often.")
    ] = "50ms",
    seed: Annotated[
        int, typer.Option(metavar="NUMBER", help="The same seed gives the same stream.")
    ] = 1,
    rows: Annotated[
        int, typer.Option(metavar="NUMBER", help="Rows per parquet file.")
    ] = 100_000,
    force: Annotated[bool, typer.Option("--force", help="Replace existing output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors: no summary.")] = False,
) -> None:  # fmt: skip
    """Simulate sources one of which is held up for a while.

    Events occur one after the other, each at a random source. The events of a
    source have its name as [bold]type[/], and a [bold]number[/]. A source that is held up stays
    first in, first out: what comes after a delayed event waits for it. As it is,
    this is the stream that the thesis on windows was measured with.

    [bold]ts[/] is the time of an event, [bold]arrived[/] the time of its arrival (both in
    microseconds), and [bold]seq[/] the number of the arrival.

    [bold]Examples[/]

    [green]betimes simulate windows stream/[/]

    [green]betimes simulate windows stream/ --events 10000 --increment 1ms[/]
    """
    if rows < 1:
        raise OptionError(f"expected --rows to be 1 or more, got {rows}")
    table = source_stream(
        events, sources=sources, interval=interval, delayed=None if delayed == "none" else delayed,
        start=start, duration=duration, increment=increment, every=every, seed=seed,
    )  # fmt: skip
    make_room(out, folder=True, force=force)
    written = Written()
    write(written.seen([table]), out, folder=True, rows=rows)
    if not quiet:
        typer.echo(
            f"{written.rows:,} events of {readable(int(table['ts'].to_numpy().max()))}\n"
            f"{written.order}\nwrote {out}"
        )


def _arriving(
    positions: Iterable[pa.Table], delays: Delay, seed: int
) -> Iterator[pa.Table]:  # fmt: skip
    """The positions in order of arrival, with `seq` and `arrived`."""
    if delays is not Delay.none:
        yield from disordered(positions, delays.value, seed)
        return
    count = 0
    for table in positions:
        numbered = table.append_column("seq", pa.array(np.arange(count, count + len(table))))
        yield numbered.append_column("arrived", table["ts"])
        count += len(table)


def _report(written: Written, took: float, skipped: Skipped | None) -> None:
    typer.echo(
        f"{written.rows:,} positions of {written.seconds:,.1f} s in {took:.1f} s: "
        f"{written.rows / took:,.0f} per second, {written.seconds / took:.1f} times real time\n"
        f"{written.order}"
    )
    if skipped is not None:
        typer.echo(
            f"skipped {skipped.rows:,} rows: {skipped.malformed:,} that are not 13 whole numbers, "
            f"{skipped.unknown:,} of unknown sensors"
        )


def _report_truth(match: Match) -> None:
    happened = Counter(match.truth["kind"].to_pylist())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(happened.items()))
    typer.echo(f"what happened: {kinds}")
