"""A windowed operator: what it is, and the options that do not change what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from betimes.model.identity import fact
from betimes.windows.aggregates import Aggregate
from betimes.windows.operators import Frame, facts_of, is_of_whole
from betimes.windows.shapes import FreeWindow, Window

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

    def explain(self) -> str:
        """Describe what is done with which windows, and how that runs.

        >>> from betimes.windows import aggregate, window, windowed
        >>> print(windowed(aggregate(mean="avg(v)"), window(time="10s", slide="2s")).explain())
        window: 10 s every 2 s
        mean: avg(v)
        runs: compiled, over columns
        """
        facts = {"window": self.window.text} | facts_of(self.operator)
        facts["runs"] = "compiled, over columns"
        if not self.compiles:
            many = "one instance" if self.instances == 1 else f"{self.instances} instances"
            where = ", each in its own process" if self.apart else " in this process"
            where += " (on Spark, in its own slot)" if self.spreads else ""
            schedule = fact(self.schedule) if callable(self.schedule) else self.schedule
            given = "" if self.instances == 1 else f", windows by {schedule}"
            facts["runs"] = f"event by event, {many}{where}{given}"
        if self.snapshots is not None and not self.compiles:
            facts["snapshots"] = str(self.snapshots)
        return "\n".join(f"{name}: {text}" for name, text in facts.items())

    @property
    def apart(self) -> bool:
        """Whether instances have processes of their own."""
        return self.workers == "processes" or (self.workers == "auto" and self.instances > 1)

    @property
    def spreads(self) -> bool:
        """Whether instances may be on other machines, if the runtime has some."""
        return self.workers == "auto" and self.instances > 1

    @property
    def sent(self) -> Any:
        """What worker processes have to import; None if there are none."""
        return self.operator if self.apart else None

    @property
    def compiles(self) -> bool:
        """Whether no event has to become a Python object: aggregates, unless conditions cut."""
        plain = isinstance(self.operator, Aggregate) and not isinstance(self.window, FreeWindow)
        return plain and self.instances == 1 and not self.apart
