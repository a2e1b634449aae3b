"""How far to speculate: a control loop like TCP's congestion control (paper *speculation*, 4.4).

Every `span` the busy factor (`load`) is compared with a target zone. Above it, the attenuation
returns to 1 at once, and the value that was too low is remembered. Below it, the attenuation is
halved until halving would bring it below the bisection line `(1 - last) / 2`; from there on it is
lowered in small steps.

Where this differs from Algorithm 3:

* *The last minimum survives repeated overload.* The algorithm stores the attenuation whenever the
  load is too high. In an overload of several spans that is 1 from the second span on; the line is
  then 0, and what follows is halved all the way into the value that was too low.
* *Halving does not lead back to the last minimum.* Above 1/3, it is above the line: the algorithm
  would go from 1 to the half that was too low, and so back and forth.
* *Small steps end at half the last minimum.* What was too low is not any more, so the load has
  changed, and halving goes on.
* *Below `LEAST`, the attenuation becomes 0.* Halving would never get there.
* *Small steps end at 0*, where the algorithm would make it negative.
* *One budget.* In the paper, each ordering unit controls itself. The stages of an engine share one
  processor: if each took its step because there is room for one, all together would overload it. So
  a stage takes a step only if the step fits into the free time. The stages whose step saves the
  most latency for the events that pass through them come first, and the first of them always takes
  its step. Above the zone, all of them back off.
* *A span is over sooner* if there was no pause for that long; see `Spans`.
* *The busy factor is that of the whole loop*, not only of the detectors: what reads, sorts, routes
  and writes events takes the same time away from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from betimes.engine.load import Load, Span
from betimes.model.errors import OptionError
from betimes.model.hints import known_options

LEAST = 0.01
"""A smaller attenuation is none."""


@known_options
@dataclass(frozen=True)
class Zone:
    """The busy factors to aim at, and how often to look."""

    low: float = 0.8
    """Below this busy factor, there is room for more speculation."""
    high: float = 0.9
    """Above this one, there is none at all."""
    step: float = 0.05
    """By how much the attenuation is lowered where the load was once too high."""
    span: float = 0.5
    """Seconds between two looks."""

    def __post_init__(self) -> None:
        for name in ("low", "high", "step", "span"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                what = "a number of seconds" if name == "span" else "a number"
                raise OptionError(f"expected {name} of a zone to be {what}, got {name}={value!r}")
        if not 0 < self.low <= self.high <= 1:
            raise OptionError(
                "expected a zone of busy factors with 0 < low <= high <= 1, got "
                f"low={self.low!r}, high={self.high!r}; 1 is a loop that never pauses"
            )
        if not 0 < self.step <= 1:
            raise OptionError(f"expected 0 < step <= 1 for a zone, got step={self.step!r}")
        if not 0 < self.span < inf:
            raise OptionError(
                f"expected the span of a zone to be more than 0 seconds, got span={self.span!r}"
            )


class Attenuation:
    """The attenuation of one stage, as the control loop sets it."""

    def __init__(self, zone: Zone) -> None:
        self.value = 1.0
        self.zone = zone
        self._last: float | None = None
        self._slow = False

    def steer(self, busy: float, *, step: bool = True) -> None:
        """Judge a busy factor: back off above the zone; below it, take a step if there is room."""
        if busy > self.zone.high:
            self.back_off()
        elif busy < self.zone.low and step:
            self.advance()

    def back_off(self) -> None:
        """Too busy: stop speculating, and remember which value was too low."""
        if self.value < 1.0:
            self._last = self.value
        self.value = 1.0
        self._slow = False

    def next(self) -> float:
        """The value that a step would lead to."""
        target = round(self.value - self.zone.step, 9) if self._is_near else self.value / 2
        return 0.0 if target < LEAST else target

    def advance(self) -> None:
        """Speculate more, by one step."""
        self.value, self._slow = self.next(), self._is_near

    @property
    def _is_near(self) -> bool:
        """Whether halving may bring it where it is too low, as far as is known."""
        target, last = self.value / 2, self._last
        if last is None or self.value <= last / 2:
            return False
        return self._slow or target < (1 - last) / 2 or target <= last


class AttenuationControl:
    """Sets the attenuation of all stages of an engine."""

    def __init__(self, settings: Mapping[str, float | str], zone: Zone) -> None:
        """`settings` has the attenuation of each stage, a number or "adaptive"."""
        self.zone = zone
        self._fixed = {name: float(s) for name, s in settings.items() if s != "adaptive"}
        self._stages = {name: Attenuation(zone) for name in settings if name not in self._fixed}
        self._held = False

    def values(self) -> dict[str, float]:
        """The attenuation of each stage."""
        return self._fixed | {name: stage.value for name, stage in self._stages.items()}

    @property
    def adaptive(self) -> bool:
        """Whether it steers any stage."""
        return bool(self._stages) and not self._held

    def hold(self, value: float) -> None:
        """Stop steering: those that are adaptive have this value until it is said again."""
        self._held = True
        for stage in self._stages.values():
            stage.value = value

    def update(self, loads: Mapping[str, Load], span: Span) -> None:
        """A span is over: judge how busy the loop was, and take steps."""
        if not self.adaptive:
            return
        budget = (self.zone.high - span.busy_factor) * span.seconds
        steps = self._affordable(loads, budget)
        for name, stage in self._stages.items():
            stage.steer(span.busy_factor, step=name in steps)

    def _affordable(self, loads: Mapping[str, Load], budget: float) -> set[str]:
        """The stages whose next step fits into the budget; the first always does."""
        waiting = [name for name, stage in self._stages.items() if stage.value > 0.0]
        waiting.sort(key=lambda name: self._win(name, loads[name]), reverse=True)
        steps = set(waiting[:1])
        for name in waiting:
            # Halving the wait at most doubles what is handled again.
            cost = max(loads[name].replaying, 0.05 * loads[name].busy)
            if name in steps or cost <= budget:
                steps.add(name)
                budget -= cost
        return steps

    def _win(self, name: str, load: Load) -> float:
        stage = self._stages[name]
        return (stage.value - stage.next()) * load.slack * load.released
