"""Slack policies: how measured delays determine how long an event is held back.

A policy is configuration only. The learning itself runs in the compiled loop (`kernel.py`) and,
event by event in plain Python, in `betimes.testing.reference`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from betimes.model.duration import LONGEST, Duration, exact, microseconds
from betimes.model.errors import OptionError
from betimes.model.hints import did_you_mean, known_options

POLICIES = ("largest", "decaying", "quantile")


@known_options
@dataclass(frozen=True)
class SlackPolicy:
    """How the slack follows the delays.

    * `largest` (paper *slack*, section II-E): the largest delay ever measured; it never shrinks.
    * `decaying`: the largest delay, decaying over stream time with the time constant `decay`. If
      that is None, it is sixty times the slack itself, whether delays are milliseconds or hours.
    * `quantile`: a small slack at which no more than the share `max_late` of the events comes out
      of order, judged by what the latest events needed and by how many were late already. A start
      or a notice from below is kept for `window` events; what was needed fades within `8 x window`.

    `margin` adds that many standard deviations of the recent delays. `min` and `max` clamp the
    result.

    >>> SlackPolicy.parse("decaying", max_slack="2s")
    SlackPolicy('decaying', margin=0.0, min=0 us, max=2 s, decay=60 x slack)
    >>> SlackPolicy.parse("150ms")
    SlackPolicy(fixed at 150 ms)
    """

    name: str = "largest"
    margin: float = 0.0
    min: int = 0
    max: int = LONGEST
    decay: int | None = None
    max_late: float = 0.01
    window: int = 500

    @property
    def label(self) -> str:
        """The name to show: a policy that cannot change the slack is called fixed."""
        return "fixed" if self.min == self.max else self.name

    @property
    def fading(self) -> str:
        """The time constant of a decaying slack, to show."""
        return "60 x slack" if self.decay is None else exact(self.decay)

    def facts(self) -> dict[str, str]:
        """What a saved state depends on, in words."""
        fixed = self.label == "fixed"
        return {
            "slack": exact(self.min) if fixed else self.name,
            "margin": repr(self.margin),
            "min_slack": "fixed" if fixed else exact(self.min),
            "max_slack": "fixed" if fixed else exact(self.max),
            "max_late": repr(self.max_late) if self.label == "quantile" else "not used",
            "decay": self.fading if self.label == "decaying" else "not used",
        }

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
        decay: Duration | None = None,
        max_late: float = 0.01,
    ) -> SlackPolicy:
        """Build a policy from a user's options.

        Args:
            slack: `"largest"` (default), `"decaying"` or `"quantile"`; a duration such as
                `"150ms"` fixes the slack.
            margin: standard deviations of the recent delays to add to the slack. Default: 0.
            min_slack: the slack is never shorter. Default: 0.
            max_slack: the slack is never longer. Default: no limit.
            decay: time constant of `"decaying"`. Default: sixty times the slack, as it shrinks.
            max_late: share of events that may be late with `"quantile"`. Default: 0.01.

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
                f"'150ms', got slack={slack!r}" + did_you_mean(slack, POLICIES)
            )
        if not (isinstance(margin, int | float) and 0 <= margin < math.inf):
            raise OptionError(
                "expected margin to be 0 or more (the number of standard deviations to add to the "
                f"slack), got margin={margin!r}"
            )
        if shortest > longest:
            raise OptionError(
                f"expected min_slack <= max_slack, got min_slack={min_slack!r}, "
                f"max_slack={max_slack!r}"
            )
        if not (isinstance(max_late, int | float) and 0 <= max_late < 1):
            raise OptionError(
                "expected max_late to be the share of events that may be late, at least 0 and "
                f"below 1, got max_late={max_late!r}"
            )
        fading = None if decay is None else microseconds(decay, "decay")
        if fading == 0:
            raise OptionError(f"expected decay to be longer than 0, got decay={decay!r}")
        # A window has room for five late events, or one straggler could fill it.
        window = 500 if max_late == 0 else max(500, math.ceil(5 / max_late))
        return cls(name, float(margin), shortest, longest, fading, float(max_late), window)

    def __repr__(self) -> str:
        if self.min == self.max:
            return f"SlackPolicy(fixed at {exact(self.min)})"
        shown = [repr(self.name), f"margin={self.margin}", f"min={exact(self.min)}"]
        if self.max < LONGEST:
            shown.append(f"max={exact(self.max)}")
        if self.name == "decaying":
            shown.append(f"decay={self.fading}")
        if self.name == "quantile":
            shown.append(f"max_late={self.max_late}, window={self.window}")
        return f"SlackPolicy({', '.join(shown)})"
