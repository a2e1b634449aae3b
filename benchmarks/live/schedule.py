"""A live stream: when how many events arrive, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes import Event, EventBatch, Hierarchy

TYPES = ("A", "B")
"""`A` is the clock; `B` is what comes late."""
KEYS = 8
LATEST = 200_000
"""Microseconds by which an event may be late."""
WORK = 1_000
"""How many numbers a detector adds up per event, so that handling events is what takes time."""


@dataclass(frozen=True)
class Phase:
    """So many events per second, for so many seconds."""

    seconds: float
    rate: float


class Schedule:
    """The arrivals of a stream; every fifth event is up to 200 ms late, if not said otherwise."""

    def __init__(self, phases: Sequence[Phase], latest: int = LATEST) -> None:
        self._latest = latest
        self.phases = tuple(phases)
        self.seconds = sum(phase.seconds for phase in phases)
        self._times = np.cumsum([0.0, *(phase.seconds for phase in phases)])
        self._counts = np.cumsum([0.0, *(phase.seconds * phase.rate for phase in phases)])

    @property
    def events(self) -> int:
        """How many events there are."""
        return self.arrived(self.seconds)

    def arrived(self, time: float) -> int:
        """How many events have arrived by this time, in seconds since the start."""
        return int(np.interp(time, self._times, self._counts))

    def times(self, low: int, high: int) -> npt.NDArray[np.float64]:
        """When the events of these numbers arrive."""
        found: npt.NDArray[np.float64] = np.interp(np.arange(low, high), self._counts, self._times)
        return found

    def columns(self, low: int, high: int) -> tuple[npt.NDArray[np.int64], ...]:
        """Times, types and keys of these events."""
        numbers = np.arange(low, high)
        late = numbers % 5 == 0
        delays = np.where(late, numbers * 7_919 % self._latest, 0)
        ts = (1e6 * self.times(low, high)).astype(np.int64) + 10**9 - delays
        return ts, late.astype(np.int64), numbers // 5 % KEYS

    def batch(self, low: int, high: int) -> EventBatch:
        ts, codes, keys = self.columns(low, high)
        payload = [{"key": key} for key in keys.tolist()]
        return EventBatch(ts, codes.astype(np.int32), TYPES, payload)

    def table(self, low: int, high: int) -> pa.Table:
        ts, codes, keys = self.columns(low, high)
        types = pa.array(TYPES).take(codes)
        numbers = {"ts": ts, "key": keys, "seq": np.arange(low, high)}
        return pa.table({"type": types} | {name: pa.array(of) for name, of in numbers.items()})


@dataclass
class Fiftieth:
    """Every fiftieth event of a key, with a number that depends on the order of all before it."""

    n: int = 0
    order: int = 0
    work = WORK

    def on_event(self, event: Event) -> Event | None:
        self.n += 1
        sum(range(self.work))
        self.order = (31 * self.order + event.ts) % 1_000_003
        return Event("fiftieth", event.ts, {"order": self.order}) if self.n % 50 == 0 else None


class Idle(Fiftieth):
    """The same results, without the work."""

    work = 0


def hierarchy(detector: type[Fiftieth] = Fiftieth) -> Hierarchy:
    found = Hierarchy(clock="A")
    found.add(detector, on=TYPES, emits="fiftieth", by="key", name="fiftieth")
    return found
