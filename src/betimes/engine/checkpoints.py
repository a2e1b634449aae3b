"""Checkpoint models: how many events a detector handles between two snapshots.

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


class Costs:
    """Running means of what a stage measures about itself."""

    def __init__(self) -> None:
        self.process = 0.0
        """Seconds to handle an event."""
        self.snapshot = 0.0
        """Seconds to save the state of a key."""
        self.keys = 0.0
        """Keys that a batch touches."""
        self.risk = 0.0
        """Share of the keys touched lately that had to go back."""

    def note_run(self, seconds: float, snapshots: float, events: int, keys: int) -> None:
        """Events were handled: how long it took, and how much of that to save keys."""
        self.process = _fade(self.process, max(seconds - snapshots, 0.0) / events)
        if keys:
            self.snapshot = _fade(self.snapshot, snapshots / keys)

    def note_batch(self, disturbed: int, keys: int) -> None:
        """A batch is done: so many of the keys it touched had to go back."""
        self.risk = _fade(self.risk, min(1.0, disturbed / max(keys, 1)))
        self.keys = _fade(self.keys, float(keys))


class CheckpointModel(Protocol):
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
    """

    def length(self, costs: Costs, *, speculative: bool) -> int:  # noqa: ARG002
        replay = costs.process * costs.risk
        if replay <= 0.0:
            return LONGEST
        # So many events of one key; others come between them.
        events = costs.snapshot / replay * max(costs.keys, 1.0)
        return max(1, min(LONGEST, math.ceil(events)))


def _fade(mean: float, value: float) -> float:
    return value if mean == 0.0 else mean + FADE * (value - mean)


def parse_checkpoints(value: str | int | CheckpointModel) -> CheckpointModel:
    """Read a model: `"adaptive"`, a number of events, `"speculative"`, `"speculative:20"`.

    >>> parse_checkpoints(100)
    EveryEvents(n=100)
    >>> parse_checkpoints("speculative:20")
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
        "expected checkpoints to be 'adaptive', a number of events, 'speculative', "
        f"'speculative:N', or a model with length(), got checkpoints={value!r}"
    )
