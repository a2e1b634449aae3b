"""What stages tell each other within a batch."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.model.event import Event

Place = tuple[int, int, Any]
"""The position of an event in the order: (ts, rank, tie).

Input events have rank 0 and their arrival number as tie. The rank of a derived event encodes level
and detector; its tie is the place of its cause and its number among the cause's outputs (for a
per-batch detector, the key comes first). So events of the same time have one order, whatever order
they arrived in. A deadline comes before all events of its time, with the rank `TIME`; its tie is
the key.
"""
TIME = -1


class Output(msgspec.Struct, gc=False):
    """An event that a detector made, with everything that changes and upper stages need."""

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
    """The part of the stream that it belongs to, if the engine splits the stream."""
    key: Any
    """The key whose state made it."""
    base: str
    """The hash of its content; equal outputs share it, and a number in `id` tells them apart."""
    copy: int
    why: str = ""
    """Why it was taken back."""
    final: bool = False
    told_final: bool = False
    """Whether a change has already said that it is final."""

    def state_of(self) -> tuple[Any, ...]:
        """Everything needed to resume elsewhere."""
        return tuple(getattr(self, name) for name in self.__struct_fields__)

    @classmethod
    def resumed(cls, kept: tuple[Any, ...]) -> Output:
        return cls(*kept)


class Void(msgspec.Struct, frozen=True):
    """Everything that events of a key have caused from this place on is void."""

    key: Any
    since: Place
    why: str


class News(msgspec.Struct):
    """What a stage has to say after a batch."""

    inserted: list[Output] = []
    deleted: list[Output] = []
    voids: list[Void] = []
    """Full retraction does not list what it takes back; a `Ledger` looks it up."""
    confirmed: list[Output] = []
    late: list[tuple[Event, int, str]] = []
    """Events that came too late to be handled: the event, by how much, which of its equals."""
    rejected: list[tuple[Event, int]] = []
    """Clock events too far ahead, taken out of the stream: the event, its arrival."""
    notices: list[tuple[int, int]] = []
    """(arrival, ts): the slack has grown; what this stage publishes may be as old as ts."""

    def join(self, later: News) -> News:
        """This and later news of the same batch; outputs that came and went are left out."""
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
