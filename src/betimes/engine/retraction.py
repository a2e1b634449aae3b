"""How a stage takes back what turned out wrong (paper *speculation*, section 4.3).

Full retraction voids everything that the detector published after the disturbance and publishes it
again. On-demand retraction replays first and tells only the differences; it must compare states to
know when it may stop. Which is better depends on the detector, and `auto` finds out: it watches how
much of what full retraction would have sent was in fact unchanged, and what comparing costs.
"""

from __future__ import annotations

from typing import Literal

from betimes.model.errors import OptionError

Technique = Literal["full", "on-demand", "auto"]
TECHNIQUES: tuple[Technique, ...] = ("full", "on-demand", "auto")

_TRIAL = 32
"""Replays after which `auto` judges again."""
_ENOUGH = 0.1
"""On demand pays as soon as this share of the outputs is unchanged by replays."""


class Retraction:
    """The technique of one stage."""

    def __init__(self, technique: Technique) -> None:
        if technique not in TECHNIQUES:
            raise OptionError(
                f"expected retraction to be one of {', '.join(TECHNIQUES)}, "
                f"got retraction={technique!r}"
            )
        self.technique = technique
        self.on_demand = technique != "full"
        self.reason = "as configured"
        self._all = self._changed = self._replays = 0
        if technique == "auto":
            self.reason = "on demand, until there is something to judge by"

    def note(self, *, all: int, changed: int) -> None:  # noqa: A002
        """A replay touched so many outputs, of which so many really changed."""
        self._all += all
        self._changed += changed
        self._replays += 1
        if self.technique == "auto" and self._replays >= _TRIAL:
            self._judge()

    def _judge(self) -> None:
        same = 1 - self._changed / self._all if self._all else 1.0
        self.on_demand = same >= _ENOUGH
        chosen = "on demand" if self.on_demand else "full"
        self.reason = (
            f"{chosen}: of {self._all} outputs touched by {self._replays} replays "
            f"{same:.0%} did not change"
        )
        self._all = self._changed = self._replays = 0
