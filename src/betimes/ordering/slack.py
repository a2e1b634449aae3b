"""Slack policies: how measured delays become the time that an event is held back.

A policy is configuration only; the learning itself runs in the compiled loop (`kernel.py`) and,
event by event and in plain Python, in `betimes.testing.reference`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from betimes.model.duration import LONGEST, Duration, microseconds
from betimes.model.errors import OptionError

POLICIES = ("largest", "decaying", "quantile")


@dataclass(frozen=True)
class SlackPolicy:
    """How the slack follows the delays.

    * `largest` (paper *slack*, section II-E): the largest delay ever measured; it never shrinks.
    * `decaying`: the largest delay, fading with stream time; `decay` is the time constant.
    * `quantile`: the smallest slack with which at most the share `max_late` of the last `window`
      events would have come out of order.

    `margin` adds that many standard deviations of the recent delays. `min` and `max` clamp.
    """

    name: str = "largest"
    margin: float = 0.0
    min: int = 0
    max: int = LONGEST
    decay: int = 60_000_000
    max_late: float = 0.01
    window: int = 500

    @property
    def label(self) -> str:
        """The name for people: a policy that cannot move is a fixed slack."""
        return "fixed" if self.min == self.max else self.name

    def at_level(self, level: int) -> SlackPolicy:
        """The policy for a level of detectors: above the first, events also wait for those below.

        What is made from events that were held back for a fixed time comes at least that late; so
        above the first level a fixed slack is where learning begins, and a limit counts for each
        level.
        """
        if level == 1:
            return self
        if self.label == "fixed":
            return replace(self, max=LONGEST)
        return replace(self, max=self.max if self.max == LONGEST else self.max * level)

    @classmethod
    def parse(
        cls,
        slack: str | Duration = "largest",
        *,
        margin: float = 0.0,
        min_slack: Duration = 0,
        max_slack: Duration | None = None,
        decay: Duration = "60s",
        max_late: float = 0.01,
    ) -> SlackPolicy:
        """Build a policy from what a user writes; a duration instead of a name fixes the slack.

        >>> SlackPolicy.parse("quantile", max_late=0.001).window
        5000
        >>> fixed = SlackPolicy.parse("150ms")
        >>> fixed.min == fixed.max == 150_000
        True
        """
        shortest = microseconds(min_slack, "min_slack")
        longest = LONGEST if max_slack is None else microseconds(max_slack, "max_slack")
        if isinstance(slack, str) and slack.isalpha():
            name = slack
        else:
            name, shortest = "largest", microseconds(slack, "slack")
            longest = shortest
        if name not in POLICIES:
            raise OptionError(
                f"expected slack to be one of {', '.join(POLICIES)} or a fixed duration such as "
                f"'150ms', got slack={slack!r}"
            )
        if not (isinstance(margin, int | float) and 0 <= margin < math.inf):
            raise OptionError(
                "expected margin to be 0 or more (it is a number of standard deviations added to "
                f"the slack), got margin={margin!r}"
            )
        if shortest > longest:
            raise OptionError(
                f"expected min_slack <= max_slack, got min_slack={min_slack!r}, "
                f"max_slack={max_slack!r}"
            )
        if not (isinstance(max_late, int | float) and 0 <= max_late < 1):
            raise OptionError(
                "expected max_late to be the share of events that may be late, from 0 to below 1, "
                f"got max_late={max_late!r}"
            )
        fading = microseconds(decay, "decay")
        if fading == 0:
            raise OptionError(f"expected decay to be longer than 0, got decay={decay!r}")
        # Five late events must fit into the window, or one straggler would set the slack.
        window = 500 if max_late == 0 else max(500, math.ceil(5 / max_late))
        return cls(name, float(margin), shortest, longest, fading, float(max_late), window)
