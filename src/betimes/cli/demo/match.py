"""The third part of `betimes demo`: detectors follow a match from raw positions, out of order.

A simulated match is fed as it would arrive, in steps of 20 ms, with speculation. The picture shows
one moment of it: what is final, what is provisional, and what was taken back by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from betimes.apps.soccer import Stadium, disordered, simulate
from betimes.apps.soccer.hierarchy import soccer
from betimes.engine import Engine
from betimes.model import Event
from betimes.model.change import Change

Point = tuple[float, float]

SECONDS = 14.0
ATTENUATION = 0.0
"""No waiting: this shows best what is taken back."""
STEP = 20_000
"""Microseconds between two batches."""
SHOWN = (
    "joins", "duel", "hit", "pass", "unsuccessful_pass", "shot", "shot_on_goal", "blocked_shot",
    "save", "goal", "out",
)  # fmt: skip
"""Types of detections that are drawn."""
WINDOW = 12_000_000
"""How long a detection stays in the picture, in microseconds."""


@dataclass
class Detection:
    """One detected event, and what became of it up to some moment."""

    event: Event
    place: Point | None
    """Where it happened, or where its player was when it was announced."""
    told: int
    status: str
    """`"provisional"`, `"final"` or `"taken back"`."""


@dataclass
class Moment:
    """What is known about the match at one time."""

    at: int
    detections: list[Detection]
    places: dict[str, Point]
    """Where the players are."""
    ball: Point | None


@dataclass
class MatchResult:
    """A match as the detectors saw it: all changes, with the clock when each was announced."""

    stadium: Stadium
    detectors: int
    levels: int
    positions: int = 0
    seconds: float = 0.0
    told: list[tuple[int, Change]] = field(default_factory=list, repr=False)

    def count(self, change_type: str) -> int:
        """How many changes of this type concern detections that are drawn."""
        return sum(change.change_type == change_type for _, change in self._drawn())

    def _drawn(self) -> Iterator[tuple[int, Change]]:
        return ((at, change) for at, change in self.told if change.type in SHOWN)

    def best_moment(self) -> int:
        """When most of the recent detections were taken back, while some are provisional."""
        recent: deque[tuple[int, int]] = deque()
        open_: set[str] = set()
        weight, best, found = 0, (-1, -1), 0
        for at, change in self._drawn():
            provisional = change.change_type == "insert" and change.status == "provisional"
            open_ = open_ | {change.match_id} if provisional else open_ - {change.match_id}
            gain = 3 if change.change_type == "delete" else int(change.change_type == "insert")
            recent.append((at, gain))
            weight += gain
            while recent[0][0] < at - WINDOW:
                weight -= recent.popleft()[1]
            if ((bool(open_)), weight) > best:
                best, found = (bool(open_), weight), at
        return found

    def moment(self, at: int) -> Moment:
        """What was known at a time about the seconds before it."""
        known: dict[str, Detection] = {}
        places: dict[str, Point] = {}
        ball = None
        for told, change in self.told:
            if told > at:
                break
            if change.type == "frame" and change.change_type == "insert":
                columns = (change.payload[name] for name in ("player", "x", "y"))
                places = {player: (x, y) for player, x, y in zip(*columns, strict=True)}
            elif change.type == "ball_track" and change.change_type == "insert":
                ball = change.payload["x"], change.payload["y"]
            elif change.type in SHOWN and change.ts > at - WINDOW:
                status = "taken back" if change.change_type == "delete" else change.status
                event = change.event
                place = places.get(event["player"])
                if "x" in event.payload:
                    place = event["x"], event["y"]
                elif change.match_id in known:
                    place = known[change.match_id].place
                known[change.match_id] = Detection(event, place, told, status)
        return Moment(at, list(known.values()), places, ball)


def summary(run: MatchResult) -> str:
    """How the match went, in one line."""
    announced, undone = run.count("insert"), run.count("delete")
    goals = sum(change.type == "goal" and change.change_type == "insert" for _, change in run.told)
    return (
        f"a match: {run.positions:,} positions in {run.seconds:g} s through "
        f"{run.detectors} detectors on {run.levels} levels; {announced} detections announced, "
        f"{undone} of them taken back, {goals} goals"
    )


def follow(seed: int, advance: Callable[[float], None], *, seconds: float = SECONDS) -> MatchResult:
    """Let the detectors follow a match; `advance` gets the seconds that have been played."""
    match = simulate(seconds, seed=seed)
    hierarchy = soccer(match.stadium)
    engine = Engine(hierarchy, attenuation=ATTENUATION)
    levels = max(hierarchy.levels().values())
    run = MatchResult(match.stadium, len(hierarchy), levels, seconds=seconds)
    clock = 0
    for batch in _steps(disordered(match.tables(), "bursts", seed=seed)):
        run.positions += len(batch)
        changes = engine.feed(batch.drop_columns(["seq", "arrived"]))
        before, clock = clock, max(clock, int(batch["ts"].to_numpy().max()))
        run.told += ((clock, change) for change in changes)
        advance((clock - before) / 1e6)
    run.told += ((clock, change) for change in engine.finish())
    return run


def _steps(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Arrivals in steps of equal duration."""
    left: list[pa.Table] = []
    for table in tables:
        steps = table["arrived"].to_numpy() // STEP
        ends = [*(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(table)]
        start = 0
        for end in ends:
            piece = table.slice(start, end - start)
            begun = left and left[0]["arrived"][0].as_py() // STEP != int(steps[start])
            if begun:
                yield pa.concat_tables(left)
                left = []
            left.append(piece)
            start = end
    if left:
        yield pa.concat_tables(left)
