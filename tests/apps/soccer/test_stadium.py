"""Who wears which sensor, and which goal is whose."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest

from betimes.apps.soccer.stadium import (
    KINDS,
    NOBODY,
    NUREMBERG,
    SIMULATED,
    TEAMS,
    TYPES,
    Goal,
    Person,
    Pitch,
    Stadium,
)
from betimes.model import OptionError

BOTH = pytest.mark.parametrize("stadium", [NUREMBERG, SIMULATED], ids=lambda stadium: stadium.name)


@BOTH
def test_look_ups_agree_with_the_sensors(stadium: Stadium) -> None:
    for sid, (kind, person) in stadium.sensors.items():
        assert KINDS[stadium.kind_of[sid]] == kind
        assert stadium.person_of[sid] == person
        if person == NOBODY:
            assert TYPES[stadium.type_of[sid]] == "ball"
            assert stadium.team_of[sid] == 0
            continue
        wearer = stadium.persons[person]
        referee = wearer.role == "referee"
        assert TYPES[stadium.type_of[sid]] == ("referee" if referee else "player")
        assert TEAMS[stadium.team_of[sid]] == (wearer.team if wearer.plays else "")


@BOTH
def test_unknown_sensors_are_marked(stadium: Stadium) -> None:
    unknown = [sid for sid in range(len(stadium.kind_of)) if sid not in stadium.sensors]
    assert unknown
    assert set(stadium.kind_of[unknown].tolist()) == {-1}
    assert set(stadium.type_of[unknown].tolist()) == {-1}


@BOTH
def test_goals_stand_on_the_lines(stadium: Stadium) -> None:
    pitch = stadium.pitch
    top, bottom = pitch.goals
    assert abs(top.y - pitch.top) < 0.05
    assert abs(bottom.y - pitch.bottom) < 0.05
    assert all(abs(goal.right - goal.left - 7.32) < 1e-6 for goal in pitch.goals)
    assert all(abs(goal.centre - pitch.centre[0]) < 0.1 for goal in pitch.goals)


def test_nuremberg_has_the_sensors_of_the_recording() -> None:
    kinds = Counter(kind for kind, _ in NUREMBERG.sensors.values())
    assert kinds == {"ball": 4, "leg": 34, "arm": 4}
    assert set(NUREMBERG.balls) == {4, 8, 10, 12}
    assert [person.name for person in NUREMBERG.persons if person.role == "keeper"] == ["A1", "B1"]


def test_the_simulated_one_has_the_papers_144_at_their_rate() -> None:
    assert len(SIMULATED.sensors) == 144
    balls = len(SIMULATED.balls)
    a_second = 2_000 * balls + 200 * (144 - balls)
    assert a_second * 65 == 2_223_000
    players = [person for person in SIMULATED.persons if person.plays]
    assert Counter(person.team for person in players) == {"A": 11, "B": 11}


def test_sides_change_with_the_half() -> None:
    first, second = (begin for begin, _ in NUREMBERG.halves)
    for team in "AB":
        assert NUREMBERG.defended(team, first) == NUREMBERG.attacked(team, second)
        assert NUREMBERG.defended(team, first) != NUREMBERG.attacked(team, first)
    assert NUREMBERG.half(0) == NUREMBERG.half(first) == NUREMBERG.half(second - 1) == 0
    assert NUREMBERG.half(second) == 1


def test_a_stadium_travels_between_processes() -> None:
    SIMULATED.team_of.sum()  # look-ups that exist already travel too
    again = pickle.loads(pickle.dumps(SIMULATED))
    assert again == SIMULATED
    assert np.array_equal(again.team_of, SIMULATED.team_of)


@pytest.mark.parametrize("sensor", [(1, ("head", 0)), (1, ("leg", 5)), (1, ("ball", 0)),
                                    (-1, ("leg", 0))])  # fmt: skip
def test_impossible_sensors_are_refused(sensor: tuple[int, tuple[str, int]]) -> None:
    goal = Goal(1.0, 2.0, 3.0)
    pitch = Pitch(0.0, 3.0, -3.0, 3.0, (goal, goal))
    with pytest.raises(OptionError, match="expected a sensor number"):
        Stadium("odd", pitch, (Person("A1", "A", "keeper"),), dict([sensor]), ((0, 1),))
