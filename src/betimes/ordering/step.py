"""What one run of the ordering unit's loop results in, and for how long nothing will."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.ordering import kernel

Ints = npt.NDArray[np.int64]

NOTHING: Ints = np.empty((4, 0), np.int64)
NOBODY: Ints = np.empty(0, np.int64)


class Step(msgspec.Struct, gc=False):
    """The result of one run of the loop; events are columns (ts, row, code, place)."""

    released: Ints
    replayed: Ints
    settled: Ints
    clock: Ints | int
    slack: Ints | int
    late: Ints
    rejected: Ints
    in_order: bool = False
    """Whether what is handed out is certainly in order."""
    undoubted: bool = False
    """Whether no clock event is in doubt, or was."""

    @property
    def hands_out(self) -> bool:
        """Whether there is anything for the detector."""
        return bool(self.released.shape[1] or self.replayed.shape[1])

    def path(self) -> tuple[Ints, Ints]:
        """Clock and slack after each arrival."""
        clock, slack = self.clock, self.slack
        if isinstance(clock, int):  # of a single arrival
            return np.array((clock,), np.int64), np.array((slack,), np.int64)
        assert not isinstance(slack, int)
        return clock, slack

    @property
    def last_clock(self) -> int:
        """The clock after the last arrival."""
        return self.clock if isinstance(self.clock, int) else self.clock.item(-1)

    @property
    def last_slack(self) -> int:
        """The slack after it."""
        return self.slack if isinstance(self.slack, int) else self.slack.item(-1)

    @classmethod
    def join(cls, steps: list[Step]) -> Step:
        """Join several steps into one, as if their arrivals had come in one batch."""
        parts: list[Any] = [
            np.concatenate([np.atleast_1d(getattr(s, f)) for s in steps], axis=-1)
            for f in cls.__struct_fields__[:-2]
        ]
        if parts[1].shape[1]:
            parts[:2] = _net(steps)
        return cls(*parts)


def _net(steps: list[Step]) -> tuple[Ints, Ints]:
    """The net released and replayed events of several steps.

    An event that one step releases and a later one replays has not been handed out in between, so
    it counts as released only, in its right place.
    """
    since = NOTHING
    for step in steps:
        replayed = step.replayed
        if since.shape[1] and replayed.shape[1]:
            replayed = replayed.copy()
            _, before, again = np.intersect1d(
                since[kernel.ROW], replayed[kernel.ROW], assume_unique=True, return_indices=True
            )
            places = replayed[kernel.AT, again]
            replayed[kernel.AT, again] = np.where(places < 0, since[kernel.AT, before], places)
            since = np.delete(since, before, axis=1)
        since = np.concatenate((since, replayed, step.released), axis=1)
    old = np.flatnonzero(since[kernel.AT] < 0)
    end = int(old[-1]) + 1 if len(old) else 0
    return since[:, end:], since[:, :end]


class Stillness(NamedTuple):
    """For how long nothing happens in a unit, except that events wait and the clock moves."""

    until: int
    """The clock may come to here; NEVER if anything may happen at any time."""
    hold: int
    """How long an event is held back."""
    frontier: int
    """An event that is later than this, and less than `hold` behind the clock, only waits."""


NO_STILLNESS = Stillness(kernel.NEVER, 0, kernel.FAR)
