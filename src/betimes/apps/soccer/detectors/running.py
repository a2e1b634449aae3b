"""How players run: their intensity, their runs, and the totals over windows of time.

Intensities and windows are those of the 2013 challenge. A run is a stretch of time with one
intensity; a run shorter than a second is merged into the next. So the intensity is known one second
after a run begins, and `intensity` is dated back to the beginning; a `run` is published, and dated,
when it ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from betimes.apps.soccer.detectors.raw import TICK
from betimes.model import Event

INTENSITIES = ("stand", "trot", "low", "medium", "high", "sprint")
LIMITS = (1.0, 11.0, 14.0, 17.0, 24.0)
"""The highest speed of each intensity except the last, in km/h."""
SHORTEST = 1_000_000
MINUTE = 60_000_000
WINDOWS = {"1min": MINUTE, "5min": 5 * MINUTE, "10min": 10 * MINUTE, "20min": 20 * MINUTE}


def intensity_of(speed: float) -> int:
    """The number of the intensity of a speed in m/s.

    >>> [INTENSITIES[intensity_of(v)] for v in (0.2, 3.0, 3.5, 7.0)]
    ['stand', 'trot', 'low', 'sprint']
    """
    return bisect_left(LIMITS, speed * 3.6)


@dataclass
class Runs:
    """The runs of all players, from frames."""

    tick: ClassVar[int] = TICK
    shortest: ClassVar[int] = SHORTEST

    kind: dict[str, int] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=dict)
    metres: dict[str, float] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    told: dict[str, bool] = field(default_factory=dict)
    deadline: int | None = None

    def on_time(self, ts: int) -> Iterator[Event]:  # noqa: ARG002 - it is the deadline
        """No more frames arrive: all runs ended with the last one."""
        self.deadline = None
        for player in list(self.seen):
            yield from self._end(player, self.seen.pop(player))

    def on_event(self, event: Event) -> Iterator[Event]:
        since, self.deadline = event.ts - self.tick, event.ts + self.shortest
        for player, speed in zip(event["player"], event["speed"], strict=True):
            kind = intensity_of(speed)
            known = self.seen.get(player)
            if known is not None and known < since:
                yield from self._end(player, known)
                known = None
            if known is None:
                self._begin(player, kind, since)
            elif kind != self.kind[player]:
                if since - self.began[player] >= self.shortest:
                    yield from self._end(player, since)
                    self._begin(player, kind, since)
                else:
                    self.kind[player] = kind
            self.metres[player] += speed * self.tick * 1e-6
            self.seen[player] = event.ts
            if not self.told[player] and event.ts - self.began[player] >= self.shortest:
                self.told[player] = True
                payload = {"player": player, "intensity": INTENSITIES[kind]}
                yield Event("intensity", self.began[player], payload)

    def _begin(self, player: str, kind: int, ts: int) -> None:
        self.kind[player], self.began[player], self.metres[player] = kind, ts, 0.0
        self.told[player] = False

    def _end(self, player: str, ts: int) -> Iterator[Event]:
        payload = {
            "player": player,
            "intensity": INTENSITIES[self.kind[player]],
            "since": self.began[player],
            "metres": round(self.metres[player], 3),
        }
        yield Event("run", ts, payload)


def sprint(event: Event) -> Event | None:
    """A player begins to sprint."""
    if event["intensity"] != "sprint":
        return None
    return Event("sprint", event.ts, {"player": event["player"]})


@dataclass
class RunningTotals:
    """Time and distance of one player in each intensity: over windows, and since the beginning.

    A run that began before a window counts proportionally.
    """

    ends: deque[int] = field(default_factory=deque)
    begins: deque[int] = field(default_factory=deque)
    kinds: deque[int] = field(default_factory=deque)
    metres: deque[float] = field(default_factory=deque)
    game_seconds: list[float] = field(default_factory=lambda: [0.0] * len(INTENSITIES))
    game_metres: list[float] = field(default_factory=lambda: [0.0] * len(INTENSITIES))

    def on_event(self, event: Event) -> Event:
        kind = INTENSITIES.index(event["intensity"])
        self.ends.append(event.ts)
        self.begins.append(event["since"])
        self.kinds.append(kind)
        self.metres.append(event["metres"])
        self.game_seconds[kind] += (event.ts - event["since"]) * 1e-6
        self.game_metres[kind] += event["metres"]
        while self.ends[0] <= event.ts - max(WINDOWS.values()):
            for column in (self.ends, self.begins, self.kinds, self.metres):
                column.popleft()
        payload: dict[str, Any] = {"player": event["player"]}
        for name, length in WINDOWS.items():
            payload[name] = self._window(event.ts - length)
        payload["game"] = _table(self.game_seconds, self.game_metres)
        return Event("running", event.ts, payload)

    def _window(self, start: int) -> dict[str, list[float]]:
        seconds, metres = [0.0] * len(INTENSITIES), [0.0] * len(INTENSITIES)
        runs = zip(
            reversed(self.ends), reversed(self.begins), reversed(self.kinds),
            reversed(self.metres), strict=True,
        )  # fmt: skip
        for end, begin, kind, way in runs:
            if end <= start:
                break
            inside = end - max(begin, start)
            seconds[kind] += inside * 1e-6
            metres[kind] += way * inside / (end - begin)
        return _table(seconds, metres)


def _table(seconds: list[float], metres: list[float]) -> dict[str, list[float]]:
    """Seconds and metres of each intensity that occurred."""
    rows = zip(INTENSITIES, seconds, metres, strict=True)
    return {name: [round(s, 3), round(m, 2)] for name, s, m in rows if s > 0}
