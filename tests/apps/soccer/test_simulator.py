"""The simulated match: the same from a seed, as people and balls move, and true to its truth."""

from __future__ import annotations

import json
import math
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from betimes.apps.soccer.recording import read_recording, write_recording
from betimes.apps.soccer.simulator import Ball, is_on_goal, is_shot, projected, simulate
from betimes.apps.soccer.simulator.truth import Chronicle, Crossing, Hit
from betimes.apps.soccer.stadium import NUREMBERG, SIMULATED, Goal, Stadium
from betimes.model import OptionError
from tests.apps.soccer.matches import match, positions

Array = np.ndarray[Any, Any]
SECONDS, SEED = 30.0, 1
PITCH = SIMULATED.pitch


@cache
def tracks(seconds: float = SECONDS, seed: int = SEED) -> dict[int, dict[str, Array]]:
    """By sensor: its columns."""
    table = positions(seconds, seed)
    names = ["ts", "x", "y", "z", "speed", "acceleration", "vx", "vy", "vz"]
    columns = {name: table[name].to_numpy() for name in names}
    sid = table["sid"].to_numpy()
    order = np.argsort(sid, kind="stable")
    numbers, starts = np.unique(sid[order], return_index=True)
    rows = np.split(order, starts[1:])
    return {
        int(number): {name: column[own] for name, column in columns.items()}
        for number, own in zip(numbers, rows, strict=True)
    }


def happened(kind: str) -> list[dict[str, Any]]:
    truth = match(SECONDS, SEED).truth
    return truth.filter(pc.equal(truth["kind"], pa.scalar(kind))).to_pylist()


def peaks(ball: int) -> list[tuple[int, int]]:
    """First and last time of each stretch of 55 m/s² or more, gaps of 3 ms do not count."""
    track = tracks()[ball]
    times = track["ts"][track["acceleration"] >= 55]
    if not len(times):
        return []
    groups = np.split(times, np.flatnonzero(np.diff(times) > 3_000) + 1)
    return [(int(group[0]), int(group[-1])) for group in groups]


def place(sensor: int, ts: int) -> Array:
    """Where a sensor is: its report that is nearest in time."""
    track = tracks()[sensor]
    row = min(int(np.searchsorted(track["ts"], ts)), len(track["ts"]) - 1)
    if row and ts - track["ts"][row - 1] < track["ts"][row] - ts:
        row -= 1
    return np.array([track[axis][row] for axis in "xyz"])


def distances(ball: int, ts: int) -> dict[str, float]:
    """By player: how far his nearest sensor is from the ball."""
    at = place(ball, ts)
    found: dict[str, float] = {}
    for sid, (kind, number) in SIMULATED.sensors.items():
        if kind != "ball" and SIMULATED.persons[number].plays:
            name = SIMULATED.persons[number].name
            away = float(np.linalg.norm(place(sid, ts) - at))
            found[name] = min(found.get(name, math.inf), away)
    return found


def test_the_same_seed_gives_the_same_match() -> None:
    once, again = (pa.concat_tables(simulate(3.0, seed=4).tables()) for _ in range(2))
    assert once.equals(again)
    assert not once.equals(pa.concat_tables(simulate(3.0, seed=5).tables()))


def test_the_cut_does_not_matter() -> None:
    whole = simulate(2.5, seed=4)
    large, small = (pa.concat_tables(whole.tables(rows)) for rows in (10**9, 7_001))
    assert large.equals(small)
    assert all(len(table) == 7_001 for table in list(whole.tables(7_001))[:-1])


def test_a_shorter_match_is_the_beginning_of_a_longer_one() -> None:
    short, long = (pa.concat_tables(simulate(s, seed=4).tables()) for s in (1.7, 3.0))
    assert short.equals(long.slice(0, len(short)))
    assert short["ts"].to_numpy().max() < 1_700_000


def test_truth_alone_is_the_truth_of_the_positions() -> None:
    read = simulate(6.0, seed=9)
    for _ in read.tables():
        pass
    assert read.truth.equals(simulate(6.0, seed=9).truth)


def test_positions_are_in_order_at_the_papers_rates() -> None:
    table = positions(SECONDS, SEED)
    assert len(table) == round(SECONDS * 34_200)
    assert (np.diff(table["ts"].to_numpy()) >= 0).all()
    for sid, track in tracks().items():
        gap = 500 if sid in SIMULATED.balls else 5_000
        assert set(np.diff(track["ts"]).tolist()) == {gap}


def test_the_snippet_of_the_papers_has_everything() -> None:
    kinds = match().truth["kind"].to_pylist()
    for kind in ("shot", "shot_on_goal", "goal", "blocked_shot", "save", "throw_in", "corner",
                 "goal_kick", "kick_off", "out", "double_pass", "unsuccessful_pass"):  # fmt: skip
        assert kinds.count(kind) >= 1, kind
    assert kinds.count("hit") >= 40
    assert kinds.count("pass") >= 15
    assert kinds.count("shot") >= 4


def test_people_run_like_people() -> None:
    worn: dict[int, list[int]] = {}
    for sid, (_, number) in SIMULATED.sensors.items():
        if number >= 0:
            worn.setdefault(number, []).append(sid)
    for number, sids in worn.items():
        paths = [np.column_stack([tracks()[sid]["x"], tracks()[sid]["y"]]) for sid in sids]
        body = np.mean(paths, axis=0)
        steps = body[:: 200 // 4]  # four a second: what noise and strides do is small by then
        velocity = np.diff(steps, axis=0) * 4
        assert np.hypot(*velocity.T).max() < 9.6, SIMULATED.persons[number]
        assert np.hypot(*np.diff(velocity, axis=0).T).max() * 4 < 11.0, SIMULATED.persons[number]


def test_legs_swing_while_running_and_rest_while_standing() -> None:
    apart, pace = [], []
    for number, person in enumerate(SIMULATED.persons):
        if person.role == "player":
            legs = [
                s for s, (kind, who) in SIMULATED.sensors.items() if (kind, who) == ("leg", number)
            ]
            left, right = (tracks()[sid] for sid in legs)
            apart.append(np.hypot(left["x"] - right["x"], left["y"] - right["y"]))
            pace.append((left["speed"] + right["speed"]) / 2)
    wide, fast = np.concatenate(apart), np.concatenate(pace)
    assert np.percentile(wide[fast > 6], 90) > 0.5
    assert np.percentile(wide[fast < 0.5], 50) < 0.4


def test_balls_move_without_jumps_and_as_reported() -> None:
    for ball in SIMULATED.balls:
        track = tracks()[ball]
        path = np.column_stack([track[axis] for axis in "xyz"])
        jumps = np.linalg.norm(np.diff(path, axis=0), axis=1)
        assert jumps.max() < 0.02 + 0.05, "40 m/s are 2 cm a tick, noise is 5 mm"
        reported = np.column_stack([track[axis] for axis in ("vx", "vy", "vz")])
        moved = (path[200:] - path[:-200]) / 0.1
        mean = (np.cumsum(reported, axis=0)[200:] - np.cumsum(reported, axis=0)[:-200]) / 200
        assert np.abs(moved - mean).max() < 0.6
        assert track["speed"].max() < 35


def test_every_hit_is_a_short_peak_and_the_nearest_player_made_it() -> None:
    hits = happened("hit")
    assert len(hits) > 20
    for hit in hits:
        begun = [peak for peak in peaks(hit["ball"]) if abs(peak[0] - hit["ts"]) <= 1_000]
        assert len(begun) == 1, hit
        assert begun[0][1] - begun[0][0] <= 5_000
        near = sorted((away, name) for name, away in distances(hit["ball"], hit["ts"]).items())
        assert near[0][1] == hit["player"]
        assert near[0][0] < 0.5
        assert near[1][0] - near[0][0] > 0.15, "nobody else is as near"


def test_other_peaks_have_nobody_near() -> None:
    bounces = 0
    for ball in SIMULATED.balls:
        hits = [hit["ts"] for hit in happened("hit") if hit["ball"] == ball]
        for begin, _ in peaks(ball):
            if not any(abs(begin - ts) <= 1_000 for ts in hits):
                bounces += 1
                assert min(distances(ball, begin).values()) > 1.1
                assert place(ball, begin)[2] < 0.05, "it is on the ground"
    assert bounces >= 2


def test_passes_follow_from_hits() -> None:
    """The definition, once more and in other words: from the rows of hits and interruptions."""
    hits = sorted(happened("hit"), key=lambda row: row["ts"])
    dead = [row["ts"] for kind in ("out", "goal") for row in happened(kind)]
    shots = {row["ts"] for row in happened("shot")}
    wanted: dict[str, set[Any]] = {"pass": set(), "unsuccessful_pass": set()}
    for first, second in pairwise(hits):
        stopped = any(first["ts"] < ts < second["ts"] for ts in dead)
        apart = math.hypot(first["x"] - second["x"], first["y"] - second["y"])
        if stopped or first["player"] == second["player"] or first["ts"] in shots or apart < 3:
            continue
        kind = "pass" if first["team"] == second["team"] else "unsuccessful_pass"
        wanted[kind].add((first["ts"], second["ts"], first["player"], second["player"]))
    for kind, rows in wanted.items():
        told = {(r["ts"], r["until"], r["player"], r["other"]) for r in happened(kind)}
        assert told == rows
    assert wanted["pass"]


def test_shots_on_goal_follow_from_the_ball() -> None:
    """The challenge's definition, worked out from what the ball's sensor reports."""
    told = {row["ts"] for row in happened("shot_on_goal")}
    found = set()
    for hit in happened("hit"):
        track = tracks()[hit["ball"]]
        after = (track["ts"] >= hit["ts"] + 5_000) & (track["ts"] < hit["ts"] + 10_000)
        x, y, z, vx, vy, vz = (float(track[n][after].mean()) for n in ("x", "y", "z", "vx", "vy",
                                                                      "vz"))  # fmt: skip
        goal = SIMULATED.attacked(hit["team"])
        time = (goal.y - y) / vy if vy else -1.0
        between = goal.left <= x + vx * time <= goal.right
        if 0 < time <= 1.5 and between and z + vz * time - 9.81 / 2 * time**2 <= goal.height:
            found.add(hit["ts"])
    assert found == told
    assert told


def test_goals_and_outs_are_where_the_ball_crosses_a_line() -> None:
    for row in happened("goal") + happened("out"):
        before, after = (
            place(row["ball"], row["ts"] - 40_000),
            place(row["ball"], row["ts"] + 40_000),
        )
        assert PITCH.contains(before[0], before[1])
        assert not PITCH.contains(after[0], after[1])
        if row["kind"] == "goal":
            goal = SIMULATED.attacked(row["team"])
            assert goal.left < after[0] < goal.right
            assert after[2] < goal.height
            assert abs(after[1]) > abs(goal.y)
        else:
            assert (row["other"] == "side") == (abs(after[1]) < PITCH.top)


def test_after_an_interruption_play_goes_on_as_the_rules_say() -> None:
    kinds = {row["ts"]: row["kind"] for kind in ("throw_in", "corner", "goal_kick", "kick_off")
             for row in happened(kind)}  # fmt: skip
    hits = sorted(happened("hit"), key=lambda row: row["ts"])
    for row in happened("goal") + happened("out"):
        following = next((hit for hit in hits if hit["ts"] > row["ts"]), None)
        if following is None:
            continue
        last = next(hit for hit in reversed(hits) if hit["ts"] < row["ts"])
        kind = kinds[following["ts"]]
        if row["kind"] == "goal":
            assert kind == "kick_off"
            assert following["team"] != row["team"]
        elif row["other"] == "side":
            assert kind == "throw_in"
            assert following["team"] != last["team"]
        else:
            own = (row["y"] > 0) == (SIMULATED.defended(last["team"]).y > 0)
            assert kind == ("corner" if own else "goal_kick")
            assert following["team"] != last["team"]


def test_possessions_do_not_overlap() -> None:
    rows = sorted(happened("possession"), key=lambda row: row["ts"])
    assert all(row["ts"] < row["until"] for row in rows)
    assert all(first["until"] <= second["ts"] for first, second in pairwise(rows))


def test_a_simulated_recording_reads_as_it_was(tmp_path: Path) -> None:
    table = pa.concat_tables(simulate(1.0, seed=2).tables())
    write_recording([table], tmp_path / "match.csv")
    back = pa.concat_tables(read_recording(tmp_path / "match.csv", SIMULATED))
    assert back.equals(table)


def test_truth_is_written_a_line_a_row(tmp_path: Path) -> None:
    played = simulate(5.0, seed=2)
    played.write_truth(tmp_path / "truth.jsonl")
    lines = (tmp_path / "truth.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == played.truth.to_pylist()


def test_other_stadiums_can_be_played_in() -> None:
    played = simulate(8.0, seed=1, stadium=NUREMBERG)
    table = pa.concat_tables(played.tables())
    assert set(table["sid"].to_pylist()) == set(NUREMBERG.sensors)
    assert "pass" in played.truth["kind"].to_pylist()


@pytest.mark.parametrize("options", [{"seconds": 0.0}, {"seconds": -3.0}, {"seconds": math.nan},
                                     {"seed": -1}])  # fmt: skip
def test_impossible_matches_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="expected se"):
        simulate(**options)


GOAL = Goal(22.0, 30.0, 34.0)


@pytest.mark.parametrize(
    ("ball", "shot", "on_goal"),
    [
        (Ball(26, 14, 0, 0, 20, 3), True, True),
        (Ball(26, 14, 0, 0, 13, 3), False, False),  # too late
        (Ball(26, 14, 0, 6, 20, 3), True, False),  # beside the post
        (Ball(26, 14, 0, 9, 20, 3), False, False),  # far beside it
        (Ball(26, 14, 0, 0, 20, 9), True, False),  # over the bar
        (Ball(26, 14, 0, 0, 20, 14), False, False),  # far over it
        (Ball(26, 28, 0, 0, 5, 0), True, True),  # slow, but near
        (Ball(20, 28, 0, 0, 5, 0), False, False),  # slow and wide is no shot
        (Ball(26, 14, 0, 0, -20, 3), False, False),  # the other way
        (Ball(26, 14, 0, 1, 0, 0), False, False),  # never there
    ],
)
def test_what_is_a_shot(ball: Ball, shot: bool, on_goal: bool) -> None:
    assert is_shot(ball, GOAL) == shot
    assert is_on_goal(ball, GOAL) == on_goal


def test_a_projected_path_falls_and_then_rolls() -> None:
    high = projected(Ball(26, 24, 0, 1, 10, 6), GOAL)
    assert high is not None
    assert (high.time, high.x, high.z) == pytest.approx((1.0, 27.0, 6 - 9.81 / 2))
    low = projected(Ball(26, 24, 0, 1, 10, 3), GOAL)
    assert low is not None
    assert low.z == 0


class Story:
    """Facts told by hand."""

    def __init__(self, stadium: Stadium = SIMULATED) -> None:
        self.chronicle = Chronicle(stadium)
        self.numbers = stadium.numbers
        self.now = 0

    def hit(self, name: str, x: float, y: float, vx: float = 0.0, vy: float = 0.0,
            after: float = 1.0) -> Story:  # fmt: skip
        self.now += round(after * 1e6)
        at = Ball(x, y, 0.0)
        self.chronicle.tell([Hit(self.now, self.numbers[name], 1, at, Ball(x, y, 0.0, vx, vy))])
        return self

    def over(self, end: int | None, goal: bool = False) -> Story:
        self.now += 500_000
        self.chronicle.tell([Crossing(self.now, 1, Ball(0, 0, 0), end, goal)])
        return self

    def told(self, *kinds: str) -> list[tuple[str, str, str | None]]:
        rows = self.chronicle.finished().to_pylist()
        return [(r["kind"], r["player"], r["other"]) for r in rows if r["kind"] in kinds]


def test_double_passes_by_definition() -> None:
    quick = Story().hit("A2", 20, 0).hit("A3", 30, 0).hit("A3", 31, 0).hit("A2", 25, 5)
    assert quick.told("double_pass") == [("double_pass", "A2", "A3")]
    slow = Story().hit("A2", 20, 0).hit("A3", 30, 0).hit("A3", 31, 0, after=4.5).hit("A2", 25, 5)
    assert slow.told("double_pass") == []
    other = Story().hit("A2", 20, 0).hit("A3", 30, 0).hit("B4", 31, 0).hit("A3", 25, 5)
    assert other.hit("A2", 10, 5).told("double_pass") == []
    interrupted = Story().hit("A2", 20, 0).hit("A3", 30, 0).over(None).hit("A3", 0, 0)
    assert interrupted.hit("A2", 25, 5).told("double_pass") == []


def test_blocks_saves_and_goals_by_definition() -> None:
    goal = SIMULATED.attacked("A").y
    shot = (26.0, goal - 15, 0.0, 20.0)
    blocked = Story().hit("A9", *shot).hit("B3", 26, goal - 10, after=0.2)
    assert blocked.told("blocked_shot", "save") == [("blocked_shot", "B3", "A9")]
    saved = Story().hit("A9", *shot).hit("B1", 26, goal - 1, after=0.7)
    assert saved.told("blocked_shot", "save") == [("save", "B1", "A9")]
    assert saved.told("pass", "unsuccessful_pass") == []
    mate = Story().hit("A9", *shot).hit("A8", 26, goal - 5, after=0.5)
    assert mate.told("blocked_shot", "save", "pass") == []
    late = Story().hit("A9", *shot).hit("B1", 26, goal - 1, after=2.1)
    assert late.told("blocked_shot", "save") == []
    scored = Story().hit("A9", *shot).over(0, goal=True).hit("B9", 26, 0)
    assert scored.told("goal", "kick_off") == [("goal", "A9", None), ("kick_off", "B9", None)]
    own = Story().hit("B3", 26, goal - 3, 0, 9).over(0, goal=True)
    assert own.told("goal") == [("goal", "B3", None)]
    assert own.chronicle.finished()["team"].to_pylist()[-1] == "A"


def test_restarts_by_definition() -> None:
    goal = SIMULATED.attacked("A").y
    corner = Story().hit("B3", 40, goal - 3).over(0).hit("A7", 52, goal - 0.5)
    assert corner.told("corner", "goal_kick") == [("corner", "A7", None)]
    kick = Story().hit("A9", 40, goal - 3).over(0).hit("B1", 30, goal - 5)
    assert kick.told("corner", "goal_kick") == [("goal_kick", "B1", None)]
    throw = Story().hit("A9", 3, 0).over(None).hit("B4", 0.2, 0)
    assert throw.told("throw_in", "out") == [("out", "A9", "side"), ("throw_in", "B4", None)]
    centre = SIMULATED.pitch.centre
    assert Story().hit("A9", *centre).told("kick_off") == [("kick_off", "A9", None)]
    assert Story().hit("A9", 3, 3).told("kick_off") == []
