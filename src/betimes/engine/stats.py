"""What an engine reports about its stages."""

from __future__ import annotations

import msgspec


class StageCounts(msgspec.Struct):
    """Counters of a stage."""

    handled: int = 0
    replays: int = 0
    replayed: int = 0
    retracted: int = 0
    snapshots: int = 0
    late: int = 0
    errors: int = 0
    busy: float = 0.0
    replaying: float = 0.0
    finals: int = 0
    final_latency: int = 0
    made: int = 0
    first_latency: int = 0


class DetectorStats(msgspec.Struct, frozen=True):
    """Readings of one detector; times in microseconds of stream time."""

    detector: str
    level: int
    clock: int | None
    slack: int
    attenuation: float
    buffered: int
    """Events that wait to be handled, or were handled and are not settled."""
    remembered: int
    """Events kept so that the detector can go back."""
    released: int
    handled: int
    replays: int
    replayed: int
    """Events that were handled again."""
    snapshots: int
    snapshot_bytes: int
    retracted: int
    late: int
    errors: int
    retraction: str
    """The technique in use and why."""
    latency_provisional: float | None
    """Mean time from an output's ts to when it was first made."""
    latency_final: float | None
    """Mean time from an output's ts to when it was final."""
    busy: float
    """Seconds spent in this stage."""
    busy_factor: float
    """Share of the last span that the stage was busy."""
