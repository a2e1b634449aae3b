"""How a live run went: its course, a table of it, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import fmean


@dataclass(frozen=True)
class Moment:
    """What was read after a batch; times are seconds since the start."""

    at: float
    fed: int
    """Events so far."""
    lag: float
    """How long the newest of them had waited."""
    attenuation: float
    busy: float
    latency: float | None = None
    """Mean stream time until the results of the batch were made."""
    memory: int = 0
    """Resident bytes."""
    cpu: float = 0.0
    """Seconds that the process has computed, if all of the work is done in one."""


@dataclass
class Course:
    """A live run, batch by batch."""

    name: str
    moments: list[Moment] = field(default_factory=list)

    def during(self, begin: float, end: float) -> list[Moment]:
        return [moment for moment in self.moments if begin <= moment.at < end]

    def pace(self, since: float = 0.0) -> float:
        """Events per second, from the end of the first batch on: in that one, things start."""
        found = self.during(since, inf)
        if len(found) < 2:
            raise ValueError(f"expected two batches after {since:g} s, got {len(found)}")
        return (found[-1].fed - found[0].fed) / (found[-1].at - found[0].at)

    def cost(self, begin: float, end: float) -> float | None:
        """Seconds of computing per event, if known; other processes hardly change it."""
        found = self.during(begin, end)
        if not found or found[-1].fed == found[0].fed or not found[-1].cpu:
            return None
        return (found[-1].cpu - found[0].cpu) / (found[-1].fed - found[0].fed)

    def backed_off_after(self, time: float) -> float | None:
        """Seconds until the attenuation was 1."""
        found = [m.at for m in self.moments if m.at >= time and m.attenuation == 1.0]
        return found[0] - time if found else None

    def back_after(self, time: float, lag: float) -> float | None:
        """Seconds until the lag was this or less."""
        found = [m.at for m in self.moments if m.at >= time and m.lag <= lag]
        return found[0] - time if found else None

    def latency(self, begin: float, end: float) -> float | None:
        found = [m.latency for m in self.during(begin, end) if m.latency is not None]
        return fmean(found) if found else None


def picture(courses: Mapping[str, Course], path: Path, title: str) -> None:
    """Draw attenuation, busy factor, lag and memory over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows: dict[str, Callable[[Moment], float]] = {
        "attenuation": lambda m: m.attenuation,
        "busy factor": lambda m: m.busy,
        "lag (s)": lambda m: m.lag,
        "resident (MB)": lambda m: m.memory / 1e6,
    }
    figure, axes = pyplot.subplots(len(rows), 1, sharex=True, figsize=(8, 8))
    for axis, (label, of) in zip(axes, rows.items(), strict=True):
        for name, course in courses.items():
            points = [(m.at, of(m)) for m in course.moments]
            axis.plot(*zip(*points, strict=True), label=name, linewidth=1)
        axis.set_ylabel(label)
    axes[0].set_title(title)
    axes[0].legend()
    axes[-1].set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
