"""The four queries of the 2013 challenge, answered from what the hierarchy detects.

Each takes the changes that an engine returned, or the events that remain after folding them, and
returns a table. Events that were taken back are not included.

| query | what it returns |
|---|---|
| `running` | for each player: seconds and metres in each intensity, for each window and the game |
| `possession` | who had the ball, from when to when; `possession_shares`: by player and by team |
| `heat_map` | for one player: the share of time in each cell of a grid, for any window |
| `shots_on_goal` | who shot when, and where the path crosses the goal |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.apps.soccer.detectors.places import GRIDS
from betimes.apps.soccer.scoring import detected
from betimes.model import Event, OptionError
from betimes.model.change import Change

Floats = npt.NDArray[np.float64]


def events_of(found: Iterable[Change | Event], *types: str) -> list[Event]:
    """The events of these types that were not taken back, in order of time."""
    changes: list[Change] = []
    events: list[Event] = []
    for item in found:
        if item.type in types:
            (changes if isinstance(item, Change) else events).append(item)  # type: ignore[arg-type]
    return sorted([*detected(changes), *events], key=lambda event: event.ts)


def running(found: Iterable[Change | Event], *, at: int | None = None) -> pa.Table:
    """Running analysis: the totals of each player at a given time, or at the end.

    >>> totals = {"1min": {"trot": [30.0, 60.0]}, "game": {"trot": [90.0, 200.0]}}
    >>> running([Event("running", 5, {"player": "A2", **totals})]).to_pylist()[1]
    {'player': 'A2', 'window': 'game', 'intensity': 'trot', 'seconds': 90.0, 'metres': 200.0}
    """
    last: dict[str, Event] = {}
    for event in events_of(found, "running"):
        if at is None or event.ts <= at:
            last[event["player"]] = event
    rows = [
        (player, window, intensity, seconds, metres)
        for player, event in sorted(last.items())
        for window, totals in event.payload.items()
        if window != "player"
        for intensity, (seconds, metres) in totals.items()
    ]
    return _table(("player", "window", "intensity", "seconds", "metres"), rows)


def possession(found: Iterable[Change | Event]) -> pa.Table:
    """Who had the ball, from his first hit on; `until` is null for who has it at the end.

    >>> possession([Event("holder", 5, {"player": "A2", "team": "A"})]).to_pylist()
    [{'player': 'A2', 'team': 'A', 'since': 5, 'until': None, 'hits': None}]
    """
    found = list(found)
    ended = {event.ts: event for event in events_of(found, "possession")}
    rows = []
    for event in events_of(found, "holder"):
        over = ended.get(event.ts)
        until, hits = (None, None) if over is None else (over["until"], over["hits"])
        rows.append((event["player"], event["team"], event.ts, until, hits))
    return _table(("player", "team", "since", "until", "hits"), rows)


def possession_shares(found: Iterable[Change | Event], *, of: str = "player") -> dict[str, float]:
    """The share of all possession that each player had, or each team (`of="team"`).

    >>> had = [
    ...     Event("holder", ts, {"player": p, "team": p[0]}) for ts, p in ((0, "A2"), (30, "B1"))
    ... ]
    >>> over = [
    ...     Event("possession", 0, {"until": 30, "hits": 1}),
    ...     Event("possession", 30, {"until": 40, "hits": 2}),
    ... ]
    >>> possession_shares(had + over, of="team")
    {'A': 0.75, 'B': 0.25}
    """
    if of not in ("player", "team"):
        raise OptionError(f"expected of to be 'player' or 'team', got of={of!r}")
    took: dict[str, int] = {}
    for row in possession(found).to_pylist():
        if row["until"] is not None:
            took[row[of]] = took.get(row[of], 0) + row["until"] - row["since"]
    total = sum(took.values())
    return {name: time / total for name, time in sorted(took.items())} if total else {}


def heat_map(
    found: Iterable[Change | Event],
    player: str,
    *,
    grid: str = "8x13",
    since: int = 0,
    until: int | None = None,
) -> Floats:
    """The share of time that a player spent in each cell; each row of the array is a grid row.

    Counts the seconds that end after `since` and not after `until`, so the last minute before `t`
    is `since=t - 60_000_000, until=t`.

    >>> seconds = [
    ...     Event("heat", ts, {"grid": "8x13", "player": ["A2"], "cell": [cell], "share": [1.0]})
    ...     for ts, cell in ((1_000_000, 9), (2_000_000, 8))
    ... ]
    >>> heat_map(seconds, "A2")[1, :3]
    array([0.5, 0.5, 0. ])
    """
    if grid not in GRIDS:
        raise OptionError(f"expected grid to be one of {list(GRIDS)}, got grid={grid!r}")
    across, along = GRIDS[grid]
    cells = np.zeros(across * along)
    for event in events_of(found, "heat"):
        inside = event.ts > since and (until is None or event.ts <= until)
        if inside and event["grid"] == grid:
            for who, cell, share in zip(
                event["player"], event["cell"], event["share"], strict=True
            ):
                if who == player:
                    cells[cell] += share
    total = cells.sum()
    return (cells / total if total else cells).reshape(along, across)


def shots_on_goal(found: Iterable[Change | Event]) -> pa.Table:
    """Who shot at the goal and when; seconds until the path crosses the line, where, how high."""
    names = ("player", "team", "after", "at", "height")
    rows = [
        (event.ts, *(event[name] for name in names)) for event in events_of(found, "shot_on_goal")
    ]
    return _table(("ts", *names), rows)


def _table(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    return pa.table({name: [row[n] for row in rows] for n, name in enumerate(names)})
