"""Spacing of snapshots: how many events a detector handles between two of them.

Taking a snapshot costs time. Not taking it costs time when the stage has to go back, because it
handles everything since the previous snapshot again (thesis *windows*, section 4.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from betimes.model.errors import OptionError
from betimes.model.hints import did_you_mean

LONGEST = 10_000
"""The most events between two snapshots, whatever the model says."""
FADE = 1 / 16
CALM = 4
"""With at least this many events per saved key, the time to save can be neglected."""
OUTLIER = 4
"""Times above OUTLIER x the mean are clipped to it."""

BURDEN = 2
"""The total cost of a snapshot, as a multiple of the cost of taking it: a replay that passes it
compares it and takes it again, and each segment has an index."""


class _Rate:
    """Seconds per item, as noted recently; long runs weigh more than short ones."""

    def __init__(self) -> None:
        self.value = 0.0
        self._seconds = self._count = 0.0

    def note(self, seconds: float, count: int) -> None:
        if self._count:
            # If the process had to wait for the processor, the measured time means nothing.
            seconds = min(seconds, OUTLIER * self.value * count)
        self._seconds += seconds - FADE * self._seconds
        self._count += count - FADE * self._count
        self.value = self._seconds / self._count


class Costs:
    """Running means of the costs that a stage measures.

    `apart` says that each key has segments of its own, without events of other keys between them.
    """

    def __init__(self, *, apart: bool = False) -> None:
        self.keys = 0.0
        """The number of keys that a batch touches and a snapshot saves."""
        self.events = 0.0
        """The number of events in a batch; of one key, if keys are apart."""
        self.risk = 0.0
        """The share of recently touched keys that had to go back."""
        self.breach = 0.0
        """The share of them that had to go back to something that was certain."""
        self._apart = apart
        self._handled = 0
        """Events of this batch so far."""
        self._process = _Rate()
        self._snapshot = _Rate()

    @property
    def process(self) -> float:
        """Seconds to handle an event."""
        return self._process.value

    @property
    def snapshot(self) -> float:
        """Seconds to save the state of a key."""
        return self._snapshot.value

    def note_run(self, seconds: float, events: int, keys: int) -> None:
        """Note that events were handled: how long it took, and how many keys were saved."""
        # Touching a key takes longer than its snapshot. If the rest were counted as handling time,
        # it would call for more snapshots, and so grow further.
        touching = keys if CALM * keys <= events else CALM * keys
        # Never 0: a rate of 0 would clip everything that is noted later to 0.
        self._process.note(max(seconds - touching * self.snapshot, seconds / 10), events)
        self._handled += events

    def note_snapshot(self, seconds: float) -> None:
        """Note that a key was saved."""
        self._snapshot.note(seconds, 1)

    def note_batch(self, disturbed: int, breaches: int, keys: int) -> None:
        """A batch is done: how many keys were disturbed, had late events, and were touched."""
        self.risk = _fade(self.risk, min(1.0, disturbed / max(keys, 1)))
        self.breach = _fade(self.breach, min(1.0, breaches / max(keys, 1)))
        self.keys = 1.0 if self._apart else _fade(self.keys, float(keys))
        self.events = _fade(self.events, self._handled / (keys if self._apart else 1))
        self._handled = 0


class SnapshotModel(Protocol):
    """Decides when to take snapshots."""

    def length(self, costs: Costs, *, speculative: bool) -> int:
        """How many events to handle before the next snapshot, 1 or more."""
        ...


@dataclass(frozen=True)
class EveryEvents:
    """A snapshot every n events; n = 1 is the rule of the paper *speculation*."""

    n: int = 1

    def length(self, costs: Costs, *, speculative: bool) -> int:  # noqa: ARG002
        return self.n


@dataclass(frozen=True)
class EverySpeculative:
    """A snapshot every n speculative events, and every 1,000 of the others."""

    n: int = 1

    def length(self, costs: Costs, *, speculative: bool) -> int:  # noqa: ARG002
        return self.n if speculative else 1000


@dataclass(frozen=True)
class Adaptive:
    """As many events between snapshots as make saving and going back together cheapest.

    In a batch of N events, snapshots every n events save `N / n * keys` states. A key that is
    disturbed goes back to a snapshot, which lies n / 2 events before the disturbance on average;
    `keys` share these events. The sum of both costs is smallest where they are equal. (The thesis'
    rule, a snapshot as soon as the replay since the last one would cost as much, does not ask how
    many events there are for each that disturbs.) Events that are certain when they are
    handled are replayed only if an event breaks the slack.
    """

    def length(self, costs: Costs, *, speculative: bool) -> int:
        saving = BURDEN * costs.snapshot * costs.keys * costs.events
        replay = costs.process * (costs.risk if speculative else costs.breach) / 2
        if saving >= LONGEST**2 * replay:
            return LONGEST
        return max(1, round(math.sqrt(saving / replay)))


def _fade(mean: float, value: float) -> float:
    return value if mean == 0.0 else mean + FADE * (value - mean)


def parse_snapshots(value: str | int | SnapshotModel) -> SnapshotModel:
    """Read a model: `"adaptive"`, a number of events, `"speculative"`, `"speculative:20"`.

    >>> parse_snapshots(100)
    EveryEvents(n=100)
    >>> parse_snapshots("speculative:20")
    EverySpeculative(n=20)
    """
    if value == "adaptive":
        return Adaptive()
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return EveryEvents(value)
    if isinstance(value, str):
        name, _, number = value.partition(":")
        if name == "speculative" and (not number or (number.isdigit() and int(number) >= 1)):
            return EverySpeculative(int(number or 1))
    elif hasattr(value, "length"):
        return value
    raise OptionError(
        "expected snapshots to be 'adaptive', a number of events, 'speculative', "
        f"'speculative:N', or a model with length(), got snapshots={value!r}"
        + did_you_mean(value, ["adaptive", "speculative"])
    )
