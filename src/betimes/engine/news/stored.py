"""Outputs from a checkpoint, checked: what they consist of, and whether their places are places."""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.model.event import Event
from betimes.model.payloads import read
from betimes.model.stored import Int, Place, array, batch, events, require, shaped

_WHAT = "what detectors made"
_Row = tuple[str, Event, Place, Place, str, Int, Int, Int, Int, Any, Any, Int]
_Columns = tuple[
    list[str], np.ndarray, tuple[np.ndarray, list[str], Any], list[Place], list[Place], list[str],
    list[Any] | None, Any,
]  # fmt: skip
_NUMBERS = 7
"""Rows of the numbers of outputs."""


def rows(kept: Any) -> list[tuple[Any, ...]]:
    """The fields of outputs that were made one by one."""
    found: list[tuple[Any, ...]] = shaped(kept, list[_Row], _WHAT)
    events([row[1] for row in found], _WHAT)
    _check_places([row[2] for row in found], [row[3] for row in found])
    return found


def columns(kept: Any) -> list[Any]:
    """The columns of outputs: identities, numbers, events, and the rest as it was."""
    ids, numbers, (codes, types, payload), *rest = shaped(kept, _Columns, _WHAT)
    array(numbers, np.int64, (_NUMBERS, len(ids)), _WHAT)
    require(isinstance(rest[-1], list | np.ndarray), f"{_WHAT} has no keys")
    same = all(len(each) == len(ids) for each in rest if each is not None)
    require(same, f"{_WHAT} is incomplete")
    _check_places(rest[0], rest[1])
    return [ids, numbers, batch(numbers[0], codes, types, read(payload), _WHAT), *rest]


def _check_places(places: list[Place], causes: list[Place]) -> None:
    """Refuse places that cannot be compared with each other."""
    require(len({_length(tie) for _, _, tie in places}) <= 1, f"{_WHAT} has no place")
    for (_, _, tie), cause in zip(places, causes, strict=True):
        name, *_, mine, number = tie
        fine = type(name) is str and mine == cause and type(number) is int
        require(fine and _is_place(cause), f"{_WHAT} has no place")


def _length(tie: Any) -> int:
    require(type(tie) is tuple and len(tie) > 2, f"{_WHAT} has no place")
    return len(tie)


def _is_place(place: Any) -> bool:
    """Whether it is the place of an event of the input, of a deadline, or of an output."""
    if type(place) is not tuple or len(place) != 3:
        return False
    ts, rank, tie = place
    if type(ts) is not int or type(rank) is not int:
        return False
    if rank <= 0:
        return type(tie) is (int if rank == 0 else bytes)
    return type(tie) is tuple and len(tie) > 2 and type(tie[0]) is str and _is_place(tie[-2])
