"""What a stage tells its readers after a batch: frozen data, which can travel.

News refers to nothing that lives in a stage, and nobody changes it. What a reader has to remember
of it is the reader's own: which outputs it still may take back (`Ledger`), which are not final yet
(`Finality`), what has been said about them (`Reporter`).
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import NO_OUTPUTS, Outputs, Place
from betimes.model.codec import dumps, loads
from betimes.model.event import Event

_WHAT = "news between stages"


class Void(msgspec.Struct, frozen=True):
    """Everything that events of a key have caused from this place on is void."""

    key: Any
    since: Place
    why: str


class News(msgspec.Struct, frozen=True):
    """What a stage has to say after a batch."""

    inserted: Outputs = NO_OUTPUTS
    final: npt.NDArray[np.bool_] | None = None
    """Which of these are final at once; None if all are."""
    deleted: Outputs = NO_OUTPUTS
    whys: tuple[str, ...] = ()
    """Why each of these was taken back."""
    voids: tuple[Void, ...] = ()
    """Full retraction does not list what it takes back; a `Ledger` looks it up."""
    confirmed: Outputs = NO_OUTPUTS
    """What has become final since it was told."""
    late: tuple[tuple[Event, int, str], ...] = ()
    """Events that came too late to be handled: the event, by how much, which of its equals."""
    rejected: tuple[tuple[Event, int], ...] = ()
    """Clock events too far ahead, taken out of the stream: the event, its arrival."""
    notices: tuple[tuple[int, int], ...] = ()
    """(arrival, ts): the slack has grown; what this stage publishes may be as old as ts."""
    may_change_from: int = -1
    """No output of an earlier time can be taken back any more."""
    reach: int = -1
    """No output with an earlier cause can."""
    certain: npt.NDArray[np.int64] | None = None
    """With sources: arrivals, and how far the order was certain after each; None if no further."""

    @property
    def quiet(self) -> bool:
        """Whether it says nothing about outputs."""
        return (
            self.inserted is NO_OUTPUTS
            and self.deleted is NO_OUTPUTS
            and self.confirmed is NO_OUTPUTS
        )

    def provisional(self) -> Outputs:
        """What was inserted and is not final yet."""
        if self.final is None:
            return NO_OUTPUTS
        return self.inserted.pick(np.flatnonzero(~self.final))

    def join(self, later: News) -> News:
        """This and later news of the same batch; outputs that came and went are left out."""
        gone, sure = set(later.deleted.ids), set(later.confirmed.ids)
        come = set(self.inserted.ids)
        stays = _rows(self.inserted, come - gone)
        final = np.ones(len(come), np.bool_) if self.final is None else self.final
        final = final | np.array([match in sure for match in self.inserted.ids], np.bool_)
        flags = np.ones(len(later.inserted), np.bool_) if later.final is None else later.final
        final = np.concatenate((final[stays], flags))
        left = _rows(later.deleted, gone - come)
        confirmed = [
            self.confirmed.pick(_rows(self.confirmed, set(self.confirmed.ids) - gone)),
            later.confirmed.pick(_rows(later.confirmed, sure - come)),
        ]
        return News(
            Outputs.concat([self.inserted.pick(stays), later.inserted]),
            None if final.all() else final,
            Outputs.concat([self.deleted, later.deleted.pick(left)]),
            self.whys + tuple(later.whys[row] for row in left.tolist()),
            (),  # looked up already
            Outputs.concat(confirmed),
            self.late + later.late,
            self.rejected + later.rejected,
            self.notices + later.notices,
            later.may_change_from,
            later.reach,
        )

    # Between processes

    def to_bytes(self) -> bytes:
        """Everything, as bytes."""
        return dumps(
            [
                self.inserted.state_of(), self.final, self.deleted.state_of(), self.whys,
                [(void.key, void.since, void.why) for void in self.voids],
                self.confirmed.state_of(), self.late, self.rejected, self.notices,
                self.may_change_from, self.reach, self.certain,
            ],
            _WHAT,
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes) -> News:
        """What `to_bytes` wrote."""
        inserted, final, deleted, whys, voids, confirmed, *rest = loads(data, _WHAT)
        return cls(
            Outputs.resumed(inserted), final, Outputs.resumed(deleted), whys,
            tuple(Void(*void) for void in voids), Outputs.resumed(confirmed), *rest,
        )  # fmt: skip


class Heard(msgspec.Struct, frozen=True):
    """What the publishers of a stage say about what they have told before."""

    deleted: Outputs = NO_OUTPUTS
    confirmed: Outputs = NO_OUTPUTS
    provisional: Outputs = NO_OUTPUTS
    """What arrives and is not final yet."""
    may_change_from: int | None = None
    """Nothing earlier will be taken back; None if nobody publishes anything."""
    certain: tuple[npt.NDArray[np.int64] | None, ...] = ()
    """With sources: how far the order of each publisher was certain, as in `News`."""

    @property
    def quiet(self) -> bool:
        """Whether they say nothing about outputs."""
        return (
            self.deleted is NO_OUTPUTS
            and self.confirmed is NO_OUTPUTS
            and self.provisional is NO_OUTPUTS
        )


def _rows(outputs: Outputs, ids: set[str]) -> npt.NDArray[np.int64]:
    """Where these are."""
    return np.array([row for row, match in enumerate(outputs.ids) if match in ids], np.int64)
