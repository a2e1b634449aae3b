"""The command `betimes trace`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from enum import StrEnum
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from betimes.cli.speaking import COMPILING, patience, say
from betimes.cli.trace.arrivals import name, read_arrivals
from betimes.cli.trace.rows import Row, Traced, with_snapshots
from betimes.cli.trace.table import print_table
from betimes.cli.trace.windows import Tracer
from betimes.model import Duration, Event, EventBatch, EventError, OptionError, microseconds
from betimes.ordering import OrderingUnit
from betimes.ordering.slack import POLICIES

PAGE = 1000
"""Rows per table: a longer trace is printed as several, so that it need not fit in memory."""


class Format(StrEnum):
    table = "table"
    json = "json"


def trace(
    events: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EVENTS",
            help="Events in order of arrival. Each is a type and a whole time in microseconds, as "
            "in A12, or sensor7@12 if the type ends in a digit. Separate events by blanks, commas "
            "or lines; [bold]#[/] starts a comment. Use [bold]-[/], or no argument, to read stdin.",
            show_default=False,
        ),
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Read the events from a file.", show_default=False),
    ] = None,
    clock: Annotated[
        list[str],
        typer.Option(
            metavar="TYPE",
            help="Types that move the clock; repeat the option, or separate types by commas. "
            "[bold]*[/] means that every event moves it.",
        ),
    ] = ["*"],  # noqa: B006 typer copies it
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE",
            help="Types to put in order; others only move the clock. Default: all.",
            show_default=False,
        ),
    ] = None,
    attenuation: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="How much of the slack to wait before a release, such as 1/3 or 0.3. With 1, an "
            "event is released when its place is certain; with 0 at once, and replayed if that "
            "was wrong.",
        ),
    ] = "1",
    policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="How the slack follows the delays: largest, decaying or quantile; or a fixed "
            "slack, such as 20 or 150ms.",
        ),
    ] = "largest",
    margin: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="How many standard deviations of the recent delays to add to the slack.",
        ),
    ] = 0.0,
    min_slack: Annotated[
        str, typer.Option(metavar="DURATION", help="Lower limit of the slack.")
    ] = "0",
    max_slack: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Upper limit of the slack.", show_default="no limit"),
    ] = None,
    max_late: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Policy quantile: the share of events that may be late."
        ),
    ] = 0.01,
    decay: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Policy decaying: the time constant with which the slack fades.",
            show_default="60 times the slack",
        ),
    ] = None,
    max_skew: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="A clock event that is further ahead is put aside until others confirm it; "
            "[bold]off[/] trusts every clock event.",
        ),
    ] = "1h",
    snapshots: Annotated[
        bool,
        typer.Option(
            "--snapshots",
            help="Show the snapshots of a detector behind the unit: s2 is its state before the "
            "event at time 2. The detector can go back to it until that event settles.",
        ),
    ] = False,
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="WINDOW",
            help="Cut the stream into windows behind the unit, such as count=4,slide=2, "
            "time=10,slide=5 or gap=3, and show what the splitter sends to each instance.",
            show_default=False,
        ),
    ] = None,
    instances: Annotated[
        int, typer.Option(metavar="NUMBER", help="With --windows: how many instances there are.")
    ] = 2,
    finish: Annotated[
        bool, typer.Option("--finish", help="End the stream: add a row that releases the rest.")
    ] = False,
    output: Annotated[
        Format,
        typer.Option("--format", help="A table, or one JSON object per line, written at once."),
    ] = Format.table,
) -> None:
    """Feed events one by one through an ordering unit and watch what it does.

    Each arrival prints one row: the clock, the slack, the events that were
    released, replayed and settled, and those still in the buffer. Times are whole
    microseconds. A DURATION is 20 (microseconds), 150ms, 2s or 1h.

    [bold]Examples[/]

    [green]betimes trace --clock A "A0 A2 C1 A4 B3 C5 A6"[/]

    [green]betimes trace --clock A --attenuation 1/3 "A0 A2 C1 A3 B4 A6 C5 B8 C7 A11"[/]

    [green]betimes trace --clock A --attenuation 1/3 --snapshots "A0 A2 C1 A3 B4 A6"[/]

    [green]betimes trace --attenuation 0 --windows count=9,slide=3 "A1 A2 A3 A5 A6 A7 A4"[/]

    [green]betimes trace --policy quantile --format json --file events.txt[/]
    """
    arrivals = read_arrivals(" ".join(events) if events else None, file)
    unit = OrderingUnit(
        clock=_types(clock),
        on=None if on is None else _types(on),
        slack=_slack(policy),
        margin=margin,
        min_slack=_duration(min_slack),
        max_slack=None if max_slack is None else _duration(max_slack),
        max_late=max_late,
        decay=None if decay is None else _duration(decay),
        attenuation=_share(attenuation),
        max_skew=_duration(max_skew),
    )
    rows = _follow(unit, arrivals, finish=finish)
    if snapshots and windows is not None:
        raise OptionError("--snapshots does not go with --windows; trace one after the other")
    if snapshots:
        rows = map(with_snapshots, rows)
    if windows is not None:
        rows = map(Tracer(windows, instances).follow, rows)
    if output is Format.json:
        _print_json(rows)
    else:
        title = f"clock {', '.join(_types(clock))} · slack {policy} · attenuation {attenuation}"
        while page := list(islice(rows, PAGE)):
            print_table(page, title)
    _report(unit, finished=finish)


def _follow(unit: OrderingUnit, arrivals: Iterable[Event], *, finish: bool) -> Iterator[Traced]:
    """Feed the arrivals one by one."""
    number = -1
    for number, event in enumerate(arrivals):
        with patience(COMPILING) if number == 0 else nullcontext():
            ordered = unit.feed(event)
        stats = unit.stats
        row = Row(
            name(event),
            stats.clock,
            stats.slack,
            _names(ordered.released.events),
            _names(ordered.replayed.events),
            _names(ordered.settled.events),
            _names(unit.buffer),
            late=len(ordered.late) > 0,
        )
        yield Traced(
            row,
            unsettled=stats.released - stats.settled,
            aside=event.type in stats.clock_types and event.ts > (stats.clock or 0),
            rejected=_names(ordered.rejected),
        )
    if number < 0:
        raise EventError("expected at least one event, got none; an example: A0 A2 C1 A4")
    if finish:
        rest = unit.finish()
        clock, slack = unit.stats.clock, unit.stats.slack
        released, settled = _names(rest.released.events), _names(rest.settled.events)
        yield Traced(Row(None, clock, slack, released, [], settled, [], late=False))


def _print_json(rows: Iterator[Traced]) -> None:
    encoder = msgspec.json.Encoder()
    for traced in rows:
        sys.stdout.write(encoder.encode(traced.row).decode() + "\n")
        sys.stdout.flush()
        if traced.rejected:
            say(f"rejected {', '.join(traced.rejected)}: too far ahead of the clock (--max-skew)")


def _report(unit: OrderingUnit, *, finished: bool) -> None:
    """Say what the rows do not show. (At the end, the unit itself warns of a missing clock.)"""
    stats = unit.stats
    if stats.clock is None and not finished:
        say(f"{stats.clock_reason}; no event is released before the clock moves (see --clock)")


def _names(events: EventBatch) -> list[str]:
    return [name(event) for event in events]


def _types(values: Iterable[str]) -> list[str]:
    """The values of an option that can be repeated or separated by commas."""
    return [type.strip() for value in values for type in value.split(",") if type.strip()]


def _duration(text: str) -> Duration:
    """The duration that an option gives: plain digits are microseconds."""
    return int(text) if text.isdecimal() else text


def _slack(policy: str) -> Duration:
    if policy in POLICIES:
        return policy
    try:
        return microseconds(_duration(policy), "policy")
    except OptionError:
        raise OptionError(
            f"expected --policy to be one of {', '.join(POLICIES)}, or a fixed slack such as 20 "
            f"(microseconds) or 150ms, got {policy!r}"
        ) from None


def _share(text: str) -> float:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise OptionError(
            f"expected --attenuation to be a number from 0 to 1, such as 1/3 or 0.3, got {text!r}"
        ) from None
