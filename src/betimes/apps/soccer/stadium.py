"""Who and what carries a sensor, and where the pitch is.

A real-time locating system identifies sensors only by number. A `Stadium` says what each number
means: a ball, or a leg, an arm or the torso of a person; which person, in which team and role. It
also has the pitch and the goals, in metres. The origin is in the middle of one touch-line: `x` runs
across the pitch, `y` along it, and the goals are at both ends of `y`; `z` is the height.

Look-ups by sensor are arrays, so that a detector can translate a whole column at once:

>>> import numpy as np
>>> sid = np.array([8, 13, 97, 62, 105])
>>> [KINDS[kind] for kind in NUREMBERG.kind_of[sid]]
['ball', 'leg', 'arm', 'leg', 'leg']
>>> [NUREMBERG.persons[number].name for number in NUREMBERG.person_of[sid[1:]]]
['A1', 'A1', 'B1', 'R1']
>>> NUREMBERG.team_of[sid].tolist()
[0, 1, 1, 2, 0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from betimes.model import OptionError

KINDS = ("ball", "leg", "arm", "torso")
"""What a sensor is attached to; `Stadium.kind_of` has the index, -1 for unknown sensors."""
TYPES = ("ball", "player", "referee")
"""Types of events; `Stadium.type_of` has the index, -1 for unknown sensors."""
TEAMS = ("", "A", "B")
"""`Stadium.team_of` has the index."""
NOBODY = -1

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Goal:
    """A goal: between two posts, on a goal line, up to the bar."""

    left: float
    right: float
    y: float
    height: float = 2.44

    @property
    def centre(self) -> float:
        return (self.left + self.right) / 2


@dataclass(frozen=True)
class Pitch:
    """The lines around the pitch and the two goals: the first at the high end of `y`."""

    left: float
    right: float
    bottom: float
    top: float
    goals: tuple[Goal, Goal]

    @property
    def centre(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    def contains(self, x: float, y: float) -> bool:
        """Whether a position is on the pitch, including the lines."""
        return self.left <= x <= self.right and self.bottom <= y <= self.top


@dataclass(frozen=True)
class Person:
    """Someone who wears sensors."""

    name: str
    team: str
    """`"A"`, `"B"`, or empty for referees."""
    role: str
    """`"keeper"`, `"player"`, `"substitute"` (beside the pitch) or `"referee"`."""

    @property
    def plays(self) -> bool:
        """Whether the person takes part in the game and may hit the ball."""
        return self.role in ("keeper", "player")


@dataclass(frozen=True)
class Stadium:
    """Pitch, persons and sensors."""

    name: str
    pitch: Pitch
    persons: tuple[Person, ...]
    sensors: Mapping[int, tuple[str, int]]
    """By number: the kind (one of `KINDS`) and the index of the person, `NOBODY` for balls."""
    halves: tuple[tuple[int, int], ...]
    """Start and end of each half, in microseconds of the recording."""
    first_goal: str = "B"
    """The team that defends the first goal in the first half; teams change sides every half."""

    def __post_init__(self) -> None:
        for sid, (kind, person) in self.sensors.items():
            known = person == NOBODY if kind == "ball" else 0 <= person < len(self.persons)
            if sid < 0 or kind not in KINDS or not known:
                raise OptionError(
                    f"expected a sensor number, 0 or more, with a kind of {KINDS} and the index "
                    f"of a person (-1 for balls), got {sid}: {(kind, person)!r}"
                )

    @cached_property
    def balls(self) -> tuple[int, ...]:
        """The numbers of the balls."""
        return tuple(sid for sid, (kind, _) in self.sensors.items() if kind == "ball")

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The index of a person by name."""
        return {person.name: number for number, person in enumerate(self.persons)}

    @cached_property
    def teams(self) -> Mapping[str, str]:
        """The team of a person by name."""
        return {person.name: person.team for person in self.persons}

    @cached_property
    def kind_of(self) -> Codes:
        """By sensor: the index into `KINDS`, or -1."""
        return self._column({s: KINDS.index(kind) for s, (kind, _) in self.sensors.items()}, -1)

    @cached_property
    def person_of(self) -> Codes:
        """By sensor: the index into `persons`, or -1 for balls and unknown sensors."""
        return self._column({s: person for s, (_, person) in self.sensors.items()}, NOBODY)

    @cached_property
    def type_of(self) -> Codes:
        """By sensor: the index into `TYPES`, or -1."""
        types = {}
        for sid, (kind, person) in self.sensors.items():
            referee = kind != "ball" and self.persons[person].role == "referee"
            types[sid] = 0 if kind == "ball" else 2 if referee else 1
        return self._column(types, -1)

    @cached_property
    def team_of(self) -> Codes:
        """By sensor: the index into `TEAMS`; 0 for balls, referees and substitutes."""
        teams = self.team_of_person
        return self._column(
            {s: int(teams[person]) for s, (kind, person) in self.sensors.items() if kind != "ball"},
            0,
        )

    @cached_property
    def team_of_person(self) -> Codes:
        """By index of a person: the index into `TEAMS`; 0 for those who do not play."""
        codes = [TEAMS.index(person.team) if person.plays else 0 for person in self.persons]
        return np.array(codes, dtype=np.int32)

    def half(self, ts: int) -> int:
        """The half that a time belongs to, from 0; a break belongs to the half before."""
        begun = [number for number, (begin, _) in enumerate(self.halves) if begin <= ts]
        return begun[-1] if begun else 0

    def defended(self, team: str, ts: int = 0) -> Goal:
        """The goal that a team defends at a time."""
        first = (team == self.first_goal) == (self.half(ts) % 2 == 0)
        return self.pitch.goals[0 if first else 1]

    def attacked(self, team: str, ts: int = 0) -> Goal:
        """The goal that a team attacks at a time.

        >>> NUREMBERG.attacked("A").y, NUREMBERG.attacked("A", 13_086_639_146).y
        (33.941, -33.968)
        """
        return self.defended("B" if team == "A" else "A", ts)

    def _column(self, values: Mapping[int, int], missing: int) -> Codes:
        column = np.full(max(self.sensors) + 1, missing, dtype=np.int32)
        column[list(values)] = list(values.values())
        return column


def _nuremberg() -> Stadium:
    """The public recording: two teams of eight, legs of all and arms of the keepers."""
    legs = {
        "A": [(13, 14), (47, 16), (49, 88), (19, 52), (53, 54), (23, 24), (57, 58), (59, 28)],
        "B": [(61, 62), (63, 64), (65, 66), (67, 68), (69, 38), (71, 40), (73, 74), (75, 44)],
    }
    arms = {"A1": (97, 98), "B1": (99, 100)}
    persons: list[Person] = []
    sensors: dict[int, tuple[str, int]] = dict.fromkeys((4, 8, 10, 12), ("ball", NOBODY))
    for team, pairs in legs.items():
        for number, pair in enumerate(pairs, start=1):
            name = f"{team}{number}"
            for sid in pair:
                sensors[sid] = ("leg", len(persons))
            for sid in arms.get(name, ()):
                sensors[sid] = ("arm", len(persons))
            persons.append(Person(name, team, "keeper" if number == 1 else "player"))
    sensors |= {sid: ("leg", len(persons)) for sid in (105, 106)}
    persons.append(Person("R1", "", "referee"))
    goals = Goal(22.5785, 29.8985, 33.941), Goal(22.56, 29.88, -33.968)
    return Stadium(
        "nuremberg",
        Pitch(0.0, 52.483, -33.96, 33.965, goals),
        tuple(persons),
        sensors,
        halves=((10_753_295_594, 12_557_295_594), (13_086_639_146, 14_879_639_146)),
    )


def _simulated() -> Stadium:
    """The papers' 144 transmitters, on the pitch of the public recording.

    Three balls at 2,000 positions per second and 141 other sensors at 200 make 34,200 per second,
    or 2.22 million in the papers' 65 seconds. The 141 are: both legs and both arms of eleven
    players and five substitutes per team and of three referees (35 people), and one at the torso of
    the first referee.
    """
    squad = [
        Person(f"{team}{number}", team, "keeper" if number == 1 else "player")
        for team in "AB" for number in range(1, 12)
    ]  # fmt: skip
    squad += [Person(f"{team}{number}", team, "substitute")
              for team in "AB" for number in range(12, 17)]  # fmt: skip
    squad += [Person(f"R{number}", "", "referee") for number in (1, 2, 3)]
    sensors: dict[int, tuple[str, int]] = dict.fromkeys((1, 2, 3), ("ball", NOBODY))
    for index in range(len(squad)):
        for kind in ("leg", "leg", "arm", "arm"):
            sensors[len(sensors) + 1] = (kind, index)
    sensors[len(sensors) + 1] = ("torso", next(i for i, p in enumerate(squad) if p.name == "R1"))
    goals = Goal(22.58, 29.90, 33.95), Goal(22.58, 29.90, -33.95)
    return Stadium(
        "simulated",
        Pitch(0.0, 52.48, -33.95, 33.95, goals),
        tuple(squad),
        sensors,
        halves=((0, 2**62),),
    )


NUREMBERG = _nuremberg()
"""The stadium of the public recording of the 2013 challenge."""

SIMULATED = _simulated()
"""The stadium of the simulator: 144 transmitters, as in the papers."""
