"""What one `feed` of an ordering unit gives back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.model.batch import EventBatch, Payload
from betimes.model.event import PSEUDO
from betimes.ordering import kernel

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
        return self._numbers[kernel.ROW]

    @property
    def at(self) -> Ints:
        return self._numbers[kernel.AT]

    @property
    def ts(self) -> Ints:
        return self._numbers[kernel.TS]

    @property
    def events(self) -> EventBatch:
        codes = self._numbers[kernel.CODE].astype(np.int32)
        return EventBatch(self.ts, codes, self._types, self._payload)

    def __len__(self) -> int:
        return self._numbers.shape[1]


class Ordered:
    """The answer of an ordering unit to a batch of arrivals.

    The detector is handed `replayed` first (going back to before the first of them), then
    `released`. At attenuation 1 nothing is replayed, and what is released is settled.
    """

    __slots__ = ("clock", "late", "rejected", "released", "replayed", "settled", "slack", "_before")

    def __init__(
        self,
        replayed: Handed,
        released: Handed,
        settled: Handed,
        path: Ints,
        slack_before: int,
        late: Ints,
        rejected: EventBatch | None,
    ) -> None:
        self.replayed = replayed
        self.released = released
        self.settled = settled
        self.clock: Ints = path[0]
        """The clock after each arrival; `betimes.ordering.NEVER` before the first clock event."""
        self.slack: Ints = path[1]
        """The slack after each arrival."""
        self.late = late
        """Arrival numbers of events that came after something later had settled."""
        self.rejected = EventBatch.concat([]) if rejected is None else rejected
        """Clock events absurdly far ahead, taken out of the stream."""
        self._before = slack_before

    @property
    def notices(self) -> EventBatch:
        """Pseudo events for the units above, one for each time the slack grew."""
        before = np.concatenate(([self._before], self.slack[:-1])) if len(self.slack) else self.slack
        grown = np.flatnonzero(self.slack > before)
        ts = np.maximum(self.clock[grown] - self.slack[grown], 0)
        return EventBatch(ts, np.zeros(len(ts), np.int32), (PSEUDO,))

    def __repr__(self) -> str:
        return (
            f"Ordered({len(self.replayed)} replayed, {len(self.released)} released, "
            f"{len(self.settled)} settled)"
        )
