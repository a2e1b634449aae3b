"""What happened, derived from facts: who touched the ball when, and where it left the pitch.

The simulator knows three kinds of facts: a *hit* (a player's contact with the ball, with the ball's
position and velocity at the end of the contact), *over the line* (the ball leaves the pitch), and
*in the goal*. Everything else follows from them by the definitions below, whatever the simulated
players intended. Times are those of the ball's sensor, in microseconds.

At a hit, a sensor of the player is at the ball: of a leg, or of an arm at throw-ins and saves. Other
players may be within the challenge's 1 m, too, but none is as near.

| kind | `ts` | `until` | `player` (of `team`) | `other` | when |
|---|---|---|---|---|---|
| `hit` | first sample of the contact | | who | | every contact with the ball |
| `possession` | first hit | its end | who | | from a player's hit to the next hit of another player, or until the ball is out or in the goal |
| `pass` | kick | reception | who kicks | who gets it | a hit of P that is no shot, the next hit is of a team mate, at least 3 m from the place of the first, and the ball stayed in play |
| `unsuccessful_pass` | kick | reception | who kicks | opponent | the same, but the next hit is of an opponent |
| `double_pass` | first kick | second reception | P | Q | a pass from P to Q, and the next pass is from Q to P, kicked at most 5 s after the first, with nothing but hits of Q between |
| `shot_on_goal` | hit | | who | | the projected path crosses the goal that the team attacks within 1.5 s |
| `shot` | hit | | who | | a shot on goal; or the ball leaves the foot with at least 12 m/s and the projected path crosses the goal line of that goal within 1.5 s, at most 3.5 m beside a post and 5 m high |
| `blocked_shot` | block | | who blocks | shooter | the next hit after a shot on goal is of an opponent who is no keeper, at most 2 s later, ball in play |
| `save` | save | | keeper | shooter | the same, but the opponent is a keeper |
| `goal` | crossing | | last hit | | the ball crosses a goal line between the posts, below the bar; `team` is the team that attacks this goal |
| `out` | crossing | | last hit | `side` or `end` | the ball crosses a line elsewhere |
| `throw_in` | hit | | who | | the first hit after the ball was out over a side line |
| `corner`, `goal_kick` | hit | | who | | the first hit after the ball was out over an end line; a corner if the last hit was of the team that defends this end |
| `kick_off` | hit | | who | | the first hit after a goal; also the first of all, if at most 1 m from the centre |

The position of the ball is that of its centre. The *projected path* is that of a ball in free fall
from its position and velocity at the end of the contact (5 ms after `ts`), without drag, which
rolls along the ground once it is there: `y` reaches the line after `(line - y) / vy`, `x` is then
`x + vx t`, and the height `z + vz t - g t²/2`, or 0 if that is less. g is 9.81 m/s².
"""  # noqa: E501 a table cannot be wrapped

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from betimes.apps.soccer.stadium import Goal, Stadium

GRAVITY = 9.81
PASS_DISTANCE = 3.0
SHOT_TIME = 1.5
SHOT_SPEED = 12.0
BESIDE, ABOVE = 3.5, 5.0
"""How far beside a post, and how high, a shot may pass."""
DOUBLE_PASS_TIME = 5_000_000
ANSWER_TIME = 2_000_000
"""How long after a shot on goal the next hit may be a block or a save."""
CENTRE_DISTANCE = 1.0

_COLUMNS: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "ts": pa.int64(),
    "until": pa.int64(),
    "player": pa.string(),
    "team": pa.string(),
    "other": pa.string(),
    "ball": pa.int32(),
    "x": pa.float64(),
    "y": pa.float64(),
    "z": pa.float64(),
}
SCHEMA = pa.schema(_COLUMNS)
"""The columns of the truth; `x`, `y`, `z`: the ball at `ts`. Columns that a kind lacks are null."""


@dataclass(frozen=True)
class Ball:
    """Place (metres) and velocity (m/s) of the ball."""

    x: float
    y: float
    z: float
    vx: float = 0.0
    vy: float = 0.0
    vz: float = 0.0

    @property
    def speed(self) -> float:
        return math.hypot(self.vx, self.vy, self.vz)


@dataclass(frozen=True)
class Hit:
    """A contact of a player with the ball."""

    ts: int
    person: int
    sid: int
    """The ball's sensor."""
    at: Ball
    """When the contact begins."""
    after: Ball
    """When it ends."""
    part: str = "leg"
    """The kind of sensor that is at the ball."""


@dataclass(frozen=True)
class Crossing:
    """The ball crosses a line around the pitch."""

    ts: int
    sid: int
    at: Ball
    end: int | None
    """The index of the goal whose line it is; None for a side line."""
    goal: bool
    """Whether it is between the posts and below the bar."""


Fact = Hit | Crossing


@dataclass(frozen=True)
class Arrival:
    """Where a projected path crosses a goal line."""

    time: float
    x: float
    z: float


def projected(ball: Ball, goal: Goal) -> Arrival | None:
    """Where the ball would cross the line of a goal, if it flies there.

    >>> projected(Ball(20, 0, 0, 2, 10, 5), Goal(18, 26, 12)).time
    1.2
    """
    time = (goal.y - ball.y) / ball.vy if ball.vy else -1.0
    if time <= 0:
        return None
    z = max(0.0, ball.z + ball.vz * time - GRAVITY * time * time / 2)
    return Arrival(time, ball.x + ball.vx * time, z)


def is_on_goal(ball: Ball, goal: Goal) -> bool:
    """Whether the projected path crosses the goal in time."""
    there = projected(ball, goal)
    return (
        there is not None
        and there.time <= SHOT_TIME
        and goal.left <= there.x <= goal.right
        and there.z <= goal.height
    )


def is_shot(ball: Ball, goal: Goal) -> bool:
    """Whether a ball that has just been hit is a shot, on goal or past it."""
    there = projected(ball, goal)
    if there is None or there.time > SHOT_TIME:
        return False
    near = goal.left - BESIDE <= there.x <= goal.right + BESIDE and there.z <= ABOVE
    return is_on_goal(ball, goal) or (near and ball.speed >= SHOT_SPEED)


Row = dict[str, Any]


class Chronicle:
    """Turns facts, given in order of time, into rows of the truth."""

    def __init__(self, stadium: Stadium) -> None:
        self._stadium = stadium
        self.rows: list[Row] = []
        self._last: Hit | None = None
        """The last hit."""
        self._in_play = False
        self._possession: Hit | None = None
        """The first hit of the player who has the ball."""
        self._pass: tuple[Hit, Hit] | None = None
        """The last pass, as long as only its receiver has touched the ball."""
        self._over: Crossing | None = None
        """Where the ball went before the next restart."""

    def tell(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, Hit):
                self._hit(fact)
            else:
                self._crossing(fact)

    def finished(self) -> pa.Table:
        """All rows in order of time. (What is unfinished at the end of the match has no row.)"""
        rows = sorted(self.rows, key=lambda row: (row["ts"], row["kind"]))
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def _hit(self, hit: Hit) -> None:
        self._row("hit", hit)
        if not self._in_play:
            self._restart(hit)
        elif self._last is not None:
            self._connect(self._last, hit)
        if self._possession is None or self._possession.person != hit.person:
            self._end_possession(hit.ts)
            self._possession = hit
        goal = self._stadium.attacked(self._team(hit), hit.ts)
        if is_shot(hit.after, goal):
            self._row("shot", hit)
        if is_on_goal(hit.after, goal):
            self._row("shot_on_goal", hit)
        self._last, self._in_play, self._over = hit, True, None

    def _restart(self, hit: Hit) -> None:
        over, last = self._over, self._last
        self._pass = None
        if over is None or over.goal:
            x, y = self._stadium.pitch.centre
            if over is not None or math.hypot(hit.at.x - x, hit.at.y - y) <= CENTRE_DISTANCE:
                self._row("kick_off", hit)
        elif over.end is None:
            self._row("throw_in", hit)
        elif last is not None:
            goal = self._stadium.pitch.goals[over.end]
            defended = self._stadium.defended(self._team(last), over.ts) == goal
            self._row("corner" if defended else "goal_kick", hit)

    def _connect(self, first: Hit, second: Hit) -> None:
        """Two hits in a row with the ball in play in between."""
        if first.person == second.person:
            return
        goal = self._stadium.attacked(self._team(first), first.ts)
        mates = self._team(first) == self._team(second)
        on_goal = is_on_goal(first.after, goal)
        if on_goal and not mates and second.ts - first.ts <= ANSWER_TIME:
            keeper = self._stadium.persons[second.person].role == "keeper"
            self._row("save" if keeper else "blocked_shot", second, other=first)
        before, self._pass = self._pass, None
        far = math.hypot(second.at.x - first.at.x, second.at.y - first.at.y) >= PASS_DISTANCE
        if is_shot(first.after, goal) or not far:
            return
        self._row("pass" if mates else "unsuccessful_pass", first, other=second, until=second.ts)
        if not mates:
            return
        self._pass = first, second
        if before is not None and before[0].person == second.person:
            start, _ = before
            if first.ts - start.ts <= DOUBLE_PASS_TIME:
                self._row("double_pass", start, other=first, until=second.ts)

    def _crossing(self, crossing: Crossing) -> None:
        last = self._last
        if not self._in_play or last is None:
            return
        self._end_possession(crossing.ts)
        self._in_play, self._over, self._possession, self._pass = False, crossing, None, None
        kind = "side" if crossing.end is None else "end"
        row = self._row("goal" if crossing.goal else "out", last, ts=crossing.ts, at=crossing.at)
        row["other"] = None if crossing.goal else kind
        if crossing.goal and crossing.end is not None:
            goal = self._stadium.pitch.goals[crossing.end]
            row["team"] = "A" if self._stadium.attacked("A", crossing.ts) == goal else "B"

    def _end_possession(self, ts: int) -> None:
        if self._possession is not None:
            self._row("possession", self._possession, until=ts)

    def _row(
        self,
        kind: str,
        hit: Hit,
        *,
        other: Hit | None = None,
        until: int | None = None,
        ts: int | None = None,
        at: Ball | None = None,
    ) -> Row:
        names, at = self._stadium.persons, at or hit.at
        row: Row = {
            "kind": kind,
            "ts": hit.ts if ts is None else ts,
            "until": until,
            "player": names[hit.person].name,
            "team": names[hit.person].team,
            "other": None if other is None else names[other.person].name,
            "ball": hit.sid,
            "x": at.x,
            "y": at.y,
            "z": at.z,
        }
        self.rows.append(row)
        return row

    def _team(self, hit: Hit) -> str:
        return self._stadium.persons[hit.person].team
