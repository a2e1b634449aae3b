"""What `OrderingUnit.feed` returns."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.model.batch import EventBatch, Payload
from betimes.model.duration import readable
from betimes.model.event import PSEUDO
from betimes.ordering import kernel
from betimes.ordering.step import Step

Ints = npt.NDArray[np.int64]


class Handed:
    """Events that a unit handed out, and when: at which arrival.

    `rows` are the arrival numbers of the events, counted from 0. `at` is the arrival at which each
    event would have been handed out if events had come one by one (-1 if it had been handed out
    before).
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

    def __repr__(self) -> str:
        return f"Handed({self.events!r})"


class Ordered(msgspec.Struct, gc=False):
    """The answer of an ordering unit to a batch of arrivals.

    The detector first goes back to before the earliest of the `replayed` events that it has seen
    and handles them, then the `released` ones. At attenuation 1 nothing is replayed, and released
    events are settled.

    >>> from betimes.model import Event
    >>> from betimes.ordering import OrderingUnit
    >>> OrderingUnit(clock="A").feed([Event("A", 1_000), Event("B", 500), Event("A", 2_000)])
    Ordered(0 replayed, 2 released, 2 settled, 1 late, slack 1.5 ms)
    """

    step: Step
    types: tuple[str, ...]
    slack_before: int
    payloads: tuple[Payload | None, Payload | None, Payload | None]
    side: EventBatch | None = None

    @property
    def hands_out(self) -> bool:
        """Whether there is anything for the detector."""
        return self.step.hands_out

    @property
    def replayed(self) -> Handed:
        """Events that are handed out again, and those that landed before them."""
        return Handed(self.step.replayed, self.types, self.payloads[1])

    @property
    def released(self) -> Handed:
        """Events handed out for the first time."""
        return Handed(self.step.released, self.types, self.payloads[0])

    @property
    def settled(self) -> Handed:
        """Events that will never be handed out again."""
        return Handed(self.step.settled, self.types, self.payloads[2])

    @property
    def clock(self) -> Ints:
        """The clock after each arrival; `betimes.ordering.NEVER` before the first clock event."""
        return self.step.path()[0]

    @property
    def slack(self) -> Ints:
        """The slack after each arrival."""
        return self.step.path()[1]

    @property
    def late(self) -> Ints:
        """Arrival numbers of events that arrived after a later event had settled."""
        return self.step.late

    @property
    def rejected(self) -> EventBatch:
        """Clock events removed from the stream because they were implausibly far ahead."""
        return EventBatch.concat([]) if self.side is None else self.side

    @property
    def notices(self) -> EventBatch:
        """Pseudo events that tell the units above about the slack, one for each time it grew."""
        clock, slack = self.clock, self.slack
        grown = np.flatnonzero(np.diff(slack, prepend=self.slack_before) > 0)
        ts = np.maximum(clock[grown] - slack[grown], 0)
        return EventBatch(ts, np.zeros(len(ts), np.int32), (PSEUDO,))

    def __repr__(self) -> str:
        counts = f"{len(self.replayed)} replayed, {len(self.released)} released"
        aside = f", {len(self.side)} rejected" if self.side is not None else ""
        late = f", {len(self.late)} late" if len(self.late) else ""
        slack = f", slack {readable(int(self.slack[-1]))}" if len(self.slack) else ""
        return f"Ordered({counts}, {len(self.settled)} settled{late}{aside}{slack})"
