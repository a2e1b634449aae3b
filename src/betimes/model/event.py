"""The event: something that occurred, as a detector sees it."""

from __future__ import annotations

from typing import Any

import msgspec

PSEUDO = "betimes.pseudo"
"""Type of the events by which an ordering unit tells the units above it that its slack has grown.
They are measured like any other event and never reach a detector."""

TICK = "betimes.tick"
"""Type of the events by which time passes while nothing happens: they move every clock, teach
nothing about delays and never reach a detector."""


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
                f"{self.type} event at {self.ts} has no {name!r}; it has {sorted(self.payload)}"
            ) from None
