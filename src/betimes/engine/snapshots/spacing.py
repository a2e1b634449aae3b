"""Spacing of snapshots: how many events a detector handles between two of them.

A snapshot costs time when it is taken; its absence costs time when the stage has to go back, for
everything since the snapshot before is handled again (thesis *windows*, section 4.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from betimes.model.errors import OptionError

LONGEST = 10_000
"""Events between snapshots at most, whatever the model says."""
FADE = 1 / 16
CALM = 4
"""Events for each key that is saved, at least, for the time of saving to be of no account."""
OUTLIER = 4
"""Times that are so many times as long as the mean are taken for just that long."""

BURDEN = 2
"""What a snapshot costs in all, in times of what it costs to take it: a replay that passes it takes
and compares it anew, and each segment has an index of its own."""


class _Rate:
    """Seconds apiece, of what was noted lately; long runs tell more than short ones."""

    def __init__(self) -> None:
        self.value = 0.0
        self._seconds = self._count = 0.0

    def note(self, seconds: float, count: int) -> None:
        if self._count:
            # A process that has to wait for the machine measures times that mean nothing.
            seconds = min(seconds, OUTLIER * self.value * count)
        self._seconds += seconds - FADE * self._seconds
        self._count += count - FADE * self._count
        self.value = self._seconds / self._count


class Costs:
    """Running means of what a stage measures about itself."""

    def __init__(self) -> None:
        self.keys = 0.0
        """Keys that a batch touches."""
        self.risk = 0.0
        """Share of the keys touched lately that had to go back."""
        self.breach = 0.0
        """Share of them that had to go back to before what was certain."""
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
        """Events were handled: how long it took, and how many keys were saved on the way."""
        # To touch a key takes more than its snapshot. If that counted as the price of events, it
        # would ask for more snapshots, and so rise further.
        touching = keys if CALM * keys <= events else CALM * keys
        # Never nothing: a rate of 0 would cap all that is noted after it at 0.
        self._process.note(max(seconds - touching * self.snapshot, seconds / 10), events)

    def note_snapshot(self, seconds: float) -> None:
        """A key was saved."""
        self._snapshot.note(seconds, 1)

    def note_batch(self, disturbed: int, breaches: int, keys: int) -> None:
        """A batch is done: so many keys had to go back, so many of them further than expected."""
        self.risk = _fade(self.risk, min(1.0, disturbed / max(keys, 1)))
        self.breach = _fade(self.breach, min(1.0, breaches / max(keys, 1)))
        self.keys = _fade(self.keys, float(keys))


class SnapshotModel(Protocol):
    """Decides on snapshots."""

    def length(self, costs: Costs, *, speculative: bool) -> int:
        """How many events to handle before the next snapshot, 1 or more."""
        ...


@dataclass(frozen=True)
class EveryEvents:
    """A snapshot every n events; with n = 1 that of the paper *speculation*."""

    n: int = 1

    def length(self, costs: Costs, *, speculative: bool) -> int:  # noqa: ARG002
        return self.n


@dataclass(frozen=True)
class EverySpeculative:
    """A snapshot every n events that may have to be taken back, and every 1,000 of the others."""

    n: int = 1

    def length(self, costs: Costs, *, speculative: bool) -> int:  # noqa: ARG002
        return self.n if speculative else 1000


@dataclass(frozen=True)
class Adaptive:
    """A snapshot as soon as the expected replay since the last one costs more than it.

    The thesis' rule `n * t_process > t_snapshot`, weighted by how often speculation has failed
    lately, and counted by key: a key is saved when it is touched, and only disturbed keys go back.
    What is certain when it is handled is gone back to only if an event breaks the slack.
    """

    def length(self, costs: Costs, *, speculative: bool) -> int:
        replay = costs.process * (costs.risk if speculative else costs.breach)
        # So many events of one key; others come between them.
        saving = BURDEN * costs.snapshot * max(costs.keys, 1.0)
        return LONGEST if saving >= LONGEST * replay else max(1, math.ceil(saving / replay))


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
    )
