"""What one `feed` of an ordering unit gives back."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.model.batch import EventBatch, Payload
from betimes.model.event import PSEUDO
from betimes.ordering import kernel
from betimes.ordering.loop import Step

Ints = npt.NDArray[np.int64]


class Handed:
    """Events that a unit handed out, with their arrival numbers and the place of the hand-out.

    `rows` counts arrivals from 0; `at` is the arrival at which the event was handed out, had events
    come one by one (-1 where it had been handed out before).
    """

    __slots__ = ("_numbers", "_payload", "_types")

    def __init__(self, numbers: Ints, types: tuple[str, ...], payload: Payload | None) -> None:
        self._numbers = numbers
        self._types = types
        self._payload = payload

    @property
    def rows(self) -> Ints:
        rows: Ints = self._numbers[kernel.ROW]
        return rows

    @property
    def at(self) -> Ints:
        places: Ints = self._numbers[kernel.AT]
        return places

    @property
    def ts(self) -> Ints:
        times: Ints = self._numbers[kernel.TS]
        return times

    @property
    def events(self) -> EventBatch:
        codes = self._numbers[kernel.CODE].astype(np.int32)
        return EventBatch(self.ts, codes, self._types, self._payload)

    def __len__(self) -> int:
        return int(self._numbers.shape[1])


class Ordered(msgspec.Struct, gc=False):
    """The answer of an ordering unit to a batch of arrivals.

    The detector is handed `replayed` first (going back to before the first of them that it has
    seen), then `released`. At attenuation 1 nothing is replayed, and what is released is settled.
    """

    step: Step
    types: tuple[str, ...]
    slack_before: int
    payloads: tuple[Payload | None, Payload | None, Payload | None]
    side: EventBatch | None = None

    @property
    def replayed(self) -> Handed:
        """Events handed out again, and the ones that landed before them."""
        return Handed(self.step.replayed, self.types, self.payloads[1])

    @property
    def released(self) -> Handed:
        """Events handed out for the first time."""
        return Handed(self.step.released, self.types, self.payloads[0])

    @property
    def settled(self) -> Handed:
        """Events given up for good."""
        return Handed(self.step.settled, self.types, self.payloads[2])

    @property
    def clock(self) -> Ints:
        """The clock after each arrival; `betimes.ordering.NEVER` before the first clock event."""
        return np.atleast_1d(self.step.clock)

    @property
    def slack(self) -> Ints:
        """The slack after each arrival."""
        return np.atleast_1d(self.step.slack)

    @property
    def late(self) -> Ints:
        """Arrival numbers of events that came after something later had settled."""
        return self.step.late

    @property
    def rejected(self) -> EventBatch:
        """Clock events absurdly far ahead, taken out of the stream."""
        return EventBatch.concat([]) if self.side is None else self.side

    @property
    def notices(self) -> EventBatch:
        """Pseudo events for the units above, one for each time the slack grew."""
        clock, slack = self.clock, self.slack
        grown = np.flatnonzero(np.diff(slack, prepend=self.slack_before) > 0)
        ts = np.maximum(clock[grown] - slack[grown], 0)
        return EventBatch(ts, np.zeros(len(ts), np.int32), (PSEUDO,))

    def __repr__(self) -> str:
        return (
            f"Ordered({len(self.replayed)} replayed, {len(self.released)} released, "
            f"{len(self.settled)} settled)"
        )
