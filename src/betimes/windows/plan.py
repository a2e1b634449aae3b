"""How a windowed operator runs: what it is, and the options that do not change what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from betimes.windows.operators import OperatorSpec
from betimes.windows.shapes import Window

Workers = Literal["auto", "inline", "processes"]
WORKERS: tuple[Workers, ...] = ("auto", "inline", "processes")


@dataclass(frozen=True)
class Plan:
    """What a tactic is made from."""

    window: Window
    spec: OperatorSpec
    instances: int = 1
    schedule: Any = "round_robin"
    snapshots: Any = None
    """The model of snapshots; None takes the engine's."""
    workers: Workers = "auto"

    @property
    def apart(self) -> bool:
        """Whether instances have processes of their own."""
        return self.workers == "processes" or (self.workers == "auto" and self.instances > 1)
