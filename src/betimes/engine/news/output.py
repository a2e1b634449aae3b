"""One output: an event that a detector made, as a row."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.engine.news.places import Place
from betimes.model.event import Event


class Output(msgspec.Struct, gc=False):
    """An event that a detector made. Nobody changes it once it was told."""

    id: str
    event: Event
    place: Place
    """Its place in the order of any stage that subscribes to it."""
    cause: Place
    """The place of the event that completed it, in the order of the stage that made it."""
    cause_type: str
    at: int
    """The arrival at which it was made."""
    detected_at: int
    slack: int
    head_start: int
    """How much earlier than settled order it was made: the paper's K+."""
    group: Any
    """The part of the stream that it belongs to, if the engine splits the stream."""
    key: Any
    """The key whose state made it."""
    copy: int
    """Its number among its equals, which share a digest."""

    @property
    def base(self) -> str:
        """The digest of its content."""
        return self.id[:24]

    @property
    def number(self) -> int:
        """Its number among the outputs of its cause."""
        number: int = self.place[2][-1]
        return number

    def numbers(self) -> tuple[int, ...]:
        """By the names above."""
        return (
            self.event.ts, self.cause[0], self.at, self.detected_at, self.slack, self.head_start,
            self.copy,
        )  # fmt: skip
