"""`betimes simulate`: streams made from a seed, written to files."""

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
from betimes.cli.simulate.files import Written, make_room, shown, write
from betimes.model import OptionError, readable

simulate = typer.Typer(
    no_args_is_help=True,
    help="Make a stream from a seed and write it to files: something to try betimes on.",
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
    pass  # a command of its own for each kind of stream, also while there is only one


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
        float, typer.Option(metavar="NUMBER", help="How long the match goes on.")
    ] = 65.0,
    seed: Annotated[
        int, typer.Option(metavar="NUMBER", help="The same seed gives the same match.")
    ] = 1,
    output: Annotated[
        Format | None,
        typer.Option(
            "--format", help="csv: the stadium's own format. Default: by the name of OUT.",
            show_default=False,
        ),
    ] = None,
    delays: Annotated[
        Delay,
        typer.Option(
            help="How positions arrive: lan (up to 146 ms late), wan (up to 185 ms), bursts (as "
            "lan, but every few seconds everything is held up), none (in order of time)."
        ),
    ] = Delay.lan,
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write what happened, hits, passes, shots, goals and more: one JSON object "
            "a line.",
            show_default=False,
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take the positions from a recording in the stadium's format instead of playing: "
            "to put disorder into it, or to have it as parquet.",
            show_default=False,
        ),
    ] = None,
    venue: Annotated[
        Venue, typer.Option("--stadium", help="Whose sensors the recording has.")
    ] = Venue.nuremberg,
    skip: Annotated[
        bool,
        typer.Option(
            "--skip", help="Leave out rows of the recording that cannot be used, and count them."
        ),
    ] = False,
    rows: Annotated[
        int, typer.Option(metavar="NUMBER", help="Rows of a parquet file.")
    ] = 100_000,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no summary, only errors.")
    ] = False,
) -> None:  # fmt: skip
    """Play a football match, seen by 144 sensors: 34,200 positions a second.

    Three balls report 2,000 positions a second; legs and arms of players,
    substitutes and referees 200. Positions stand in the order in which they
    arrive: those of the ball soon, those of others later and in packets of ten.

    In parquet files [bold]seq[/] is the number of the arrival and [bold]arrived[/]
    its time, in microseconds like [bold]ts[/], the time of the position. In a
    job file for [bold]betimes run[/] that is:

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
        raise OptionError("expected --truth without --recording: only a simulation knows it")
    match, skipped = simulate_match(seconds, seed=seed), Skipped() if skip else None
    if recording is None:
        positions, doing = match.tables(), "playing"
    else:
        stadium = NUREMBERG if venue is Venue.nuremberg else SIMULATED
        positions = read_recording(recording, stadium, skipped=skipped)
        doing = "reading"
    folder = output is Format.parquet or (output is None and ".csv" not in out.suffixes)
    make_room(out, folder=folder, force=force)
    began, written = time.perf_counter(), Written()
    tables = written.seen(_arriving(positions, delays, seed))
    if not quiet:
        tables = shown(tables, doing, seconds if recording is None else None)
    write(tables, out, folder=folder, rows=rows)
    if truth is not None:
        truth.parent.mkdir(parents=True, exist_ok=True)
        match.write_truth(truth)
    if not quiet:
        _report(written, time.perf_counter() - began, skipped)
        if recording is None:
            _report_truth(match)
        typer.echo(f"written to {out}" + ("" if truth is None else f", what happened to {truth}"))


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
    late = written.late / max(written.rows, 1)
    typer.echo(
        f"{written.rows:,} positions of {written.seconds:,.1f} s in {took:.1f} s: "
        f"{written.rows / took:,.0f} a second, {written.seconds / took:.1f} times real time\n"
        f"largest delay {readable(written.longest)}; {late:.1%} arrive after a later one"
    )
    if skipped is not None:
        typer.echo(
            f"left out {skipped.rows:,} rows: {skipped.malformed:,} that are not 13 whole numbers, "
            f"{skipped.unknown:,} of unknown sensors"
        )


def _report_truth(match: Match) -> None:
    happened = Counter(match.truth["kind"].to_pylist())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(happened.items()))
    typer.echo(f"what happened: {kinds}")
