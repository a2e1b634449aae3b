"""The event: something that happened, as a detector sees it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from betimes.model.errors import EventError

PSEUDO = "betimes.pseudo"
"""Type of the events with which an ordering unit tells the units above it that its slack has grown.
Their delay is measured like that of any other event, and they never reach a detector."""

TICK = "betimes.tick"
"""Type of the events that let time pass while nothing happens. They move every clock, are not used
to learn delays, and never reach a detector."""


RESERVED = frozenset({PSEUDO, TICK})
"""Types with which betimes speaks to itself. No input may have them."""


def refuse_reserved(types: Iterable[str]) -> None:
    """Refuse events of such types from outside."""
    for name in RESERVED.intersection(types):
        raise EventError(
            f"expected other types than {', '.join(sorted(RESERVED))}, which are betimes' own, got "
            f"an event of type {name!r}; rename the type, or filter such events out"
        )


OWN = "_betimes_"
"""Columns whose names begin with this were added by betimes. No detector sees them."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """A `type`, the time `ts` at which it occurred (microseconds), and a payload.

    >>> hit = Event("hit", 1_500_000, {"player": "P7"})
    >>> hit.type, hit.ts, hit["player"]
    ('hit', 1500000, 'P7')
    """

    type: str
    ts: int
    payload: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        try:
            return self.payload[name]
        except KeyError:
            raise KeyError(
                f"the {self.type} event at {self.ts} has no {name!r}; it has {sorted(self.payload)}"
            ) from None
