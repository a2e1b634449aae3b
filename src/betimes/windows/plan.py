"""A windowed operator: what it is, and the options that do not change what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from betimes.windows.aggregates import Aggregate
from betimes.windows.operators import Frame, facts_of, is_of_whole
from betimes.windows.shapes import TimeWindow, Window

Workers = Literal["auto", "inline", "processes"]
WORKERS: tuple[Workers, ...] = ("auto", "inline", "processes")


@dataclass(frozen=True)
class Windowed:
    """What `windowed` returns."""

    operator: Any
    window: Window
    frame: Frame = "arrow"
    instances: int = 1
    schedule: Any = "round_robin"
    snapshots: Any = None
    """The model of snapshots; None takes the engine's."""
    workers: Workers = "auto"

    @property
    def name(self) -> str:
        """What it is called if nobody names it; aggregates are called what they emit."""
        return getattr(self.operator, "__name__", None) or type(self.operator).__name__

    def facts(self) -> dict[str, str]:
        """What is done with which windows, in words."""
        frame = {"frame": self.frame} if is_of_whole(self.operator) else {}
        return self.window.facts() | facts_of(self.operator) | frame

    @property
    def apart(self) -> bool:
        """Whether instances have processes of their own."""
        return self.workers == "processes" or (self.workers == "auto" and self.instances > 1)

    @property
    def compiles(self) -> bool:
        """Whether no event has to become a Python object: aggregates over windows of time."""
        plain = isinstance(self.operator, Aggregate) and isinstance(self.window, TimeWindow)
        return plain and self.instances == 1 and not self.apart
