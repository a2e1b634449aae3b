"""How a stage takes back what turned out wrong (paper *speculation*, section 4.3).

Full retraction voids everything that the detector published after the disturbance, and publishes it
again. On-demand retraction replays first and publishes only the differences; it has to compare
states to know when it may stop. Identity is content, so differences are cheap to find, and `auto`
always publishes only these. Whether comparing states pays depends on the detector, and `auto` finds
out: it weighs the time spent comparing against the handling that was spared. If comparing does not
pay, it handles everything since the disturbance again, and tries again now and then.
"""

from __future__ import annotations

from typing import Literal

from betimes.model.errors import OptionError

Technique = Literal["full", "on-demand", "auto"]
TECHNIQUES: tuple[Technique, ...] = ("full", "on-demand", "auto")

_TRIAL = 32
"""Replays after which `auto` judges."""
_CLEAR = 4
"""It judges after this many if comparing cost this many times what it gained."""
_PAUSE = 256
"""Full replays after which `auto` tries on demand again; the number doubles after every trial that
gains nothing, up to `_LONGEST`."""
_LONGEST = 65_536


class Retraction:
    """The technique of one stage."""

    def __init__(self, technique: Technique) -> None:
        if technique not in TECHNIQUES:
            raise OptionError(
                f"expected retraction to be one of {', '.join(TECHNIQUES)}, "
                f"got retraction={technique!r}"
            )
        self.technique = technique
        self.voids = technique == "full"
        """Whether everything since the disturbance is taken back, changed or not."""
        self.on_demand = not self.voids
        """Whether a replay compares states, to stop once it is where it was before."""
        self.reason = "as configured"
        if technique == "auto":
            self.reason = "on demand, until there are enough replays to judge by"
        self._pause = _PAUSE
        self._begin()

    def _begin(self) -> None:
        self._replays = self._spared = 0
        self._cost = self._gain = 0.0

    def note(self, *, spared: int, comparing: float, handling: float) -> None:
        """Note a replay: how many events it did not have to handle again.

        It spent `comparing` seconds on comparing states; handling an event takes `handling`
        seconds.
        """
        if self.technique != "auto":
            return
        self._replays += 1
        self._spared += spared
        self._cost += comparing
        self._gain += spared * handling
        clear = self._replays >= _CLEAR and self._cost > _CLEAR * self._gain
        if self._replays >= _TRIAL or clear if self.on_demand else self._replays >= self._pause:
            self._judge()

    def _judge(self) -> None:
        if not self.on_demand:
            self.on_demand = True
            self.reason = "on demand again, to see whether it pays now"
        else:
            self.on_demand = self._gain >= self._cost
            self._pause = _PAUSE if self.on_demand else min(2 * self._pause, _LONGEST)
            self.reason = (
                f"{'on demand' if self.on_demand else 'full'}: in {self._replays} replays "
                f"{self._spared} events were spared, worth {self._gain * 1e3:.2g} ms; comparing "
                f"states took {self._cost * 1e3:.2g} ms"
            )
        self._begin()
