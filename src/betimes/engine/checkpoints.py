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
        """Seconds to take a snapshot."""
        self.failures = 1.0
        """Share of the recent batches in which the stage had to go back; pessimistic at first."""

    def note(self, name: str, value: float) -> None:
        before = getattr(self, name)
        setattr(self, name, value if before == 0.0 else before + FADE * (value - before))


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
    """A snapshot as soon as the expected replay since the last one costs more than it."""

    def length(self, costs: Costs, *, speculative: bool) -> int:  # noqa: ARG002
        risk = costs.process * costs.failures
        if risk <= 0.0:
            return LONGEST
        return max(1, min(LONGEST, math.ceil(costs.snapshot / risk)))


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
