"""What stages tell each other within a batch."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.model.event import Event

Place = tuple[int, int, Any]
"""Where an event stands in the order: (ts, rank, tie).

Input events have rank 0 and their arrival number as tie. The rank of a derived event tells level
and detector, its tie is the place of its cause and the number among the cause's outputs (for a
detector per batch, which does not tell its causes: first the key, then the order of making). So
ties in time have one order, whatever the arrival. A deadline stands before all events of its time,
with the rank `TIME`; its tie tells the key.
"""
TIME = -1


class Output(msgspec.Struct, gc=False):
    """An event that a detector made, with all that changes and upper stages want to know."""

    id: str
    event: Event
    place: Place
    """Its place in the order of any stage that subscribes to it."""
    cause: Place
    """The place of the event that completed it, in the order of the stage that made it."""
    cause_event: Event
    at: int
    """The arrival at which it was made."""
    detected_at: int
    slack: int
    head_start: int
    """How much earlier than settled order it was made: the paper's K+."""
    group: Any
    """The key of the stream that it belongs to, if the engine splits the stream."""
    key: Any
    """The key whose state made it."""
    base: str
    """What its content hashes to; equal outputs share it and differ in `id` by a number."""
    copy: int
    why: str = ""
    """Why it was taken back."""
    final: bool = False
    told_final: bool = False
    """Whether a change has said that it is final."""

    def state_of(self) -> tuple[Any, ...]:
        """All that must be kept to go on elsewhere."""
        return tuple(getattr(self, name) for name in self.__struct_fields__)

    @classmethod
    def resumed(cls, kept: tuple[Any, ...]) -> Output:
        return cls(*kept)


class Void(msgspec.Struct, frozen=True):
    """Everything that events of a key caused from this place on is void."""

    key: Any
    since: Place
    why: str


class News(msgspec.Struct):
    """What a stage has to say after a batch."""

    inserted: list[Output] = []
    deleted: list[Output] = []
    voids: list[Void] = []
    """Full retraction does not list what it takes back; a `Ledger` knows."""
    confirmed: list[Output] = []
    late: list[tuple[Event, int, str]] = []
    """Events that came too late to be handled: itself, by how much, which of its equals."""
    rejected: list[tuple[Event, int]] = []
    """Clock events too far ahead, taken out of the stream: itself, its arrival."""
    notices: list[tuple[int, int]] = []
    """(arrival, ts): the slack has grown; what comes from here may be as late as ts says."""

    def join(self, later: News) -> News:
        """This and what came later in the same batch; what came and went is nothing."""
        gone = {id(output) for output in later.deleted}
        brief = {id(output) for output in self.inserted} & gone
        return News(
            [o for o in self.inserted if id(o) not in brief] + later.inserted,
            self.deleted + [o for o in later.deleted if id(o) not in brief],
            [],  # looked up already
            [o for o in self.confirmed if id(o) not in gone] + later.confirmed,
            self.late + later.late,
            self.rejected + later.rejected,
            self.notices + later.notices,
        )
