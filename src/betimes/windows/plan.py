"""How a windowed operator runs: the options that do not change what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from betimes.engine.snapshots.spacing import parse_snapshots
from betimes.model.event import Event
from betimes.windows.instances import Instance
from betimes.windows.operators import Operator
from betimes.windows.shapes import Window


@dataclass(frozen=True)
class Plan:
    """What a tactic is made from."""

    window: Window
    instances: int
    schedule: Any
    snapshots: Any
    """The model of snapshots; None takes the engine's."""

    def instance(
        self,
        operator: Operator,
        *,
        time: Callable[[], float],
        check: Callable[[Iterable[Event]], None],
    ) -> Instance:
        """One of the instances."""
        spacing = parse_snapshots("adaptive" if self.snapshots is None else self.snapshots)
        return Instance(operator, spacing, time=time, check=check)
