"""What the detectors of the lowest level know about the stadium: who wears which sensor.

Class attributes of a detector are its configuration; attributes of the object are its state. So
`configured` makes a class for a stadium, and snapshots contain only what changes.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from betimes.apps.soccer.stadium import Stadium
from betimes.model import EventBatch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Kind = TypeVar("Kind", bound=type)

TOUCHING = ("leg", "arm", "torso")
"""Kinds of sensors that show where a person is."""


@dataclass(frozen=True)
class Sensors:
    """Tables for `look_up`: numbers of balls, legs and limbs; -1 if a sensor is something else."""

    stadium: Stadium

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The players, by number."""
        return tuple(person.name for person in self.stadium.persons if person.plays)

    @cached_property
    def balls(self) -> Ints:
        """The number of the ball."""
        return self._table({sid: number for number, sid in enumerate(self.stadium.balls)})

    @cached_property
    def legs(self) -> Ints:
        """Twice the number of the player, and one more for his second leg."""
        return self._table({sid: 2 * person + nth for sid, person, nth in self._worn(("leg",))})

    @cached_property
    def limbs(self) -> Ints:
        """All sensors of players, numbered consecutively."""
        worn = self._worn(TOUCHING)
        return self._table({sid: number for number, (sid, _, _) in enumerate(worn)})

    @cached_property
    def person_of(self) -> Ints:
        """The player of each limb."""
        return np.array([person for _, person, _ in self._worn(TOUCHING)], np.int64)

    def _worn(self, kinds: Sequence[str]) -> list[tuple[int, int, int]]:
        """Sensors of these kinds: sensor, number of the player, index among his sensors."""
        number = {name: n for n, name in enumerate(self.names)}
        worn: dict[str, int] = {}
        found = []
        for sid, (kind, person) in sorted(self.stadium.sensors.items()):
            name = "" if kind not in kinds else self.stadium.persons[person].name
            if name in number:
                found.append((sid, number[name], worn.get(name, 0)))
                worn[name] = worn.get(name, 0) + 1
        return found

    def _table(self, values: dict[int, int]) -> Ints:
        table = np.full(max(self.stadium.sensors) + 3, -1, np.int64)
        for sid, value in values.items():
            table[sid + 1] = value
        return table


def look_up(table: Ints, sids: npt.NDArray[Any]) -> Ints:
    """The table's values for sensors; -1 for those that the stadium does not know.

    The first and the last value of a table are -1, for whatever is outside.
    """
    return table.take(sids + 1, mode="clip")


def columns_of(batch: EventBatch, names: Sequence[str]) -> Floats:
    """Payload columns as the rows of one array."""
    columns = np.empty((len(names), len(batch)))
    for row, name in enumerate(names):
        columns[row] = batch.numbers(name)
    return columns


def configured(kind: Kind, **configuration: Any) -> Kind:
    """A class like `kind` with other class attributes: the same detector for another stadium."""
    make: Any = _Configured
    return cast("Kind", make(kind.__name__, (kind,), {"__doc__": kind.__doc__, **configuration}))


class _Configured(type):
    """No module has these classes by name, so they are pickled as what they were made from."""


def _as_made(cls: _Configured) -> tuple[Any, ...]:
    own = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
    return partial(configured, cls.__bases__[0], **own), ()


copyreg.pickle(_Configured, _as_made)
