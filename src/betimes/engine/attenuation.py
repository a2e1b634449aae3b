"""How far to speculate: a control loop like TCP's congestion control (paper *speculation*, 4.4).

Every `span` the busy factor, busy time / span, is compared with a target zone. Above it, the
attenuation returns to 1 at once, and the value that was too low is remembered. Below it, the
attenuation is halved until halving would bring it below the bisection line `(1 - last) / 2`; from
there on it is lowered in small steps.

Unlike in the paper, the stages of an engine share one machine. In each span, a stage takes a step
only if the step fits into the free budget. The stages whose step saves the most latency for the
events that pass through them come first, and the first of them always takes its step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from betimes.engine.stats import StageCounts
from betimes.model.errors import OptionError
from betimes.model.hints import known_options


@known_options
@dataclass(frozen=True)
class Zone:
    """The busy factors to aim at, and how often to look."""

    low: float = 0.8
    high: float = 0.9
    step: float = 0.05
    span: float = 0.5


class Attenuation:
    """The attenuation of one stage, as the control loop sets it."""

    def __init__(self, zone: Zone) -> None:
        self.value = 1.0
        self._zone = zone
        self._last: float | None = None
        self._slow = False

    def steer(self, busy: float, *, step: bool = True) -> None:
        """Judge a busy factor: back off above the zone; below it, take a step if there is room."""
        if busy > self._zone.high:
            self.back_off()
        elif busy < self._zone.low and step:
            self.advance()

    def back_off(self) -> None:
        """Too busy: stop speculating, and remember which value was too low."""
        if self.value < 1.0:
            self._last = self.value
        self.value = 1.0
        self._slow = False

    def next(self) -> float:
        """The value that a step would lead to."""
        target = self.value / 2
        line = 0.0 if self._last is None else (1 - self._last) / 2
        if self._slow or target < line:
            target = self.value - self._zone.step
        return 0.0 if target < 0.01 else target

    def advance(self) -> None:
        line = 0.0 if self._last is None else (1 - self._last) / 2
        self._slow = self._slow or self.value / 2 < line
        self.value = self.next()


@dataclass(frozen=True)
class Load:
    """What a stage did in the last span."""

    busy: float
    replaying: float
    released: int
    slack: int

    def __add__(self, other: Load) -> Load:
        """The load of two stages of one detector, for different keys."""
        return Load(
            self.busy + other.busy,
            self.replaying + other.replaying,
            self.released + other.released,
            max(self.slack, other.slack),
        )


class Meter:
    """Measures what a stage does between two readings."""

    def __init__(self, counts: StageCounts) -> None:
        self._counts = counts
        self._before = (0.0, 0.0, 0)
        self.last: Load | None = None

    def read(self, slack: int) -> Load:
        counts, before = self._counts, self._before
        self._before = (counts.busy, counts.replaying, counts.handled)
        self.last = Load(
            busy=counts.busy - before[0],
            replaying=counts.replaying - before[1],
            released=counts.handled - before[2],
            slack=slack,
        )
        return self.last


class AttenuationControl:
    """Sets the attenuation of all stages of an engine."""

    def __init__(self, names: Sequence[str], setting: float | str, zone: Zone) -> None:
        self.adaptive = setting == "adaptive"
        if not self.adaptive and not (isinstance(setting, int | float) and 0 <= setting <= 1):
            raise OptionError(
                "expected attenuation to be 'adaptive' or a number from 0 to 1, "
                f"got attenuation={setting!r}"
            )
        self.zone = zone
        self.busy_factor = 0.0
        self._stages = {name: Attenuation(zone) for name in names}
        self._fixed = 1.0 if self.adaptive else float(setting)

    def values(self) -> dict[str, float]:
        """The attenuation of each stage."""
        return {
            name: stage.value if self.adaptive else self._fixed
            for name, stage in self._stages.items()
        }

    def update(self, loads: Mapping[str, Load], span: float) -> None:
        """A span is over: judge the load, and take steps."""
        self.busy_factor = sum(load.busy for load in loads.values()) / span
        if not self.adaptive:
            return
        budget = (self.zone.high - self.busy_factor) * span
        steps = self._affordable(loads, budget)
        for name, stage in self._stages.items():
            stage.steer(self.busy_factor, step=name in steps)

    def _affordable(self, loads: Mapping[str, Load], budget: float) -> set[str]:
        """The stages whose next step fits into the budget; the first always does."""
        waiting = [name for name in loads if self._stages[name].value > 0.0]
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
