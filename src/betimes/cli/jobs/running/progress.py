"""Progress of a job and its summary at the end, on stderr: stdout is for results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from betimes.cli.jobs.running.totals import Totals
from betimes.cli.speaking import say
from betimes.engine import DetectorStats
from betimes.host.joining import largest
from betimes.model import readable
from betimes.model.duration import exact

EVERY = 5.0
"""Seconds between two lines of progress without a terminal."""
REFRESH = 0.25
"""Seconds between two updates on a terminal."""
_SHOWN = 3
"""How many types the summary names."""


class Reading(msgspec.Struct, frozen=True):
    """The state of a job at one moment."""

    totals: Totals
    slack: int | None = None
    """The largest of all detectors."""
    attenuation: float | None = None
    """The mean of all detectors."""
    latency_final: float | None = None
    late_by: int = 0
    """By how much the latest event came too late."""
    delays: dict[str, int] = {}
    """The largest delay of each type, at any detector."""
    rows_of: str = ""
    """What the count of rows covers, if not the whole stream."""
    waiting_for: str = ""
    """What has to happen before there is anything to count."""

    @classmethod
    def of(
        cls,
        totals: Totals,
        stats: Collection[DetectorStats],
        latency_final: float | None,
        rows_of: str = "",
        *,
        waiting_for: str = "",
    ) -> Reading:
        """A reading from those of the detectors."""
        slack = max((each.slack for each in stats), default=None)
        attenuation = sum(each.attenuation for each in stats) / len(stats) if stats else None
        late_by = max((each.late_by for each in stats), default=0)
        delays = largest(each.delays for each in stats)
        return cls(totals, slack, attenuation, latency_final, late_by, delays, rows_of, waiting_for)

    def figures(self) -> dict[str, str]:
        totals = self.totals
        return {
            "rows": f"{totals.rows:,}",
            "slack": _time(self.slack),
            "attenuation": "-" if self.attenuation is None else f"{self.attenuation:.2f}",
            "found": f"{totals.tally.inserted:,}",
            "taken back": f"{totals.tally.deleted:,}",
            "final": f"{totals.tally.final:,}",
            "known after": _time(totals.latency_provisional),
            "final after": _time(self.latency_final),
        }


class Progress:
    """Shows readings: live on a terminal, otherwise as a line every few seconds, or not at all."""

    def __init__(
        self,
        *,
        quiet: bool,
        live: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet = quiet
        self._clock = clock
        console = Console(stderr=True)
        self._live = None
        if live and console.is_terminal and not quiet:
            self._live = Live(
                console=console, transient=True, refresh_per_second=1 / REFRESH,
                redirect_stdout=False,
            )  # fmt: skip
        self._began = self._said = clock()
        self._first_rows: int | None = None
        self._waiting = ""
        """What was last said, so that waiting is said once."""

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def begin(self, rows: int) -> None:
        """Start the clock; earlier runs have done `rows` rows."""
        self._first_rows = rows
        self._began = self._said = self._clock()

    def note(self, message: str) -> None:
        """Print a message, unless the user asked for quiet."""
        if not self._quiet:
            say(message)

    def show(self, read: Callable[[], Reading]) -> None:
        """Show a reading if it is time to; `read` is called only then."""
        now = self._clock()
        if self._quiet or now - self._said < (EVERY if self._live is None else REFRESH):
            return
        self._said = now
        reading = read()
        line = self._line(reading)
        if self._live is not None:
            self._live.update(Text(line))
        elif not reading.waiting_for or line != self._waiting:
            say(line)
            self._waiting = line

    def rate(self, totals: Totals) -> float:
        """Rows per second in this process."""
        rows = totals.rows - (self._first_rows or 0)
        return rows / self.seconds if self.seconds > 0 else 0.0

    def _line(self, reading: Reading) -> str:
        if reading.waiting_for:
            return f"waiting for {reading.waiting_for}"
        figures = reading.figures()
        rows, rate = figures.pop("rows"), f"{self.rate(reading.totals):,.0f}/s"
        figures = {"rows": rows, "rate": rate} | figures
        return " · ".join(f"{name} {value}" for name, value in figures.items())

    def summary(self, reading: Reading, output: str, *, outcome: str) -> None:
        """The table at the end."""
        if self._quiet:
            return
        totals = reading.totals
        batches = "1 batch" if totals.batches == 1 else f"{totals.batches:,} batches"
        rows = {
            "rows": f"{totals.rows:,} in {batches}{reading.rows_of}",
            "found": f"{totals.tally.inserted:,}",
            "taken back": f"{totals.tally.deleted:,}",
            "remaining": _remaining(totals),
            "delays": _delays(reading.delays),
            "late": _late(totals.tally.late, reading.late_by),
            "rejected": f"{totals.tally.rejected:,}",
            "known after": _average(totals.latency_provisional),
            "final after": _average(reading.latency_final),
            "time": f"{self.seconds:.1f} s, {self.rate(totals):,.0f} rows/s",
            "output": output,
        }
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(name, value)
        console = Console(stderr=True, highlight=False)
        console.print(outcome)
        console.print(table)

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


def _time(value: float | None) -> str:
    return "-" if value is None else readable(value)


def _average(value: float | None) -> str:
    return "-" if value is None else f"{readable(value)} on average"


def _delays(delays: Mapping[str, int]) -> str:
    """The types that come latest, and by how much; they are what the others wait for.

    >>> _delays({"ball": 20_000, "near": 150_000})
    'up to 150 ms (near), 20 ms (ball)'
    >>> _delays({"a": 0, "b": 2, "c": 3, "d": 4, "e": 5})
    'up to 5 us (e), 4 us (d), 3 us (c), and less for 2 other types'
    >>> _delays({})
    '-'
    """
    if not delays:
        return "-"
    first = sorted(delays, key=lambda name: delays[name], reverse=True)[:_SHOWN]
    told = ", ".join(f"{readable(delays[name])} ({name})" for name in first)
    others = len(delays) - len(first)
    more = f", and less for {others} other type{'s' * (others > 1)}" if others else ""
    return f"up to {told}{more}"


def _late(count: int, by: int) -> str:
    """How many events were left out, and what would have been enough to handle them.

    >>> _late(0, 0), _late(3, 0)
    ('0', '3')
    >>> _late(3, 90_000_000)
    '3 left out, by up to 1.5 min; with late = "repair" and retention = "2 min" none would be'
    """
    if not by:
        return f"{count:,}"
    enough = exact(math.ceil(by / 60_000_000) * 60_000_000 if by > 60_000_000 else 2 * by)
    return (
        f'{count:,} left out, by up to {readable(by)}; with late = "repair" and '
        f"retention = {enough!r} none would be".replace("'", '"')
    )


def _remaining(totals: Totals) -> str:
    """What was found and not taken back.

    >>> from betimes.host.tally import Tally
    >>> _remaining(Totals()), _remaining(Totals(tally=Tally(inserted=3, deleted=1, final=2)))
    ('0', '2, all of them final')
    >>> _remaining(Totals(tally=Tally(inserted=3, final=2)))
    '3, 2 of them final'
    """
    if not totals.standing:
        return "0"
    final = "all" if totals.tally.final == totals.standing else f"{totals.tally.final:,}"
    return f"{totals.standing:,}, {final} of them final"
