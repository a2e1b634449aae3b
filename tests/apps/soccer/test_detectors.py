"""Detectors above the raw positions, each on a few events made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import betimes as bt
from betimes.apps.soccer.detectors import ball, places, play, running
from betimes.apps.soccer.stadium import NUREMBERG
from betimes.testing import check_detector
from betimes.testing.oracle import listed

SECOND = 1_000_000
START = 10_760 * SECOND
"""In the first half: A attacks the goal at the high end."""


def at(second: float) -> int:
    return START + round(second * SECOND)


def hit(second: float, player: str, x: float = 26.0, y: float = 0.0) -> bt.Event:
    payload = {"player": player, "team": player[0], "keeper": player[1:] == "1", "ball": 4}
    return bt.Event("hit", at(second), payload | {"x": x, "y": y, "z": 0.1, "a": 900.0})


def crossed(second: float, *, line: str = "touch", end: int = 0, goal: bool = False) -> bt.Event:
    payload = {"ball": 4, "line": line, "end": end, "goal": goal, "x": 26.0, "y": 33.0, "z": 0.0}
    return bt.Event("crossed", at(second), payload)


def made(detector: Any, events: Iterable[bt.Event]) -> list[bt.Event]:
    """What a detector makes of events in order, its deadlines included, and of the end."""
    found: list[bt.Event] = []
    for event in events:
        while getattr(detector, "deadline", None) is not None and detector.deadline <= event.ts:
            found += listed(detector.on_time(detector.deadline))
        found += listed(
            detector.on_event(event) if hasattr(detector, "on_event") else detector(event)
        )
    while getattr(detector, "deadline", None) is not None:
        found += listed(detector.on_time(detector.deadline))
    return found


def told(events: Iterable[bt.Event]) -> list[tuple[str, float]]:
    return [(event.type, (event.ts - START) / SECOND) for event in events]


class TestBounces:
    def near(self, second: float, type: str = "near", ball: int = 4) -> bt.Event:
        who = {"player": "B1", "team": "B", "keeper": True}
        return bt.Event(type, at(second), who | {"ball": ball})

    def kick(self, second: float) -> list[bt.Event]:
        place = {"ball": 4, "x": 1.0, "y": 2.0, "z": 0.1, "a": 99.0}
        ended = bt.Event("peak", at(second + 0.01), {"ball": 4})
        return [bt.Event("kick", at(second), place), ended]

    def test_nobody_is_near(self) -> None:
        (found,) = made(ball.Bounces(), self.kick(1))
        assert (found.type, found.ts, found["x"]) == ("bounce", at(1), 1.0)

    def test_somebody_is(self) -> None:
        assert made(ball.Bounces(), [self.near(0.5), *self.kick(1), *self.kick(2)]) == []

    def test_he_was_or_is_near_another_ball(self) -> None:
        events = [self.near(0.4, ball=8), self.near(0.5), self.near(0.9, "not_near")]
        assert told(made(ball.Bounces(), [*events, *self.kick(1)])) == [("bounce", 1.0)]

    def test_who_comes_near_before_it_is_over_has_hit_the_ball(self) -> None:
        kick, ended = self.kick(1)
        (found,) = made(ball.Bounces(), [kick, self.near(1.005), ended])
        assert (found.type, found.ts, found["player"], found["a"]) == (
            "hit",
            at(1.005),
            "B1",
            99.0,
        )
        assert told(made(ball.Bounces(), [kick, ended, self.near(1.02)])) == [("bounce", 1.0)]


class TestShots:
    def peak(self, second: float, vy: float, vz: float = 0.0, *, x: float = 26.0) -> bt.Event:
        place = {"x1": x, "y1": 14.0, "z1": 0.1, "vx1": 0.0, "vy1": vy, "vz1": vz}
        start = {"ball": 4, "start": at(second) - 5_000}
        return bt.Event("peak", at(second), place | start)

    def shots(self, player: str, *peak: Any, **more: Any) -> list[str]:
        events = [hit(0.996, player), self.peak(1.0, *peak, **more)]
        found = made(ball.Shots(), events)
        assert all(event.ts == at(0.996) for event in found)
        return [event.type for event in found]

    def test_at_the_goal(self) -> None:
        assert self.shots("A4", 20.0) == ["shot", "shot_on_goal"]

    def test_past_the_goal(self) -> None:
        assert self.shots("A4", 20.0, x=32.0) == ["shot"]

    def test_far_past_it(self) -> None:
        assert self.shots("A4", 20.0, x=40.0) == []

    def test_too_slow(self) -> None:
        assert self.shots("A4", 13.0) == []

    def test_over_the_bar_and_falling_under_it(self) -> None:
        assert self.shots("A4", 20.0, 8.0) == ["shot"]
        assert self.shots("A4", 20.0, 5.0) == ["shot", "shot_on_goal"]

    def test_at_the_own_goal(self) -> None:
        assert self.shots("B4", 20.0) == []

    def test_a_bounce_is_no_shot(self) -> None:
        assert made(ball.Shots(), [hit(0.2, "A4"), self.peak(1.0, 20.0)]) == []


class TestWhistleAndRestarts:
    def stopped(self, *crossing: bt.Event, by: str = "A3") -> bt.Event:
        (found,) = made(ball.Whistle(), [hit(0, by), *crossing])
        return found

    def restart(self, stopped: bt.Event, by: str) -> tuple[str, float]:
        (found,) = told(made(ball.Restarts(), [hit(0, by, 10.0), stopped, hit(5, "B2")]))
        return found

    def test_out_and_throw_in(self) -> None:
        out = self.stopped(crossed(1))
        assert (out.type, out["player"], out.ts) == ("out", "A3", at(1))
        assert self.restart(out, "A3") == ("throw_in", 5.0)

    def test_corner_if_the_defenders_hit_it_last(self) -> None:
        out = self.stopped(crossed(1, line="goal", end=0), by="B3")
        assert self.restart(out, "B3") == ("corner", 5.0)

    def test_goal_kick_if_the_attackers_did(self) -> None:
        out = self.stopped(crossed(1, line="goal", end=0), by="A3")
        assert self.restart(out, "A3") == ("goal_kick", 5.0)

    def test_a_goal_counts_for_those_who_attack_it(self) -> None:
        goal = self.stopped(crossed(1, line="goal", end=0, goal=True), by="B3")
        assert (goal.type, goal["team"], goal["player"]) == ("goal", "A", "B3")
        assert self.restart(goal, "B3") == ("kick_off", 5.0)
        assert made(ball.Score(), [goal, goal])[1].payload == {"A": 2, "B": 0}

    def test_it_leaves_the_pitch_once(self) -> None:
        assert len(made(ball.Whistle(), [hit(0, "A3"), crossed(1), crossed(2)])) == 1

    def test_other_balls_do_not_matter(self) -> None:
        other = bt.Event("crossed", at(1), {**crossed(1).payload, "ball": 8})
        assert made(ball.Whistle(), [hit(0, "A3"), other]) == []

    def test_the_first_hit_at_the_centre_is_a_kick_off(self) -> None:
        x, y = NUREMBERG.pitch.centre
        assert told(made(ball.Restarts(), [hit(0, "A9", x, y + 0.9)])) == [("kick_off", 0.0)]
        assert made(ball.Restarts(), [hit(0, "A9", x, y + 1.1)]) == []

    def test_an_interruption_is_dated_back(self) -> None:
        throw = bt.Event("throw_in", at(5), {"player": "B2", "team": "B", "stopped": at(1)})
        assert told(made(ball.interruption, [throw])) == [("interruption", 1.0)]


class TestPossession:
    def test_from_the_first_hit_to_that_of_another(self) -> None:
        events = [hit(1, "A2"), hit(2, "A2"), hit(4, "B3"), bt.Event("out", at(5))]
        found = made(play.Possession(), events)
        assert told(found) == [
            ("holder", 1.0), ("possession", 1.0), ("holder", 4.0), ("possession", 4.0),
        ]  # fmt: skip
        assert [e["hits"] for e in found if e.type == "possession"] == [2, 1]
        assert [e["until"] for e in found if e.type == "possession"] == [at(4), at(5)]

    def test_dribbling_takes_three_hits(self) -> None:
        events = [hit(1, "A2"), hit(2, "A2"), hit(3, "A2"), hit(4, "B3"), hit(5, "A2")]
        had = [e for e in made(play.Possession(), events) if e.type == "possession"]
        assert told(e for h in had for e in made(play.dribble, [h])) == [("dribble", 1.0)]

    def test_teams(self) -> None:
        events = [hit(1, "A2"), hit(2, "A3"), hit(4, "B3"), bt.Event("out", at(5)), hit(9, "A2")]
        held = [e for e in made(play.Possession(), events) if e.type == "holder"]
        out = [bt.Event("out", at(5))]
        found = made(play.TeamPossession(), sorted(held + out, key=lambda e: e.ts))
        assert [(e["team"], e["before"]) for e in found] == [("A", None), ("B", "A"), ("A", None)]
        assert found[-1]["seconds"] == {"A": 3.0, "B": 1.0}


class TestPass:
    def test_to_a_team_mate_dated_at_the_kick(self) -> None:
        (found,) = made(play.Pass(), [hit(1, "A2"), hit(2, "A2"), hit(3, "A4", y=9)])
        assert (found.type, found.ts, found["to"], found["received"]) == (
            "pass",
            at(2),
            "A4",
            at(3),
        )
        assert found["since"] == at(1)

    def test_to_an_opponent(self) -> None:
        (found,) = made(play.Pass(), [hit(1, "A2"), hit(3, "B4", y=9)])
        assert found.type == "unsuccessful_pass"
        (won,) = made(play.interception, [found])
        assert (won.ts, won["player"], won["from"]) == (at(3), "B4", "A2")

    @pytest.mark.parametrize(
        "between", [[bt.Event("out", at(2))], [bt.Event("goal", at(2))], [bt.Event("shot", at(1))]]
    )
    def test_not_over_a_line_nor_by_a_shot(self, between: list[bt.Event]) -> None:
        assert made(play.Pass(), [hit(1, "A2"), *between, hit(3, "A4", y=9)]) == []

    def test_not_over_two_metres(self) -> None:
        assert made(play.Pass(), [hit(1, "A2"), hit(3, "A4", y=2)]) == []

    def test_a_shot_before_does_not_matter(self) -> None:
        events = [hit(1, "A2"), bt.Event("shot", at(1)), hit(2, "B1", y=9), hit(3, "B2")]
        assert told(made(play.Pass(), events)) == [("pass", 2.0)]


class TestPlay:
    def test_duels(self) -> None:
        def near(second: float, player: str, type: str = "joins") -> bt.Event:
            return bt.Event(type, at(second), {"player": player, "ball": 4})

        events = [
            near(1, "A2"),
            near(2, "A3"),
            near(3, "B4"),
            near(4, "B4", "leaves"),
            near(5, "A5"),
        ]
        assert told(made(play.Duels(), events)) == [("duel", 3.0)]

    def test_pressing(self) -> None:
        def frame(second: float, *ys: float) -> bt.Event:
            names = ["A2", "B2", "B3"]
            return bt.Event("frame", at(second), {"player": names, "x": [20.0] * 3, "y": list(ys)})

        holder = bt.Event("holder", at(0), {"player": "A2"})
        events = [
            frame(0, 0, 1, 1),
            holder,
            frame(1, 0, 4, 9),
            frame(2, 0, 4, -4),
            frame(3, 0, 4, -4),
        ]
        found = made(play.Pressing(), events)
        assert [(e.ts, e["by"]) for e in found] == [(at(2), ["B2", "B3"])]

    def test_attacks(self) -> None:
        def team(second: float, y: float) -> bt.Event:
            return bt.Event("team_possession", at(second), {"team": "A", "y": y})

        def track(second: float, y: float) -> bt.Event:
            return bt.Event("ball_track", at(second), {"y": y})

        quick = [
            team(0, -20),
            track(1, -10),
            track(6, 15),
            track(7, 20),
            team(20, -20),
            track(30, 15),
        ]
        found = made(play.Attack(), quick)
        assert [(e.ts, e["counter"]) for e in found] == [(at(6), True), (at(30), False)]
        assert told(e for f in found for e in made(play.counter_attack, [f])) == [
            ("counter_attack", 6.0)
        ]


def frames(speeds: Iterable[float], player: str = "A2") -> list[bt.Event]:
    """A frame a tick."""
    return [
        bt.Event("frame", START + (n + 1) * 100_000,
                 {"player": [player], "speed": [v], "x": [1.0 + n], "y": [0.0]})
        for n, v in enumerate(speeds)
    ]  # fmt: skip


class TestRunning:
    def test_runs_and_when_they_are_known(self) -> None:
        found = made(running.Runs(), frames([2.0] * 20 + [7.0] * 15 + [0.1] * 12))
        assert [(e["intensity"], e.ts) for e in found if e.type == "intensity"] == [
            ("trot", at(0)), ("sprint", at(2)), ("stand", at(3.5)),
        ]  # fmt: skip
        runs = [e for e in found if e.type == "run"]
        assert [(e["intensity"], e["since"], e.ts) for e in runs] == [
            ("trot", at(0), at(2)), ("sprint", at(2), at(3.5)), ("stand", at(3.5), at(4.7)),
        ]  # fmt: skip
        assert [e["metres"] for e in runs] == pytest.approx([4.0, 10.5, 0.12])

    def test_a_run_below_a_second_joins_the_next(self) -> None:
        found = made(running.Runs(), frames([2.0] * 20 + [7.0] * 9 + [2.0] * 15))
        runs = [(e["intensity"], e["since"], e.ts) for e in found if e.type == "run"]
        assert runs == [("trot", at(0), at(2)), ("trot", at(2), at(4.4))]

    def test_a_player_who_vanishes_has_ended_his_run(self) -> None:
        early, late = frames([2.0] * 30)[:15], frames([2.0] * 60)[45:]
        runs = [e.ts for e in made(running.Runs(), early + late) if e.type == "run"]
        assert runs == [at(1.5), at(6)]

    def test_sprints(self) -> None:
        found = made(running.Runs(), frames([7.0] * 15))
        told_ = [e for i in found if i.type == "intensity" for e in made(running.sprint, [i])]
        assert told(told_) == [("sprint", 0.0)]

    def test_totals_over_windows(self) -> None:
        def run(end: float, since: float, kind: str, metres: float) -> bt.Event:
            payload = {"player": "A2", "intensity": kind, "since": at(since), "metres": metres}
            return bt.Event("run", at(end), payload)

        found = made(running.RunningTotals(), [run(40, 0, "trot", 80.0), run(90, 40, "low", 150.0)])
        assert found[-1]["1min"] == {"trot": [10.0, 20.0], "low": [50.0, 150.0]}
        assert found[-1]["game"] == {"trot": [40.0, 80.0], "low": [50.0, 150.0]}
        later = made(
            running.RunningTotals(), [run(40, 0, "trot", 80.0), run(1500, 1400, "low", 9.0)]
        )
        assert later[-1]["20min"] == {"low": [100.0, 9.0]}
        assert later[-1]["game"]["trot"] == [40.0, 80.0]


class TestPlaces:
    def test_heat_of_each_second(self) -> None:
        found = made(places.HeatMap(), frames([2.0] * 15))
        assert [(e.ts, e["grid"]) for e in found] == [
            (at(s), grid) for s in (1, 2) for grid in places.GRIDS
        ]
        # 6.56 m a cell: x is 1 to 10 in the first second, of which 6 frames are in the first cell.
        assert (found[0]["cell"], found[0]["share"]) == ([48, 49], [0.6, 0.4])

    def test_the_offside_line_is_told_when_it_moves(self) -> None:
        def frame(second: float, *ys: float) -> bt.Event:
            names = ["A1", "A2", "A3", "B1"]
            return bt.Event("frame", at(second), {"player": names, "y": [*ys, 0.0]})

        events = [frame(1, -33, -20, -10), frame(2, -33, -20.5, -10), frame(3, -33, -18, -10)]
        found = made(places.OffsideLine(), events)
        assert [(e.ts, e["team"], e["y"]) for e in found] == [
            (at(1), "A", -20.0),
            (at(3), "A", -18.0),
        ]


@pytest.mark.parametrize(
    ("detector", "events"),
    [
        (play.Possession, [hit(1, "A2"), hit(2, "B3")]),
        (play.Pass, [hit(1, "A2"), hit(2, "A3", y=9)]),
        (ball.Whistle, [hit(1, "A2"), crossed(2)]),
        (running.Runs, frames([2.0] * 12)),
        (places.OffsideLine, [bt.Event("frame", at(1), {"player": ["A1", "A2"], "y": [1.0, 9.0]})]),
    ],
)
def test_the_contract_with_the_engine(detector: Any, events: list[bt.Event]) -> None:
    check_detector(detector, events)
