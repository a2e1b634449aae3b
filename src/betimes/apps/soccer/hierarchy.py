"""The match as a hierarchy of detectors: from raw positions to chances and momentum.

The lowest level reads tens of thousands of positions per second, as columns, and publishes few
events. Everything above is small: plain Python where a detector has its own state, a pattern where
events follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from betimes.apps.soccer.detectors import ball, places, play, raw, running
from betimes.apps.soccer.detectors.sensors import Sensors, configured
from betimes.apps.soccer.stadium import NUREMBERG, SIMULATED, Stadium
from betimes.engine import Hierarchy
from betimes.patterns import Pattern, begin, pattern

CLOCK = "ball"
"""Positions of balls are the most frequent and the fastest to arrive, so they move the clocks."""
INPUTS = ("ball", "player", "referee")


def soccer(stadium: Stadium = NUREMBERG) -> Hierarchy:
    """All detectors, for a stadium.

    >>> hierarchy = soccer()
    >>> len(hierarchy), max(hierarchy.levels().values())
    (33, 9)
    """
    match = Hierarchy(clock=CLOCK, inputs=INPUTS)
    _add_positions(match, stadium)
    _add_running(match, stadium)
    _add_ball(match, stadium)
    _add_play(match, stadium)
    for each in _patterns():
        match.add(each)
    return match


def simulated() -> Hierarchy:
    """All detectors, for the stadium of the simulator; a job file can name this function."""
    return soccer(SIMULATED)


def _add_positions(match: Hierarchy, stadium: Stadium) -> None:
    here = {"stadium": stadium, "sensors": Sensors(stadium)}
    proximity = configured(raw.Proximity, **here)
    match.add(proximity, on=("ball", "player"), emits=("joins", "leaves", "near", "not_near"))
    # What has the same time and level is in order of these names. So a player who comes near with
    # the very sample that shows the kick has hit the ball.
    match.add(configured(raw.Strikes, **here), on="ball", emits=("kick", "peak"))
    match.add(configured(raw.Crossings, **here), on="ball", emits="crossed")
    match.add(configured(raw.BallTrack, **here), on="ball", emits="ball_track")
    match.add(configured(raw.PlayerTrack, **here), on="player", emits="frame")


def _add_running(match: Hierarchy, stadium: Stadium) -> None:
    match.add(running.Runs, on="frame", emits=("intensity", "run"))
    match.add(running.sprint, on="intensity", emits="sprint")
    match.add(running.RunningTotals, on="run", emits="running", by="player")
    match.add(configured(places.HeatMap, stadium=stadium), on="frame", emits="heat")
    match.add(configured(places.OffsideLine, stadium=stadium), on="frame", emits="offside_line")


def _add_ball(match: Hierarchy, stadium: Stadium) -> None:
    contact = ("near", "not_near", "kick", "peak")
    match.add(ball.Bounces, on=contact, emits=("bounce", "hit"))
    match.add(configured(play.Duels, stadium=stadium), on=("joins", "leaves"), emits="duel")
    match.add(
        configured(ball.Shots, stadium=stadium), on=("hit", "peak"), emits=("shot", "shot_on_goal")
    )
    whistle = configured(ball.Whistle, stadium=stadium)
    match.add(whistle, on=("hit", "crossed"), emits=("out", "goal"))
    restarts = configured(ball.Restarts, stadium=stadium)
    again = ("throw_in", "corner", "goal_kick", "kick_off")
    match.add(restarts, on=("hit", "out", "goal"), emits=again)
    match.add(ball.interruption, on=again, emits="interruption")
    match.add(ball.Score, on="goal", emits="score")


def _add_play(match: Hierarchy, stadium: Stadium) -> None:
    ended = ("hit", "out", "goal")
    match.add(play.Possession, on=ended, emits=("holder", "possession"))
    match.add(play.dribble, on="possession", emits="dribble")
    match.add(play.Pass, on=(*ended, "shot"), emits=("pass", "unsuccessful_pass"))
    match.add(play.interception, on="unsuccessful_pass", emits="interception")
    held = ("holder", "out", "goal")
    match.add(play.TeamPossession, on=held, emits="team_possession")
    pressing = configured(play.Pressing, stadium=stadium)
    match.add(pressing, on=(*held, "frame"), emits="pressing")
    attack = configured(play.Attack, stadium=stadium)
    match.add(attack, on=("team_possession", "out", "goal", "ball_track"), emits="attack")
    match.add(play.counter_attack, on="attack", emits="counter_attack")


def _patterns() -> Iterator[Pattern]:
    player, place = ("player", "team", "keeper"), ("ball", "x", "y", "z", "a")
    yield pattern(
        "near !not_near ... kick", emits="hit", by="ball", within="1h", name="PlayerHitsBall",
        skip="none",
        select={name: f"near.{name}" for name in player} | {name: f"kick.{name}" for name in place},
    )  # fmt: skip
    for step, emits, name, who in (
        ("block", "blocked_shot", "BlockedShot", "not block.keeper"),
        ("save", "save", "Save", "save.keeper"),
    ):
        yield pattern(
            f"shot-{step}", emits=emits, on=("shot_on_goal", "hit", "goal", "out"), within="2s",
            define={"shot": "type == 'shot_on_goal'", step: "type == 'hit'"}, name=name,
            where=f"{step}.team != shot.team and {who}",
            select={"player": f"{step}.player", "team": "shot.team", "shooter": "shot.player"},
        )  # fmt: skip
    yield pattern(
        "first second", emits="double_pass", within="6s", name="DoublePass",
        define={"first": "type == 'pass'", "second": "type == 'pass'"},
        where="second.since == first.received and second.to == first.player"
              " and second.ts - first.ts <= 5s",
        skip="to_next",
        select={"player": "first.player", "team": "first.team", "with": "first.to",
                "began": "first.ts", "received": "second.received"},
    )  # fmt: skip
    yield (
        begin("passes", "type == 'pass'", emits="combination", by="team", name="Combination",
              on=("pass", "unsuccessful_pass"),
              select={"team": "last(passes.team)", "began": "first(passes.ts)"})
        .times(3).consecutive().within("15s").skip("past_last")
    )  # fmt: skip
    yield pattern(
        "attack shot", emits="dangerous_attack", by="team", within="10s", name="DangerousAttack",
        define={"shot": "type == 'shot_on_goal'"},
        select={"team": "attack.team", "player": "shot.player", "counter": "attack.counter"},
    )  # fmt: skip
    yield pattern(
        "dangerous_attack ending", emits="chance", by="team", within="3s", name="Chance",
        define={"ending": "type in ('goal', 'save', 'blocked_shot')"},
        select={"team": "ending.team", "player": "dangerous_attack.player", "ended": "ending.type"},
    )  # fmt: skip
    yield pattern(
        "chance again", emits="momentum", by="team", within="60s", name="Momentum",
        define={"again": "type == 'chance'"}, skip="to_next",
        select={"team": "again.team", "since": "chance.ts"},
    )  # fmt: skip
