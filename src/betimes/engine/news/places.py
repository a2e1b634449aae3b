"""Places: where events belong in the order.

The places of outputs are written as tuples only if somebody asks: most are never compared, and
those of outputs whose causes are input events compare as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

Place = tuple[int, int, Any]
"""The position of an event in the order: (ts, rank, tie).

Input events have rank 0 and their arrival number as tie. The rank of a derived event is the level
of its detector; its tie is the detector's name, the place of its cause and its number among the
cause's outputs (for a per-batch detector, the key comes before these). So events of the same time
have one order, whatever order they arrived in. A deadline comes before all events of its time, with
the rank `TIME`; its tie is the key.
"""
TIME = -1

Places = list[Place] | Callable[[], list[Place]]
"""Places, or how to find them out: most are never asked for."""
Origin = tuple[int, str]
"""The level and the name of a detector."""
_PLAIN = 3
"""How many parts the tie of a derived event has, if there is no key among them."""


def spelled(places: Places) -> list[Place]:
    """The places themselves."""
    return places if isinstance(places, list) else places()


def arrived_at(ts: Ints, arrivals: Ints) -> list[Place]:
    """The places of input events."""
    return [(when, 0, at) for when, at in zip(ts.tolist(), arrivals.tolist(), strict=True)]


def made_at(ts: Ints, origin: Origin, causes: list[Place], numbers: Ints) -> list[Place]:
    """The places of what a detector made; `numbers` count the outputs of each cause."""
    level, name = origin
    columns = zip(ts.tolist(), causes, numbers.tolist(), strict=True)
    return [(when, level, (name, cause, n)) for when, cause, n in columns]


def origin_of(places: Sequence[Place]) -> Origin | None:
    """The detector that made all of these; None if there are several, or one with keys in ties."""
    found = {(level, tie[0], len(tie)) for _, level, tie in places}
    if len(found) != 1:
        return None
    ((level, name, length),) = found
    return (level, name) if length == _PLAIN else None
