"""What an engine reports about its stages."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.model.duration import readable
from betimes.ordering.stats import spelled


class StageCounts(msgspec.Struct):
    """Counters of a stage."""

    handled: int = 0
    replays: int = 0
    replayed: int = 0
    retracted: int = 0
    snapshots: int = 0
    late: int = 0
    late_by: int = 0
    errors: int = 0
    busy: float = 0.0
    replaying: float = 0.0
    finals: int = 0
    final_latency: int = 0
    made: int = 0
    first_latency: int = 0
    how: str = ""
    work: dict[str, float] = {}

    def readings(self) -> dict[str, Any]:
        """Those of them that users see."""
        return {
            "handled": self.handled,
            "replays": self.replays,
            "replayed": self.replayed,
            "retracted": self.retracted,
            "late": self.late,
            "late_by": self.late_by,
            "errors": self.errors,
            "latency_provisional": self.first_latency / self.made if self.made else None,
            "latency_final": self.final_latency / self.finals if self.finals else None,
            "busy": self.busy,
            "how": self.how,
        }


class DetectorStats(msgspec.Struct, frozen=True):
    """Readings of one detector.

    Times are microseconds of stream time; when printed, durations are shown with their unit.
    """

    detector: str
    level: int
    clock: int | None
    """Stream time; None until the first clock event arrives."""
    slack: int
    delays: dict[str, int]
    """The largest delay of each type that it takes: where the slack comes from."""
    attenuation: float
    buffered: int
    """Events that wait to be handled, or were handled and are not settled."""
    waiting: int
    """Those of them that wait to be handled."""
    remembered: int
    """Events kept so that the detector can go back."""
    history_bytes: int
    """About how much memory they and what they made take."""
    released: int
    handled: int
    """Different events; so of the input that it takes, all are `handled`, `late`, `waiting`, or
    rejected because they are too far ahead."""
    replays: int
    replayed: int
    """Events that were handled again."""
    snapshots: int
    snapshot_bytes: int
    retracted: int
    late: int
    """Events that came too late and were not handled."""
    late_by: int
    """By how much the latest of them came after its place was settled."""
    errors: int
    """Events at which it fails, out of those that it has handled."""
    retraction: str
    """The technique in use and why."""
    latency_provisional: float | None
    """Mean time from an output's ts to when it was first made."""
    latency_final: float | None
    """Mean time from an output's ts to when it was final."""
    waits_for: Any
    """If the stream has sources: the slowest of those that count; nothing settles without it."""
    busy: float
    """Seconds spent in this stage."""
    busy_share: float
    """Share of the last span that was spent in this stage."""
    busy_factor: float
    """Share of the last span that the whole loop was busy: all stages, and all around them."""
    how: str = ""
    """Of transactions: where they run, why, and which keys conflict most."""
    parts: dict[str, dict[str, float]] = {}
    """Counts of each part, if it has parts that go back alone, as windowed operators have. Of
    transactions: `executions`, those that had to run again (`aborts`), `seconds`, and the seconds
    of executing that were done in this time, in all processes (`worked`)."""

    def __repr__(self) -> str:
        shown = {name: repr(getattr(self, name)) for name in self.__struct_fields__}
        for name in ("how", "parts"):
            if not getattr(self, name):
                del shown[name]
        shown["slack"] = readable(self.slack)
        shown["delays"] = spelled(self.delays)
        shown["late_by"] = readable(self.late_by)
        for name in ("latency_provisional", "latency_final"):
            latency = getattr(self, name)
            shown[name] = "None" if latency is None else readable(latency)
        shown["busy"] = readable(1e6 * self.busy)
        shown["busy_share"] = f"{self.busy_share:.2g}"
        shown["busy_factor"] = f"{self.busy_factor:.2g}"
        return f"DetectorStats({', '.join(f'{name}={text}' for name, text in shown.items())})"
