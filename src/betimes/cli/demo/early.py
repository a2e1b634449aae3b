"""The second part of `betimes demo`: the same detectors, with and without waiting for order.

The game is fed as if it came live, but without the pauses: `LiveTime` skips them. So the control
loop of `attenuation="adaptive"` sees how busy the live stream would keep this machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from time import perf_counter

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from betimes.cli.demo.game import MS, Game, soccer
from betimes.engine import Engine
from betimes.model import Event, readable
from betimes.model.change import Change, fold

WAYS: dict[str, float | str] = {
    "1 (buffering)": 1.0,
    "0.3": 0.3,
    "adaptive": "adaptive",
}
BATCH = 20
"""Events per batch: 20 ms of the game, about as often as a live system would feed."""
_SHOWN = 2
_LOOKS = {"insert": "cyan", "delete": "magenta", "confirm": "green"}
_MEANINGS = {"insert": "found", "delete": "was wrong", "confirm": "now final"}


class LiveTime:
    """A clock in seconds that runs during work and jumps ahead to the next arrival."""

    def __init__(self) -> None:
        self._jumped = 0.0

    def __call__(self) -> float:
        return perf_counter() + self._jumped

    def wait_until(self, then: float) -> None:
        self._jumped += max(0.0, then - self())


@dataclass
class Told:
    """A change, and the stream time when it was announced."""

    at: int
    change: Change


@dataclass
class GameResult:
    """How the detectors did with one attenuation."""

    way: str
    told: list[Told] = field(default_factory=list, repr=False)

    @property
    def result(self) -> Counter[tuple[str, int, str]]:
        return fold(told.change for told in self.told)

    def count(self, change_type: str) -> int:
        return sum(told.change.change_type == change_type for told in self.told)

    @property
    def latencies(self) -> npt.NDArray[np.int64]:
        """For each final result, the time from its occurrence to the announcement that stood."""
        standing: dict[str, int] = {}
        for told in self.told:
            change = told.change
            if change.change_type == "insert":
                standing[change.match_id] = change.detected_at - change.ts
            elif change.change_type == "delete":
                del standing[change.match_id]
        return np.sort(np.array([*standing.values()], np.int64))

    @property
    def mean(self) -> float:
        return float(self.latencies.mean()) if len(self.latencies) else 0.0


def watch(way: str, game: Game, advance: Callable[[int], None]) -> GameResult:
    """Let the detectors watch the game."""
    time = LiveTime()
    began = time()
    engine = Engine(soccer(), attenuation=WAYS[way], time=time)
    run = GameResult(way)
    clock = 0
    for low in range(0, len(game.events), BATCH):
        batch = game.events[low : low + BATCH]
        time.wait_until(began + game.arrived[low + len(batch) - 1] / 1e6)
        changes = engine.feed(batch)
        clock = max([clock, *(event.ts for event in batch if event.type == "ball")])
        run.told += (Told(clock, change) for change in changes)
        advance(len(batch))
    run.told += (Told(clock, change) for change in engine.finish())
    return run


def print_comparison(runs: Sequence[GameResult], game: Game) -> None:
    """Print the results side by side."""
    title = f"who passes to whom? {len(game.events):,} events of a game, 4 detectors on 3 levels"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", collapse_padding=True)
    table.add_column("attenuation", style="bold")
    for heading in ("mean latency", "announced", "taken back", "final", "same final result"):
        table.add_column(heading, justify="right")
    for run in runs:
        table.add_row(
            run.way,
            readable(round(run.mean, -2)),
            f"{run.count('insert'):,}",
            f"{run.count('delete'):,}",
            f"{run.result.total():,}",
            "yes" if run.result == runs[0].result else "NO",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "mean latency: stream time from a result to the announcement that stood",
        style="dim",
    )


def print_story(runs: Sequence[GameResult]) -> None:
    """Print all changes at a few moments when something was taken back."""
    run = max(runs, key=lambda run: run.count("delete"))
    shown = story(run.told)
    if not shown:
        return
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"results that were corrected (attenuation {run.way})",
        title_justify="left",
        collapse_padding=True,
    )
    table.add_column("second", justify="right")
    table.add_column("result")
    table.add_column("change")
    table.add_column("status")
    table.add_column("after", justify="right")
    table.add_column("because of")
    for moment, rows in groupby(shown, key=lambda told: told.change.ts):
        table.add_section()
        for number, told in enumerate(rows):
            change = told.change
            table.add_row(
                "" if number else seconds(moment),
                result_of(change.event),
                Text(change.change_type, style=looks(change.change_type)),
                change.status,
                f"{(told.at - moment) / MS:.0f} ms",
                because(change.cause),
            )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        Text(" · ").join(
            Text.assemble((change_type, looks(change_type)), (f": {meaning}", "dim"))
            for change_type, meaning in _MEANINGS.items()
        )
    )


def story(told: Iterable[Told]) -> list[Told]:
    """All changes at the moments with the most corrections, moment by moment."""
    moments: dict[int, list[Told]] = {}
    for row in told:
        moments.setdefault(row.change.ts, []).append(row)
    wrong = [
        ts for ts, rows in moments.items() if any(r.change.change_type == "delete" for r in rows)
    ]
    fullest = sorted(wrong, key=lambda ts: len(moments[ts]), reverse=True)[:_SHOWN]
    return [row for ts in sorted(fullest) for row in moments[ts]]


def looks(change_type: str) -> str:
    """The style in which a change is shown."""
    return _LOOKS[change_type]


def result_of(event: Event) -> str:
    """
    >>> result_of(Event("pass", 1_250_000, {"from": "P1", "to": "P2"}))
    'pass P1 to P2'
    """
    who = event.payload.get("player") or f"{event['from']} to {event['to']}"
    return f"{event.type} {who}"


def because(cause: str) -> str:
    """
    >>> because("late not_near at 1250000")
    'late not_near 1.250'
    """
    return re.sub(r"at (\d+)$", lambda found: seconds(int(found[1])), cause)


def seconds(ts: int) -> str:
    return f"{ts / 1_000_000:.3f}"
