"""Where players are: heat maps, and the offside line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from betimes.apps.soccer.stadium import NUREMBERG, Stadium
from betimes.model import Event

GRIDS = {"8x13": (8, 13), "16x25": (16, 25), "32x50": (32, 50), "64x100": (64, 100)}
"""Numbers of cells across the pitch and along it."""
SECOND = 1_000_000


@dataclass
class HeatMap:
    """The cells of each grid in which every player spent the last second, once a second.

    An event has the shares of one second, so the map of any window is a sum of events
    (`queries.heat_map`), and this detector keeps nothing for longer than that second.
    """

    stadium: ClassVar[Stadium] = NUREMBERG
    every: ClassVar[int] = SECOND

    frames: list[Event] = field(default_factory=list)
    deadline: int | None = None

    def on_event(self, event: Event) -> None:
        # A frame comes at the end of its tick: one at a full second belongs to the second before.
        self.deadline = ((event.ts - 1) // self.every + 1) * self.every + 1
        self.frames.append(event)

    def on_time(self, ts: int) -> Iterator[Event]:
        """The second has ended."""
        seen = [
            place
            for frame in self.frames
            for place in zip(frame["player"], frame["x"], frame["y"], strict=True)
        ]
        for grid in GRIDS:
            yield self._shares(grid, seen, ts - 1)
        self.frames.clear()
        self.deadline = None

    def _shares(self, grid: str, seen: list[tuple[str, float, float]], end: int) -> Event:
        pitch, (across, along) = self.stadium.pitch, GRIDS[grid]
        left, bottom = pitch.left, pitch.bottom
        wide, high = (pitch.right - left) / across, (pitch.top - bottom) / along
        cells = [
            (
                player,
                min(max(int((y - bottom) // high), 0), along - 1) * across
                + min(max(int((x - left) // wide), 0), across - 1),
            )
            for player, x, y in seen
        ]
        counts = Counter(cells)
        totals: Counter[str] = Counter()
        for (player, _), count in counts.items():
            totals[player] += count
        payload = {
            "grid": grid,
            "player": [player for player, _ in counts],
            "cell": [cell for _, cell in counts],
            "share": [round(count / totals[player], 4) for (player, _), count in counts.items()],
        }
        return Event("heat", end, payload)


@dataclass
class OffsideLine:
    """Where the second-last player of each team stands, reported when it has moved by a metre."""

    stadium: ClassVar[Stadium] = NUREMBERG
    step: ClassVar[float] = 1.0

    told: dict[str, float] = field(default_factory=dict)

    def on_event(self, event: Event) -> Iterator[Event]:
        places: dict[str, list[float]] = {"A": [], "B": []}
        teams = self.stadium.teams
        for player, y in zip(event["player"], event["y"], strict=True):
            places[teams[player]].append(y)
        for team, ys in places.items():
            if len(ys) < 2:
                continue
            goal = self.stadium.defended(team, event.ts).y
            line = sorted(ys, key=lambda y: abs(goal - y))[1]
            if team not in self.told or abs(line - self.told[team]) >= self.step:
                self.told[team] = line
                yield Event("offside_line", event.ts, {"team": team, "y": round(line, 2)})
